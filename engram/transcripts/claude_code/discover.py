"""Find the transcripts in a Claude configuration folder, recognising them by name and location."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from engram.paths import is_session_id
from engram.system.atomic import read_regular
from engram.system.lazy_regex import lazy_regex
from engram.transcripts.agents import Source
from engram.transcripts.claude_code import AGENT
from engram.transcripts.transcript_files import Walk, facts_of, files_below, reason_against_link

SUFFIX = ".jsonl"
#: The file with the prompts of all sessions in the Claude configuration folder; it is not a transcript.
HISTORY = "history.jsonl"
_SUBAGENT_PREFIX = "agent-"
_SUBAGENTS = "subagents"
#: Maximum depth of a subagent's file below ``subagents``, in folders.
_MAX_SUBAGENT_DEPTH = 4
#: Maximum depth of transcripts below a folder given by the user, in folders.
_MAX_DEPTH = 16
#: The name of a session, and of the folder in which tools store its files.
_UUID = lazy_regex(r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")


def projects_folder(config: Path) -> Path:
    """Return the folder of all transcripts in a Claude configuration folder; ``config`` itself if it is that folder."""
    inner = config / "projects"
    return config if config.name == "projects" and not os.path.isdir(inner) else inner


def find_transcripts(config: Path, *, with_subagents: bool = False, walk: Walk | None = None) -> Iterator[Source]:
    """Yield every session transcript in ``config``, links last. No file is opened.

    A folder that is missing or unreadable yields none. ``walk.skipped`` lists the files that are not read.
    """
    projects = projects_folder(config)
    walk = Walk(projects) if walk is None else walk
    links: list[Path] = []
    for project in walk.entries(projects):
        folder = _project_folder(walk, project, projects)
        for entry in walk.entries(folder) if folder is not None else ():
            path = Path(entry.path)
            if path.suffix == SUFFIX and entry.is_symlink():
                links.append(path)
            elif path.suffix == SUFFIX:
                yield from _named(walk, path, with_subagents=with_subagents)
            elif with_subagents and is_session_id(entry.name) and walk.folder(entry) is not None:
                yield from _subagents(walk, path / _SUBAGENTS, _MAX_SUBAGENT_DEPTH)
    for path in links:
        yield from _named(walk, path, with_subagents=with_subagents)


def _project_folder(walk: Walk, entry: os.DirEntry[str], projects: Path) -> Path | None:
    """Return the folder of a project; None for other entries, and for a link into a session's folder."""
    folder = walk.folder(entry)
    if folder is not None and entry.is_symlink() and not _is_linked_place((entry.name, SUFFIX), projects):
        walk.skip(folder, "a link into a session's folder")
        return None
    return folder


def _named(walk: Walk, path: Path, *, with_subagents: bool) -> Iterator[Source]:
    """Yield the transcript at a path where Claude Code writes transcripts, if it should be read."""
    parent = _parent_of(path)
    if parent and not with_subagents:
        return
    if not is_session_id(path.stem):
        walk.skip(path, "its name is not that of a session file")
    elif (facts := walk.file(path)) is not None:
        yield Source.of_file(AGENT, path, facts, path.stem, parent_id=parent)


def identify(path: Path, projects: Path | None = None) -> Source | None:
    """Classify a path by its name and location; None if it is not a transcript or can't be examined.

    Claude Code writes a session to ``<project>/<session>.jsonl``, and a subagent to ``<project>/agent-<id>.jsonl`` or
    below ``<project>/<session>/subagents``. All other files in a session's folder are written by tools.

    Args:
        projects: the folder of all projects. A path outside it may be in any folder, because people archive
            transcripts, except in one named like a session.
    """
    if path.suffix != SUFFIX or path.name == HISTORY or not is_session_id(path.stem):
        return None
    place = _place_below(path, projects)
    if not (_is_place_elsewhere(path) if place is None else _is_place_in_projects(place)):
        return None
    facts = facts_of(path)
    return None if facts is None else Source.of_file(AGENT, path, facts, path.stem, parent_id=_parent_of(path))


def transcripts_below(folder: Path, projects: Path) -> Iterator[Source]:
    """Yield the transcripts in a folder given by the user: Claude's own, a project's, or any folder of transcripts.

    Args:
        projects: the folder of all projects of this machine's Claude Code.
    """
    walk = Walk(folder)
    paths = [path for path in files_below(walk, folder, _MAX_DEPTH) if path.suffix == SUFFIX]
    for path in sorted(paths, key=lambda path: (path.is_symlink(), path)):
        if walk.file(path) is None:
            continue
        inner = path.relative_to(folder.parent).parts[:-1]
        own = folder.parent.joinpath(*inner[: inner.index("projects") + 1]) if "projects" in inner else None
        root = projects if _place_below(path, projects) is not None else own
        source = identify(path, root)
        if source is not None:
            yield source


def _place_below(path: Path, projects: Path | None) -> tuple[str, ...] | None:
    """Return the parts of a path below the folder of all projects; None if outside, () if a link leads elsewhere."""
    if projects is None:
        return None
    real = Path(os.path.realpath(path.parent)) / path.name
    below = _parts_below(real, Path(os.path.realpath(projects)))
    named = _parts_below(path, Path(os.path.abspath(projects)))
    if named is None or below == named:
        return below
    return named if below is None and _is_linked_place(named, projects) else ()


