"""Settings, projects and their moves, as shown to people and scripts."""

from __future__ import annotations

import dataclasses
import inspect
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from engram.ingest.project_moves import Move, Sorted
from engram.models.engine.transaction import Store
from engram.models.projects.project_folders import ProjectCounts, ProjectHints, count_projects, list_hints
from engram.models.projects.projects import PLACEHOLDER, ProjectRow, list_held_projects, list_projects
from engram.models.work.work import paused_scopes
from engram.settings import Settings


def plain_settings(settings: Settings) -> dict[str, object]:
    """Return every setting by name: a number, string, boolean or list of strings."""
    return {field.name: plain_value(getattr(settings, field.name)) for field in dataclasses.fields(settings)}


def plain_value(value: object) -> object:
    if isinstance(value, Path):
        return str(value)
    return list(value) if isinstance(value, tuple) else value


def shown_value(value: object) -> str:
    if isinstance(value, list):
        return ", ".join(str(part) for part in value)
    return str(value).lower() if isinstance(value, bool) else str(value)


@dataclass(frozen=True, slots=True)
class ExplainedSetting:
    """A setting, explained by the comments above it in ``engram.settings``, with `code` in backticks."""

    name: str
    section: str
    #: What the settings of the section are for, in a sentence.
    about: str
    default: str
    meaning: str


def explained_settings() -> Iterator[ExplainedSetting]:
    """Yield every setting with its explanation, in the order of the source."""
    section, about, texts = "", "", list[str]()
    for line in inspect.getsource(Settings).splitlines():
        if found := re.match(r"    #: (.*)", line):
            texts.append(found[1])
        elif found := re.match(r"    # (.*)", line):
            section, _, about = found[1].partition(": ")
        elif found := re.match(r"    (\w+): ", line):
            meaning = " ".join(texts).replace("``", "`")
            yield ExplainedSetting(found[1], section, about, default_of(found[1]), meaning)
            texts = []
        elif "def " in line:
            return


def default_of(name: str) -> str:
    """Return the default of a setting; for a folder, the summary of the function that finds the folder."""
    known = next(known for known in dataclasses.fields(Settings) if known.name == name)
    if known.default is dataclasses.MISSING:
        assert callable(known.default_factory)
        said = " ".join((known.default_factory.__doc__ or "").partition("\n\n")[0].split())
        return said.removeprefix("Return ").rstrip(".").replace("``", "`")
    value: Any = known.default
    if isinstance(value, tuple):
        return ", ".join(f"`{item}`" for item in value) or "none"
    return f"`{shown_value(plain_value(value))}`" if value != "" else "none"


# -- Projects with their folders, and projects that may have moved.


@dataclass(frozen=True, slots=True)
class ProjectReport:
    hints: ProjectHints
    counts: ProjectCounts
    is_paused: bool

    @property
    def project(self) -> ProjectRow:
        return self.hints.project

    @property
    def folder(self) -> str:
        """Its folder; after a move, the joined one that is there. Its identity if no folder is known; "" if only
        another machine has it.
        """
        identity = self.project.identity
        known = self.hints.present_folder or self.project.root
        return known or ("" if identity.startswith(PLACEHOLDER) else identity)

    @property
    def other_folders(self) -> tuple[str, ...]:
        """The other folders that belong to it: those that were joined, and its own from before a move."""
        return tuple(folder for folder in self.hints.all_folders if folder != self.folder)

    @property
    def has_folder(self) -> bool:
        return bool(self.hints.present_folder)

    @property
    def is_gone(self) -> bool:
        """True if it had a folder on this machine that is no longer there."""
        return bool(self.folder) and not self.has_folder

    def to_json(self) -> dict[str, Any]:
        return {
            "name": self.project.name,
            "folder": self.folder,
            "folder_exists": self.has_folder,
            "joined_folders": list(self.other_folders),
            "remote": self.hints.remote,
            "first_commit": self.hints.first_commit,
            "sessions": self.counts.sessions,
            "memories": self.counts.memories,
            "paused": self.is_paused,
        }


def list_project_reports(store: Store, *, with_empty: bool = False) -> list[ProjectReport]:
    counts, paused = count_projects(store), paused_scopes(store)
    held = {project.id for project in (list_projects(store) if with_empty else list_held_projects(store))}
    return [
        ProjectReport(hints, counts.get(hints.project.id, ProjectCounts()), hints.project.identity in paused)
        for hints in list_hints(store)
        if hints.project.id in held
    ]


def move_to_json(move: Move) -> dict[str, Any]:
    return {
        "former": move.former.project.name,
        "former_folder": move.former.project.root,
        "present": move.present.project.name,
        "present_folder": move.present.project.root,
        "certain": move.is_certain,
    }


def sorting_to_json(found: Sequence[Sorted]) -> list[dict[str, Any]]:
    """Return the finished or planned sorting as JSON, with one entry for each pair of projects."""
    rows: dict[tuple[int, str], dict[str, Any]] = {}
    for change in found:
        first = {
            "from": change.former.name,
            "to": change.present.name,
            "folder": change.present.root,
            "whole": change.is_whole,
        }
        row = rows.setdefault((change.former.id, change.present.identity), first | {"sessions": 0, "turns": 0})
        row["sessions"] += change.is_session
        row["turns"] += len(change.turn_ids)
    return list(rows.values())
