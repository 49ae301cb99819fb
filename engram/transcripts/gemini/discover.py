"""Find Gemini CLI's chats, and the project folder that a chat belongs to."""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Iterable, Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any

from engram.paths import is_session_id
from engram.system.atomic import read_regular
from engram.transcripts.agents import Source
from engram.transcripts.gemini import AGENT
from engram.transcripts.lines import storable_text
from engram.transcripts.transcript_files import Walk, read_head

#: One line a record since the format of 2026; before, one JSON document that was rewritten with every message.
SUFFIXES = (".jsonl", ".json")
#: Bytes at the beginning of a chat in which its id stands.
_HEAD_BYTES = 4096
#: Files of folders and projects that are larger are not read, in bytes.
_MAX_LIST_BYTES = 4_000_000
_ID = re.compile(rb'"sessionId"\s*:\s*"([^"\\]{1,128})"')
_SUBAGENT = re.compile(rb'"kind"\s*:\s*"subagent"')


def chats_folder(gemini: Path) -> Path:
    """Return the folder that has a folder for each project, which has the folder ``chats``."""
    return gemini / "tmp"


def find_chats(gemini: Path, *, with_subagents: bool = False, walk: Walk | None = None) -> Iterator[Source]:
    """Yield every chat in Gemini CLI's folder, by path, those behind links last.

    A folder that is missing or cannot be read holds none. ``walk.skipped`` names what is not read. Only the beginning
    of a file is read, once in a process.
    """
    folder = chats_folder(gemini)
    walk = Walk(folder) if walk is None else walk
    projects = [project for entry in walk.entries(folder) if (project := walk.folder(entry)) is not None]
    yield from _chats_in(walk, [project / "chats" for project in projects], with_subagents=with_subagents)


def chats_at(path: Path, *, with_subagents: bool = False) -> Iterator[Source]:
    """Yield the chat at a path, or those in a folder that a person names: a ``chats`` folder, or one around it."""
    path = Path(os.path.abspath(path))
    walk = Walk(path.parent)
    if path.name.startswith("session-") and path.suffix in SUFFIXES:
        yield from _source(walk, path)
        return
    folders = (path, path / "chats", *sorted(path.glob("*/chats")), *sorted(path.glob("tmp/*/chats")))
    yield from _chats_in(walk, [folder for folder in folders if folder.name == "chats"], with_subagents=with_subagents)


def project_of(chat: Path) -> str:
    """Return the project folder of a chat; "" if nothing says it.

    Newer versions write it into ``.project_root`` beside ``chats``, and into ``projects.json``; older ones named the
    folder after the SHA-256 of its path, which is compared with the paths that Gemini CLI knows.
    """
    folder = next((parent.parent for parent in chat.parents if parent.name == "chats"), None)
    if folder is None:
        return ""
    root = storable_text((read_regular(folder / ".project_root", _MAX_LIST_BYTES) or b"").decode("utf-8", "replace"))
    if root.strip():
        return root.strip()
    gemini = folder.parent.parent
    projects = _read_object(gemini / "projects.json").get("projects")
    known: dict[str, Any] = projects if isinstance(projects, dict) else {}
    for path in (*known, *_read_object(gemini / "trustedFolders.json")):
        if known.get(path) == folder.name or hashlib.sha256(os.fsencode(path)).hexdigest() == folder.name:
            return storable_text(path)
    return ""


def _chats_in(walk: Walk, folders: Iterable[Path], *, with_subagents: bool) -> Iterator[Source]:
    links: list[Path] = []
    for folder in folders:
        for entry in walk.entries(folder) if walk.folder_at(folder) is not None else ():
            path = Path(entry.path)
            if path.name.startswith("session-") and path.suffix in SUFFIXES:
                if entry.is_symlink():
                    links.append(path)
                else:
                    yield from _source(walk, path)
            elif with_subagents and is_session_id(path.name) and walk.folder(entry) is not None:
                # A subagent's chat lies in a folder that is named after the session that started it.
                for nested in walk.entries(path):
                    if nested.name.endswith(SUFFIXES[0]):
                        yield from _source(walk, Path(nested.path), parent_id=path.name)
    for path in links:
        yield from _source(walk, path)


def _source(walk: Walk, path: Path, parent_id: str = "") -> Iterator[Source]:
    if path.suffix == ".json" and os.path.lexists(path.with_suffix(".jsonl")):
        # A resumed session of an older version was copied whole into a file of lines.
        return
    facts = walk.file(path)
    if facts is None:
        return
    session_id = _session_id(str(path), facts.st_dev, facts.st_ino)
    if not session_id:
        # The first line may not be written yet.
        _session_id.cache_clear()
        return
    if session_id == SUBAGENT and not parent_id:
        return
    yield Source(
        agent=AGENT,
        path=path,
        session_id=f"{parent_id}.{path.stem}"[:128] if parent_id else session_id,
        stamp=f"{facts.st_mtime_ns}-{facts.st_size}-{facts.st_ino}",
        size=facts.st_size,
        changed_at_ns=facts.st_mtime_ns,
        parent_id=parent_id,
    )


#: Stands for the id of a subagent's chat.
SUBAGENT = " subagent"


@lru_cache(maxsize=4096)
def _session_id(path: str, device: int, number: int) -> str:
    try:
        head = read_head(Path(path), _HEAD_BYTES)
    except (OSError, ValueError):
        return ""
    found = _ID.search(head)
    session_id = found[1].decode("utf-8", "replace") if found else ""
    if _SUBAGENT.search(head.split(b'"messages"', 1)[0].split(b"\n", 1)[0] if path.endswith("l") else head):
        return SUBAGENT
    return session_id if is_session_id(session_id) else ""


def _read_object(path: Path) -> dict[str, Any]:
    try:
        value = json.loads(read_regular(path, _MAX_LIST_BYTES) or b"{}")
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}
