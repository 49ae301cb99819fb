"""Find the rollouts in Codex's folder, recognising them by their name or their first line."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any

from engram.system.lazy_regex import lazy_regex
from engram.transcripts.agents import Source
from engram.transcripts.codex import AGENT
from engram.transcripts.json_values import object_in, parse_json, storable_id
from engram.transcripts.transcript_files import (
    COMPRESSED,
    MAX_HEADS,
    Walk,
    can_expand,
    facts_of,
    files_below,
    read_head,
)

#: Codex compresses rollouts that are a week old, and writes a plain file again when a rollout is resumed.
SUFFIXES = (".jsonl", ".jsonl.zst")
#: The folders of sessions in Codex's folder: one divided by year, month and day, and one for archived sessions.
FOLDERS = ("sessions", "archived_sessions")
_UUID = r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}"
#: The name contains the session and, if the user went back in it, the id of the new file.
_ROLLOUT = lazy_regex(rf"rollout-[\dT-]{{10,30}}-({_UUID})(?:_({_UUID}))?\.jsonl(?:\.zst)?")
_BARE = lazy_regex(rf"({_UUID})\.jsonl(?:\.zst)?")
#: Folders below ``sessions``: year, month, day.
_MAX_DEPTH = 4
#: The same limit below a folder given by the user.
_MAX_NAMED_DEPTH = 16
#: Maximum size of a first line for it to be read, in bytes; this line contains the session's instructions.
_MAX_HEAD_BYTES = 1_000_000


def session_folders(codex: Path) -> tuple[Path, ...]:
    return tuple(codex / name for name in FOLDERS)


def find_rollouts(codex: Path, *, with_subagents: bool = False, walk: Walk | None = None) -> Iterator[Source]:
    """Yield every rollout in Codex's folder, sorted by path, with symbolic links last.

    A folder that is missing or can't be read yields none. ``walk.skipped`` lists the files that were not read. Only the
    first line of each file is read, and only once per process.
    """
    walk = Walk(codex) if walk is None else walk
    paths = [path for folder in session_folders(codex) for path in files_below(walk, folder, _MAX_DEPTH)]
    for path in sorted(paths, key=os.path.islink):
        if _ROLLOUT.fullmatch(path.name):
            yield from _source(walk, path, with_subagents=with_subagents)
        elif path.name.startswith("rollout-"):
            walk.skip(path, "its name is not that of a session file")


def rollouts_at(path: Path) -> Iterator[Source]:
    """Yield the rollout at a path, or the rollouts in any folder.

    Some tools name a rollout only by its session id; such a file counts if its first line is a session head.
    """
    path = Path(os.path.abspath(path))
    walk = Walk(path if os.path.isdir(path) else path.parent)
    files = sorted(files_below(walk, path, _MAX_NAMED_DEPTH)) if os.path.isdir(path) else [path]
    for file in sorted(files, key=os.path.islink):
        is_named = _ROLLOUT.fullmatch(file.name) is not None
        if is_named or (_BARE.fullmatch(file.name) and head_of(file)):
            yield from _source(walk, file, with_subagents=True)


def rollouts_beside(path: Path) -> dict[str, tuple[Path, str]]:
    """Return id → file and session, for every rollout in the folders that contain another one."""
    home = next((folder.parent for folder in path.parents if folder.name in FOLDERS), None)
    folders = (path.parent,) if home is None else session_folders(home)
    found: dict[str, tuple[Path, str]] = {}
    for file in (file for folder in folders for file in files_below(Walk(folder), folder, _MAX_DEPTH)):
        match = _ROLLOUT.fullmatch(file.name) or _BARE.fullmatch(file.name)
        if match is not None and (file.suffix != COMPRESSED or match[match.lastindex or 1] not in found):
            found[match[match.lastindex or 1]] = file, match[1]
    return found


def _source(walk: Walk, path: Path, *, with_subagents: bool) -> Iterator[Source]:
    match = _ROLLOUT.fullmatch(path.name) or _BARE.fullmatch(path.name)
    if path.suffix == COMPRESSED:
        if os.path.lexists(path.with_suffix("")):
            return
        if not can_expand():
            walk.skip(path, "it is compressed, and this Python has no Zstandard support")
            return
    facts = walk.file(path)
    if match is None or facts is None:
        return
    parent = _parent_in(head_of(path), match[1])
    if parent and not with_subagents:
        return
    yield Source.of_file(AGENT, path, facts, match[1], parent_id=parent)


def _parent_in(head: dict[str, Any], session_id: str) -> str:
    """Return the session that started this one as a subagent; "" if none did."""
    spawned = object_in(head.get("source")).get("subagent")
    if spawned is None and head.get("thread_source") != "subagent":
        return ""
    named = object_in(object_in(spawned).get("thread_spawn")).get("parent_thread_id")
    parent = storable_id(named or head.get("parent_thread_id") or head.get("session_id"))
    return parent if parent and parent != session_id else AGENT


def head_of(path: Path) -> dict[str, Any]:
    """Return the payload of a rollout's first line; {} if that is not a session head, or not written yet."""
    facts = facts_of(path)
    if facts is None:
        return {}
    try:
        text = _first_line(str(path), facts.st_dev, facts.st_ino)
    except EOFError:
        return {}
    return json.loads(text) if text else {}


@lru_cache(maxsize=MAX_HEADS)
def _first_line(path: str, device: int, number: int) -> str:
    """Return a session head's fields about its parent and the author of its prompts, as JSON.

    Return "" if the line is not a session head.

    Raises:
        EOFError: the line is incomplete or can't be read now, so it must be read again next time.
    """
    try:
        line, end, _ = read_head(Path(path), _MAX_HEAD_BYTES, only_first_line=True).partition(b"\n")
        data = object_in(parse_json(line) if end else None)
    except OSError:
        raise EOFError from None
    except (ValueError, RecursionError):
        return ""
    if not end and len(line) < _MAX_HEAD_BYTES:
        raise EOFError
    payload = data.get("payload")
    if not isinstance(payload, dict) or data.get("type") != "session_meta":
        return ""
    kept = ("source", "thread_source", "parent_thread_id", "session_id", "id", "originator", "history_base")
    return json.dumps({key: payload[key] for key in kept if key in payload})
