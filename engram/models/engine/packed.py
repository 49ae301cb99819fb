"""Compressed column values: text, the facts of tool calls, a turn's entries, UUIDs."""

from __future__ import annotations

import json
import struct
import uuid as uuid_module
import zlib
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from hashlib import blake2b
from typing import Any

from engram.errors import BrokenDatabase
from engram.system.lazy_regex import lazy_regex
from engram.transcripts.turns import Action, EntryRef, Todo, TodoState

#: Text shorter than this, in characters, is stored uncompressed.
_SHORT = 200


def pack_text(text: str) -> str | bytes:
    """Return the stored form of text: the text itself, or its UTF-8 bytes as a zlib stream."""
    if len(text) < _SHORT:
        return text
    packed = zlib.compress(text.encode("utf-8", "replace"), 6)
    return packed if len(packed) < len(text) else text


def unpack_text(stored: str | bytes) -> str:
    """Return text from its stored form. Raises BrokenDatabase if that is damaged."""
    if isinstance(stored, str):
        return stored
    try:
        return zlib.decompress(bytes(stored)).decode("utf-8")
    except (zlib.error, UnicodeDecodeError) as error:
        raise BrokenDatabase(f"stored text is damaged: {error}") from error


# -- A turn's tool calls, stored in its row as compressed JSON with the facts that differ from the defaults.

_ACTION_DEFAULTS = Action("", "")._asdict()
_ACTION_ITEMS = tuple(_ACTION_DEFAULTS.items())
_TODO_STATES = frozenset(state.value for state in TodoState)
#: Facts that refer to an entry. They are stored as the entry's position among the turn's entries.
ENTRY_FACTS = ("uuid", "result_uuid")
#: Facts with several values.
_LISTS = ("files", "error_lines", "error_keys")


def pack_actions(actions: Iterable[Action], entries: Sequence[EntryRef]) -> str | bytes:
    """Return the stored form of tool calls; ``entries`` are the entries of their turn, in order."""
    places = {entry.uuid: place for place, entry in enumerate(entries)}
    return pack_text(json.dumps([_action_to_json(action, places) for action in actions], ensure_ascii=False))


def unpack_actions(stored: str | bytes, entries: Sequence[EntryRef]) -> tuple[Action, ...]:
    """Return the tool calls stored in a column. Raises BrokenDatabase if it is damaged."""
    return tuple(_action_from_json(facts, entries) for facts in unpack_facts(stored))


def todos_of(facts: Mapping[str, Any]) -> tuple[Todo, ...]:
    """Return the changes of a todo list among the facts of a tool call; malformed ones are left out."""
    listed = facts.get("todos")
    return tuple(todo for change in listed if (todo := _todo_of(change))) if isinstance(listed, list) else ()


def _todo_of(change: object) -> Todo | None:
    match change:
        case [str(key), str(text), str(state)] if state in _TODO_STATES:
            return Todo(key, text, TodoState(state))
    return None


def _action_to_json(action: Action, places: Mapping[str, int]) -> dict[str, Any]:
    """Return the facts that differ from the defaults. The tool-use id is kept until the result arrives."""
    given: Iterable[tuple[Any, tuple[str, Any]]] = zip(action, _ACTION_ITEMS, strict=True)
    facts = {name: value for value, (name, default) in given if value != default}
    if action.result_uuid:
        facts.pop("tool_use_id", None)
    for name in ENTRY_FACTS:
        if name in facts:
            facts[name] = places.get(facts[name], facts[name])
    return facts


def unpack_calls(stored: str | bytes) -> tuple[Action, ...]:
    """Return the tool calls stored in a column, without the ids of their entries. Raises BrokenDatabase if damaged."""
    facts = ({k: v for k, v in fact.items() if k not in ENTRY_FACTS} for fact in unpack_facts(stored))
    return tuple(_action_from_json(fact, ()) for fact in facts)


def unpack_facts(stored: str | bytes) -> list[dict[str, Any]]:
    """Return the facts of the tool calls stored in a column; [] if it is not such JSON. Raises BrokenDatabase."""
    try:
        facts = json.loads(unpack_text(stored))
    except (ValueError, RecursionError):
        return []
    return [fact for fact in facts if isinstance(fact, dict)] if isinstance(facts, list) else []


