"""Find the project of a memory that comes from elsewhere: by its folder, its session, or its display name."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path, PurePath

from engram.atomic import read_regular
from engram.enums import Scope
from engram.exchange.incoming import IncomingMemory, Place
from engram.ingest.moves import NAME_ONLY
from engram.ingest.scope import identify_folder, project_for
from engram.models.project_folders import note_hints_in
from engram.models.project_names import project_id_of_name
from engram.models.projects import (
    ProjectRow,
    ensure_project,
    find_project_of_identity,
    list_projects,
    project_by_id,
)
from engram.models.sessions import find_session
from engram.models.store import Store
from engram.models.transaction import Tx
from engram.settings import Settings
from engram.transcripts.project import Project

#: Bytes at the beginning of a transcript in which its working folder is looked for.
MAX_HEAD_BYTES = 300_000

#: Changes the beginning of a folder, for files from a machine with other folders.
MapFolder = Callable[[str], str]


@dataclass(frozen=True, slots=True)
class FoundPlace:
    """Where a memory goes."""

    #: Display name; "" for no project.
    name: str
    #: None for no project, or (in a dry run) for one that would be made.
    project: ProjectRow | None = None
    is_new: bool = False


class PlaceFinder:
    """Finds the projects of imported memories."""

    def __init__(
        self, store: Store, settings: Settings, *, into: ProjectRow | None = None, map_folder: MapFolder = str
    ) -> None:
        """Prepare.

        Args:
            store: the open memory.
            settings: they name the folders of projects and of transcripts.
            into: the project that memories without a project of their own go to; None for none.
            map_folder: changes folders that the file names.
        """
        self._store = store
        self._settings = settings
        self._into = into
        self._map_folder = map_folder
        self._transcripts: dict[str, Path] | None = None
        self._of_session: dict[str, Project | None] = {}

    def find(self, memory: IncomingMemory) -> FoundPlace:
        """Return where a memory would go; nothing is written."""
        known, wanted = self._look_up(memory)
        if known is not None:
            return FoundPlace(known.name, known)
        return FoundPlace("" if wanted is None else wanted.name)

    def make(self, tx: Tx, memory: IncomingMemory) -> FoundPlace:
        """Return where a memory goes, and make a project that is not known."""
        known, wanted = self._look_up(memory)
        if known is not None:
            return FoundPlace(known.name, known)
        if wanted is None:
            return FoundPlace("")
        made = ensure_project(tx, wanted.identity, wanted.name, wanted.root)
        if memory.place is not None and (memory.place.remote or memory.place.first_commit):
            note_hints_in(tx, made.id, memory.place.remote, memory.place.first_commit)
        return FoundPlace(made.name, made, is_new=True)

    def _look_up(self, memory: IncomingMemory) -> tuple[ProjectRow | None, Project | None]:
        """Return the known project of a memory, else what is known of one that is to be made."""
        place = memory.place
        if memory.episode.scope is Scope.GLOBAL and place is None:
            return None, None
        if place is None:
            project = self._project_of_session(memory.episode.session_id)
            return (self._into, None) if project is None else self._with_row(project)
        if place.identity:
            identity, root = self._map_folder(place.identity), self._map_folder(place.root)
            return self._with_row(Project(identity, root, place.name))
        for wanted in (self._project_of_session(memory.episode.session_id), self._folder_of_name(place.name)):
            if wanted is not None:
                return self._with_row(wanted)
        return self._known_by_name(place), Project(f"{NAME_ONLY}{place.name}", "", PurePath(place.name).name)

    def _with_row(self, project: Project) -> tuple[ProjectRow | None, Project]:
        return find_project_of_identity(self._store, project.identity), project

    def _project_of_session(self, session_id: str) -> Project | None:
        """Return the project of a session: as it is stored, or by the working folder in its transcript."""
        if not session_id:
            return None
        if session_id not in self._of_session:
            self._of_session[session_id] = self._find_project_of_session(session_id)
        return self._of_session[session_id]

    def _find_project_of_session(self, session_id: str) -> Project | None:
        session = find_session(self._store, session_id)
        if session is not None and session.project_id is not None:
            row = project_by_id(self._store, session.project_id)
            return None if row is None else Project(row.identity, row.root, row.name)
        if self._transcripts is None:
            folders = [folder / "projects" for folder in self._settings.all_claude_folders]
            self._transcripts = {path.stem: path for folder in folders for path in folder.glob("*/*.jsonl")}
        path = self._transcripts.get(session_id)
        cwd = "" if path is None else _working_folder(path)
        project = project_for(self._store, cwd, self._settings) if cwd else None
        return project if project is not None and project.identity and not project.is_global else None

    def _folder_of_name(self, name: str) -> Project | None:
        """Return the project of a folder of this name in one of the folders of projects, if it is the only one."""
        folders = [Path(root).expanduser() / name for root in self._settings.project_roots]
        found = {
            project.identity: project
            for folder in folders
            if folder.is_dir() and not (project := identify_folder(str(folder), self._settings)).is_global
        }
        return next(iter(found.values())) if len(found) == 1 else None

    def _known_by_name(self, place: Place) -> ProjectRow | None:
        """Return the project of a name, or the only one whose folder ends like it."""
        ending = tuple(part.casefold() for part in PurePath(place.name).parts)
        fitting = [
            project
            for project in list_projects(self._store)
            if ending and tuple(part.casefold() for part in PurePath(project.root).parts)[-len(ending) :] == ending
        ]
        if len(fitting) == 1:
            return fitting[0]
        # With several such folders nobody knows which one is meant, and one must not see what belongs to another.
        project_id = None if fitting else project_id_of_name(self._store, place.name)
        if project_id is not None:
            return project_by_id(self._store, project_id)
        return find_project_of_identity(self._store, f"{NAME_ONLY}{place.name}")


def _working_folder(path: Path) -> str:
    """Return the first working folder in a transcript; "" if there is none at its beginning."""
    for line in (read_regular(path, MAX_HEAD_BYTES) or b"").splitlines():
        if b'"cwd"' not in line:
            continue
        try:
            entry = json.loads(line)
        except (ValueError, RecursionError):
            continue
        if isinstance(entry, dict) and isinstance(entry.get("cwd"), str):
            return str(entry["cwd"])
    return ""