def _is_linked_place(parts: tuple[str, ...], projects: Path) -> bool:
    """Return True for a path through a project folder that links to a user's folder outside all projects."""
    link = projects / parts[0]
    real = Path(os.path.realpath(link))
    try:
        facts = os.stat(link)
    except (OSError, ValueError):
        return False
    is_below_link = Path(os.path.realpath(link.joinpath(*parts[1:-1]))) == real.joinpath(*parts[1:-1])
    is_outside = _parts_below(real, Path(os.path.realpath(projects))) is None
    return is_below_link and is_outside and not reason_against_link(facts) and _is_place_elsewhere(real / parts[-1])


def _parts_below(path: Path, folder: Path) -> tuple[str, ...] | None:
    return path.relative_to(folder).parts if path.is_relative_to(folder) else None


def _is_place_in_projects(parts: tuple[str, ...]) -> bool:
    """Return True for a path below the folder of all projects where Claude Code stores transcripts."""
    if len(parts) == 2:
        return True
    return 4 <= len(parts) <= 4 + _MAX_SUBAGENT_DEPTH and parts[2] == _SUBAGENTS and is_session_id(parts[1])


def _is_place_elsewhere(path: Path) -> bool:
    """Return True if the path is not in a session's folder, or is in its subagents' folder."""
    parts = path.parts[:-1]
    sessions = [number for number, part in enumerate(parts) if _UUID.fullmatch(part)]
    return not sessions or parts[sessions[0] + 1 : sessions[0] + 2] == (_SUBAGENTS,)


def _parent_of(path: Path) -> str:
    """Return the session to which a subagent's file belongs, because subagent ids are unique only within a session."""
    parts = path.parts
    if _SUBAGENTS in parts[:-1]:
        index = len(parts) - 2 - parts[-2::-1].index(_SUBAGENTS)
        if index > 0 and is_session_id(parts[index - 1]):
            return parts[index - 1]
    return path.parent.name.lstrip("-") or "agent" if path.name.startswith(_SUBAGENT_PREFIX) else ""


def _subagents(walk: Walk, folder: Path, depth: int) -> Iterator[Source]:
    for entry in walk.entries(folder):
        path = Path(entry.path)
        if path.suffix == SUFFIX:
            yield from _named(walk, path, with_subagents=True)
        elif depth and walk.folder(entry) is not None:
            yield from _subagents(walk, path, depth - 1)


# -- Find out when Claude Code deletes transcripts, and which ones are next.

#: Number of days for which Claude Code keeps a transcript if ``cleanupPeriodDays`` is not set.
DEFAULT_CLEANUP_DAYS = 30
#: A transcript counts as about to be deleted if it will be deleted within this many days.
SOON_DAYS = 7
_DAY_NS = 86_400 * 10**9
_MAX_SETTINGS_BYTES = 4_000_000


@dataclass(frozen=True, slots=True)
class Retention:
    """The transcripts that Claude Code is about to delete."""

    #: Number of days from a transcript's last change to its deletion.
    days: int
    #: Number of Claude Code's sessions.
    sessions: int
    #: Those that will be deleted within ``SOON_DAYS``, oldest first.
    expiring: tuple[Source, ...]


def read_cleanup_days(claude_folder: Path) -> int:
    """Return ``cleanupPeriodDays`` from the user's settings; the default if it is missing or unreadable."""
    try:
        # Many people keep their settings elsewhere, behind a link.
        path = Path(os.path.realpath(claude_folder / "settings.json"))
        settings = json.loads(read_regular(path, _MAX_SETTINGS_BYTES) or b"{}")
        days = settings.get("cleanupPeriodDays", DEFAULT_CLEANUP_DAYS)
    except (ValueError, AttributeError, RecursionError):
        return DEFAULT_CLEANUP_DAYS
    is_number = isinstance(days, int | float) and not isinstance(days, bool)
    return max(0, int(days)) if is_number else DEFAULT_CLEANUP_DAYS


def find_expiring(sources: Iterable[Source], folders: Sequence[Path], now_seconds: float) -> Retention:
    """Return the transcripts that Claude Code will delete within ``SOON_DAYS``, judging by their last change.

    Args:
        folders: the configuration folders of Claude Code, each with its own retention time; the first one's is
            returned.
        now_seconds: the time, in seconds since 1970.
    """
    days = {folder: read_cleanup_days(folder) for folder in folders}

    def is_expiring(source: Source) -> bool:
        own = next((folder for folder in folders if source.path.is_relative_to(folder)), folders[0])
        return source.changed_at_ns < int(now_seconds * 10**9) - (days[own] - SOON_DAYS) * _DAY_NS

    sessions = [source for source in sources if source.agent == AGENT and not source.is_subagent]
    expiring = sorted((source for source in sessions if is_expiring(source)), key=lambda source: source.changed_at_ns)
    return Retention(days[folders[0]], len(sessions), tuple(expiring))