def _action_from_json(facts: dict[str, Any], entries: Sequence[EntryRef]) -> Action:
    known = {k: v for k, v in facts.items() if k in _ACTION_DEFAULTS}
    for name in _LISTS:
        known[name] = tuple(known.get(name, ()))
    known["todos"] = todos_of(known)
    for name in ENTRY_FACTS:
        if isinstance(known.get(name), int):
            known[name] = entries[known[name]].uuid
    return Action(**({"tool_use_id": "", "tool": ""} | known))


# -- UUIDs of entries, stored as 16 bytes, or as text if an agent's id isn't a UUID. This saves a fifth of memory.db.

_UUID_BYTES = 16
#: Number of UUIDs whose stored form, or key, is cached. Each is needed twice while a portion is read.
REMEMBERED = 2048
_UUID = lazy_regex(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")


@lru_cache(maxsize=REMEMBERED)
def pack_uuid(text: str) -> bytes:
    """Return the stored form of an entry's id: 16 bytes for a UUID, any other length for text."""
    if len(text) == 36 and _UUID.fullmatch(text):
        return bytes.fromhex(text.replace("-", ""))
    data = text.encode("utf-8", "replace")
    return data + b"\0" if len(data) == _UUID_BYTES else data


def unpack_uuid(data: bytes | None) -> str:
    """Return the text of a stored id; "" if there is none."""
    if not data:
        return ""
    data = bytes(data)
    if len(data) == _UUID_BYTES:
        return str(uuid_module.UUID(bytes=data))
    return data.rstrip(b"\0").decode("utf-8", "replace")


# -- A turn's entries, stored in its row as UUIDs and positions.
#
# The packed form begins with a raw deflate stream of four numbers per entry: the distance in bytes from the end of the
# previous entry, the entry's length, the distance in lines from the previous entry, and the length of its stored UUID.
# Each number has 8 bytes, little-endian; all first numbers precede all second ones, and so on. After the stream come
# the stored UUIDs. The entries are in the order of the file.


def in_order(entries: Iterable[EntryRef]) -> list[EntryRef]:
    """Return the entries in the order of the file."""
    return sorted(entries, key=lambda entry: (entry.offset, entry.line))


def pack_entries(entries: Sequence[EntryRef]) -> bytes:
    """Return the stored form of a turn's entries, which must be ``in_order``."""
    gaps, lengths, steps, sizes, uuids = [], [], [], [], []
    end = line = 0
    for entry in entries:
        uuid = pack_uuid(entry.uuid)
        gaps.append(entry.offset - end)
        lengths.append(entry.length)
        steps.append(entry.line - line)
        sizes.append(len(uuid))
        uuids.append(uuid)
        end, line = entry.offset + entry.length, entry.line
    numbers = gaps + lengths + steps + sizes
    packer = zlib.compressobj(6, zlib.DEFLATED, -zlib.MAX_WBITS)
    return b"".join((packer.compress(struct.pack(f"<{len(numbers)}q", *numbers)), packer.flush(), *uuids))


def unpack_entries(data: bytes) -> tuple[EntryRef, ...]:
    """Return a turn's entries, in the order of the file. Raises BrokenDatabase if they are damaged."""
    if not data:
        return ()
    unpacker = zlib.decompressobj(-zlib.MAX_WBITS)
    try:
        plain = unpacker.decompress(data)
        count = len(plain) // 32
        numbers = struct.unpack(f"<{count * 4}q", plain)
    except (zlib.error, struct.error) as error:
        raise BrokenDatabase(f"the entries of a turn are damaged: {error}") from error
    uuids = unpacker.unused_data
    found, end, line, start = [], 0, 0, 0
    for index in range(count):
        gap, length, step, size = numbers[index::count]
        offset, line = end + gap, line + step
        found.append(EntryRef(unpack_uuid(uuids[start : start + size]), offset, length, line))
        end, start = offset + length, start + size
    return tuple(found)


@lru_cache(maxsize=REMEMBERED)
def entry_key(uuid: str) -> int:
    """Return an entry's lookup key: 64 bits of a BLAKE2b hash.

    The probability of a collision among ten million entries is 1 in 400,000.
    """
    return int.from_bytes(blake2b(pack_uuid(uuid), digest_size=8).digest(), "little", signed=True)
