"""Find the transcripts in a Claude configuration folder, and recognise one by its name and place."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator
from pathlib import Path

from engram.paths import is_session_id
from engram.transcripts.claude_code import AGENT
from engram.transcripts.source import Source
from engram.transcripts.transcript_files import stamp_of

SUFFIX = ".jsonl"
_SUBAGENT_PREFIX = "agent-"
_SUBAGENTS = "subagents"
#: How many folders deep a subagent's file may lie below ``subagents``.
_MAX_SUBAGENT_DEPTH = 4
#: The name of a session, and of the folder in which tools keep its files.
_UUID = re.compile(r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")


def projects_folder(config: Path) -> Path:
    """Return the folder of all transcripts in a Claude configuration folder, or the folder itself if it is that."""
    inner = config / "projects"
    return config if config.name == "projects" and not inner.is_dir() else inner


def find_transcripts(config: Path, *, with_subagents: bool = False) -> Iterator[Source]:
    """Yield every session transcript in ``config``, by path. Links, pipes and unusual names are skipped.

    A folder that is missing or cannot be read holds none. No file is opened.
    """
    projects = projects_folder(config)
    for folder in _folders(projects):
        for entry in _entries(folder):
            source = identify(Path(entry.path), projects, with_subagents=with_subagents)
            if source is not None:
                yield source
            elif with_subagents and is_session_id(entry.name) and entry.is_dir(follow_symlinks=False):
                yield from _subagents(Path(entry.path) / _SUBAGENTS, projects, depth=_MAX_SUBAGENT_DEPTH)


def identify(path: Path, projects: Path | None = None, *, with_subagents: bool = True) -> Source | None:
    """Return what a path is by its name and place; None if it is no transcript or cannot be examined.

    Claude Code writes a session to ``<project>/<session>.jsonl``, and a subagent to ``<project>/agent-<id>.jsonl`` or
    below ``<project>/<session>/subagents``. Tools write everything else in a session's folder.

    Args:
        projects: the folder of all projects. A path outside it may be in any folder (people keep transcripts), except
            in one that is named like a session.
        with_subagents: False if subagents are not read.
    """
    if path.suffix != SUFFIX or not is_session_id(path.stem):
        return None
    place = _place_below(path, projects)
    if not (_is_place_elsewhere(path) if place is None else _is_place_in_projects(place)):
        return None
    try:
        facts = path.lstat()
    except (OSError, ValueError):
        return None
    if not stat.S_ISREG(facts.st_mode):
        return None
    parent = _parent_of(path)
    if parent and not with_subagents:
        return None
    return Source(
        agent=AGENT,
        path=path,
        session_id=f"{parent}.{path.stem}"[:128] if parent else path.stem,
        stamp=stamp_of(facts),
        size=facts.st_size,
        changed_at_ns=facts.st_mtime_ns,
        parent_id=parent,
    )


def transcripts_below(folder: Path, projects: Path, *, with_subagents: bool = False) -> Iterator[Source]:
    """Yield the transcripts in a folder that a person names: Claude's own, one project's, or any folder of transcripts.

    Args:
        folder: the folder.
        projects: the folder of all projects of this machine's Claude Code.
    """
    for path in sorted(folder.rglob(f"*{SUFFIX}")):
        inner = path.relative_to(folder.parent).parts[:-1]
        own = folder.parent.joinpath(*inner[: inner.index("projects") + 1]) if "projects" in inner else None
        root = projects if _place_below(path, projects) is not None else own
        source = identify(path, root, with_subagents=with_subagents)
        if source is not None:
            yield source


def _place_below(path: Path, projects: Path | None) -> tuple[str, ...] | None:
    """Return the parts of a path below the folder of all projects, with links resolved in both; None if outside."""
    if projects is None:
        return None
    real = Path(os.path.realpath(path.parent)) / path.name
    below = _parts_below(real, Path(os.path.realpath(projects)))
    if below is None and _parts_below(path, Path(os.path.abspath(projects))) is not None:
        return ()
    return below


def _parts_below(path: Path, folder: Path) -> tuple[str, ...] | None:
    return path.relative_to(folder).parts if path.is_relative_to(folder) else None


def _is_place_in_projects(parts: tuple[str, ...]) -> bool:
    """True for a place below the folder of all projects in which Claude Code keeps transcripts."""
    if len(parts) == 2:
        return True
    return 4 <= len(parts) <= 4 + _MAX_SUBAGENT_DEPTH and parts[2] == _SUBAGENTS and is_session_id(parts[1])


def _is_place_elsewhere(path: Path) -> bool:
    """True if the path is not in a session's folder, or is in that of its subagents."""
    parts = path.parts[:-1]
    sessions = [number for number, part in enumerate(parts) if _UUID.fullmatch(part)]
    return not sessions or parts[sessions[0] + 1 : sessions[0] + 2] == (_SUBAGENTS,)


def _parent_of(path: Path) -> str:
    """Return the session that a subagent's file belongs to: subagent ids are unique within a session only."""
    parts = path.parts
    if _SUBAGENTS in parts[:-1]:
        index = len(parts) - 2 - parts[-2::-1].index(_SUBAGENTS)
        if index > 0 and is_session_id(parts[index - 1]):
            return parts[index - 1]
    return path.parent.name.lstrip("-") or "agent" if path.name.startswith(_SUBAGENT_PREFIX) else ""


def _subagents(folder: Path, projects: Path, depth: int) -> Iterator[Source]:
    for entry in _entries(folder):
        source = identify(Path(entry.path), projects)
        if source is not None:
            yield source
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
        with os.scandir(folder) as entries:
            return sorted(entries, key=lambda entry: entry.name)
    except (OSError, ValueError):
        return []
