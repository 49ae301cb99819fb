"""Find the transcripts below a Claude configuration folder."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from engram.paths import is_session_id

_SUFFIX = ".jsonl"
_AGENT_PREFIX = "agent-"


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
    for folder in _folders(projects_folder(config)):
        for entry in _entries(folder):
            found = identify(Path(entry.path))
            if found is not None and (with_subagents or not found.is_subagent):
                yield found
            elif with_subagents and is_session_id(entry.name) and entry.is_dir(follow_symlinks=False):
                yield from _subagents(Path(entry.path) / "subagents", depth=4)


def identify(path: Path) -> TranscriptFile | None:
    """What a path is by its name and place; None where it is no transcript or cannot be looked at."""
    if path.suffix != _SUFFIX or not is_session_id(path.stem):
        return None
    try:
        found = path.lstat()
    except (OSError, ValueError):
        return None
    if not stat.S_ISREG(found.st_mode):
        return None
    parent = _parent_of(path)
    session_id = f"{parent}.{path.stem}"[:128] if parent else path.stem
    return TranscriptFile(path, session_id, found.st_size, found.st_mtime_ns, parent)


def _parent_of(path: Path) -> str:
    """The session a subagent's file belongs to; agent ids repeat between sessions, so that they need it."""
    parts = path.parts
    if "subagents" in parts[:-1]:
        index = len(parts) - 2 - parts[-2::-1].index("subagents")
        if index > 0 and is_session_id(parts[index - 1]):
            return parts[index - 1]
    return path.parent.name.lstrip("-") or "agent" if path.name.startswith(_AGENT_PREFIX) else ""


def _subagents(folder: Path, depth: int) -> Iterator[TranscriptFile]:
    for entry in _entries(folder):
        found = identify(Path(entry.path))
        if found is not None:
            yield found
        elif depth and _is_folder(entry):
            yield from _subagents(Path(entry.path), depth - 1)


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
