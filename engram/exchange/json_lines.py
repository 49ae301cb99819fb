"""Exports as JSON lines: a line a memory with its history, and a last line of what was forgotten."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import IO, Any

from engram.errors import BadRequest, BrokenDatabase
from engram.exchange.incoming import Incoming, Source, Unusable
from engram.exchange.record import incoming_of, record_of, tombstone_record, with_proof
from engram.models import episodes
from engram.models.episodes import Episode
from engram.models.project_folders import list_hints
from engram.models.soundness import table_damage
from engram.models.store import Store

#: Longest line that is read, in bytes.
MAX_LINE_BYTES = 64_000_000
#: Tables of memory.db that an export is read from.
EXPORTED_TABLES = ("episode", "evidence", "history", "tombstone", "project", "session")
#: The format's name.
FORMAT = "jsonl"


def export_records(
    store: Store, is_wanted: Callable[[Episode], bool], *, with_forgotten: bool
) -> Iterator[dict[str, Any]]:
    """Yield the records of memories, the oldest first, and at last what was forgotten.

    Args:
        store: the open memory.
        is_wanted: chooses the memories.
        with_forgotten: tell what was forgotten, in ids and hashes, so that it is not made again elsewhere.

    Raises:
        BrokenDatabase: the memory is damaged. Raised at the end, after what can be read was yielded.
    """
    damage = table_damage(store, EXPORTED_TABLES)
    hints = {known.project.id: known for known in list_hints(store)}
    for episode in episodes.all_episodes(store):
        if is_wanted(episode):
            yield with_proof(store, record_of(store, episode, hints))
    forgotten = tombstone_record(store) if with_forgotten else None
    if forgotten is not None:
        yield forgotten
    if damage:
        raise BrokenDatabase(f"{store.path} is damaged ({damage}): the export may lack memories")


def read_json_lines(file: IO[bytes], name: str) -> Source:
    """Return what is read from an export.

    Reading raises BadRequest where the file is none: a line that is no JSON object.
    """
    return Source(format=FORMAT, name=name, items=_items(file))


def _items(file: IO[bytes]) -> Iterator[Incoming]:
    for number, line in _lines(file):
        try:
            yield incoming_of(line)
        except BadRequest as error:
            yield Unusable(f"line {number}", str(error))


def _lines(file: IO[bytes]) -> Iterator[tuple[int, dict[str, Any]]]:
    number = 0
    while data := file.readline(MAX_LINE_BYTES + 1):
        number += 1
        if len(data) > MAX_LINE_BYTES:
            raise BadRequest(f"line {number} is longer than {MAX_LINE_BYTES} bytes: this is not an export of Engram")
        try:
            text = data.decode("utf-8-sig" if number == 1 else "utf-8")
        except UnicodeDecodeError as error:
            raise BadRequest(f"line {number} is not UTF-8 text: this is not an export of Engram") from error
        if not text.strip():
            continue
        try:
            line = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise BadRequest(f"line {number} is not JSON: {error}") from error
        if not isinstance(line, dict):
            raise BadRequest(f"line {number} is not a JSON object")
        yield number, line
