"""Find the transcripts below a Claude configuration folder."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from engram.paths import is_session_id

_SUFFIX = ".jsonl"
_AGENT_PREFIX = "agent-"
_SUBAGENTS = "subagents"
#: So many folders deep a subagent's file may lie below ``subagents``.
_SUBAGENT_DEPTH = 4
#: How Claude Code names a session, and the folder in which tools keep its files.
_UUID = re.compile(r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")


@dataclass(frozen=True, slots=True)
class TranscriptFile:
    """One transcript that was found."""

    path: Path
    session_id: str
    #: Bytes when it was found.
    size: int
    #: Last change in nanoseconds since 1970.
    changed_at_ns: int
    #: Session that started the subagent; "" for a session's own file.
    parent_id: str = ""

    @property
    def is_subagent(self) -> bool:
        """True for the transcript of a subagent."""
        return bool(self.parent_id)


def projects_folder(config: Path) -> Path:
    """The folder of transcripts of a Claude configuration folder; a folder named ``projects`` is taken as it is."""
    inner = config / "projects"
    return config if config.name == "projects" and not inner.is_dir() else inner


def find_transcripts(config: Path, *, with_subagents: bool = False) -> Iterator[TranscriptFile]:
    """Every session transcript below ``config``, by path; links, pipes and odd names are passed over.

    A folder that is missing or cannot be read holds none. No file is opened.
    """
    projects = projects_folder(config)
    for folder in _folders(projects):
        for entry in _entries(folder):
            found = identify(Path(entry.path), projects, with_subagents=with_subagents)
            if found is not None:
                yield found
            elif with_subagents and is_session_id(entry.name) and entry.is_dir(follow_symlinks=False):
                yield from _subagents(Path(entry.path) / _SUBAGENTS, projects, depth=_SUBAGENT_DEPTH)


def identify(path: Path, projects: Path | None = None, *, with_subagents: bool = True) -> TranscriptFile | None:
    """What a path is by its name and place; None where it is no transcript or cannot be looked at.

    The one rule for sweeps, events, tasks and commands. Claude Code writes a session to ``<project>/<session>.jsonl``,
    a subagent to ``<project>/agent-<id>.jsonl`` or below ``<project>/<session>/subagents``. Whatever else lies in a
    session's folder was put there by tools.

    Args:
        projects: the folder of all projects, for paths that lie below it; elsewhere a person may keep transcripts in
            any folder but one that is named like a session.
        with_subagents: False where subagents are not read.
    """
    if path.suffix != _SUFFIX or not is_session_id(path.stem):
        return None
    if not (_is_named_place(path) if (place := _place_below(path, projects)) is None else _is_place(place)):
        return None
    try:
        found = path.lstat()
    except (OSError, ValueError):
        return None
    if not stat.S_ISREG(found.st_mode):
        return None
    parent = _parent_of(path)
    if parent and not with_subagents:
        return None
    session_id = f"{parent}.{path.stem}"[:128] if parent else path.stem
    return TranscriptFile(path, session_id, found.st_size, found.st_mtime_ns, parent)


def transcripts_below(folder: Path, projects: Path, *, with_subagents: bool = False) -> Iterator[TranscriptFile]:
    """The transcripts of a folder that a person names: Claude's own, one project's, or any folder of transcripts.

    Args:
        folder: the folder.
        projects: the folder of all projects of this machine's Claude Code.
    """
    for path in sorted(folder.rglob(f"*{_SUFFIX}")):
        inner = path.relative_to(folder.parent).parts[:-1]
        own = folder.parent.joinpath(*inner[: inner.index("projects") + 1]) if "projects" in inner else None
        root = projects if _place_below(path, projects) is not None else own
        found = identify(path, root, with_subagents=with_subagents)
        if found is not None:
            yield found


def _place_below(path: Path, projects: Path | None) -> tuple[str, ...] | None:
    """The parts of a path below the folder of all projects, also where one of both is named by a link; None outside."""
    if projects is None:
        return None
    real = Path(os.path.realpath(path.parent)) / path.name
    below = _parts_below(real, Path(os.path.realpath(projects)))
    if below is None and _parts_below(path, Path(os.path.abspath(projects))) is not None:
        return ()
    return below


def _parts_below(path: Path, folder: Path) -> tuple[str, ...] | None:
    return path.relative_to(folder).parts if path.is_relative_to(folder) else None


def _is_place(parts: tuple[str, ...]) -> bool:
    """True for a place below the folder of all projects in which Claude Code keeps transcripts."""
    if len(parts) == 2:
        return True
    return 4 <= len(parts) <= 4 + _SUBAGENT_DEPTH and parts[2] == _SUBAGENTS and is_session_id(parts[1])


def _is_named_place(path: Path) -> bool:
    """True for a place elsewhere: not inside a session's folder, except for its subagents."""
    parts = path.parts[:-1]
    inside = [number for number, part in enumerate(parts) if _UUID.fullmatch(part)]
    return not inside or parts[inside[0] + 1 : inside[0] + 2] == (_SUBAGENTS,)


def _parent_of(path: Path) -> str:
    """The session a subagent's file belongs to; agent ids repeat between sessions, so that they need it."""
    parts = path.parts
    if _SUBAGENTS in parts[:-1]:
        index = len(parts) - 2 - parts[-2::-1].index(_SUBAGENTS)
        if index > 0 and is_session_id(parts[index - 1]):
            return parts[index - 1]
    return path.parent.name.lstrip("-") or "agent" if path.name.startswith(_AGENT_PREFIX) else ""


def _subagents(folder: Path, projects: Path, depth: int) -> Iterator[TranscriptFile]:
    for entry in _entries(folder):
        found = identify(Path(entry.path), projects)
        if found is not None:
            yield found
        elif depth and _is_folder(entry):
            yield from _subagents(Path(entry.path), projects, depth - 1)


def _folders(root: Path) -> Iterator[Path]:
    for entry in _entries(root):
        if _is_folder(entry):
            yield Path(entry.path)


def _is_folder(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir(follow_symlinks=False)
    except OSError:
        return False


def _entries(folder: Path) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as found:
            return sorted(found, key=lambda entry: entry.name)
    except (OSError, ValueError):
        return []
