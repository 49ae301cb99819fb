"""Find Gemini CLI's chats, and the project folder that a chat belongs to."""

from __future__ import annotations

import hashlib
import json
import os
import re
import stat
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any

from engram.atomic import read_regular
from engram.paths import is_session_id
from engram.transcripts.gemini import AGENT
from engram.transcripts.source import Source
from engram.transcripts.text import storable_text

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


def find_chats(gemini: Path, *, with_subagents: bool = False) -> Iterator[Source]:
    """Yield every chat in Gemini CLI's folder, by path. Links, pipes and unusual names are skipped.

    A folder that is missing or cannot be read holds none. Only the beginning of a file is read, once in a process.
    """
    for project in _entries(chats_folder(gemini)):
        yield from _chats_in(project / "chats", with_subagents=with_subagents)


def chats_at(path: Path, *, with_subagents: bool = False) -> Iterator[Source]:
    """Yield the chat at a path, or those in a folder that a person names: a ``chats`` folder, or one around it."""
    path = Path(os.path.abspath(path))
    if path.name.startswith("session-") and path.suffix in SUFFIXES:
        yield from _source(path)
        return
    for folder in (path, path / "chats", *sorted(path.glob("*/chats")), *sorted(path.glob("tmp/*/chats"))):
        if folder.name == "chats":
            yield from _chats_in(folder, with_subagents=with_subagents)


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


def _chats_in(folder: Path, *, with_subagents: bool) -> Iterator[Source]:
    for path in _entries(folder):
        if path.name.startswith("session-") and path.suffix in SUFFIXES:
            yield from _source(path)
        elif with_subagents and is_session_id(path.name):
            # A subagent's chat lies in a folder that is named after the session that started it.
            for nested in _entries(path):
                if nested.suffix == SUFFIXES[0]:
                    yield from _source(nested, parent_id=path.name)


def _source(path: Path, parent_id: str = "") -> Iterator[Source]:
    if path.suffix == ".json" and os.path.lexists(path.with_suffix(".jsonl")):
        # A resumed session of an older version was copied whole into a file of lines.
        return
    try:
        facts = path.lstat()
    except (OSError, ValueError):
        return
    if not stat.S_ISREG(facts.st_mode):
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
    head = read_regular(Path(path), _HEAD_BYTES) or b""
    found = _ID.search(head)
    session_id = found[1].decode("utf-8", "replace") if found else ""
    if _SUBAGENT.search(head.split(b'"messages"', 1)[0].split(b"\n", 1)[0] if path.endswith("l") else head):
        return SUBAGENT
    return session_id if is_session_id(session_id) else ""


def _entries(folder: Path) -> list[Path]:
    try:
        with os.scandir(folder) as scanned:
            return sorted(Path(entry.path) for entry in scanned)
    except (OSError, ValueError):
        return []


def _read_object(path: Path) -> dict[str, Any]:
    try:
        value = json.loads(read_regular(path, _MAX_LIST_BYTES) or b"{}")
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}
