"""Which turn an entry belongs to: each entry to one, by a key of its uuid. Uuids and places lie in the turn's row.

An entry's key also names what is quoted of it. The id of a quotation is ``q_``, twelve hexadecimal digits of the key
of the entry that says it, and in hexadecimal the character of the entry at which the passage begins. So it holds
whatever the row numbers of turns and passages become.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from functools import lru_cache

import peewee
from peewee import Query

from engram.errors import Conflict
from engram.models import tables
from engram.models.packed_entries import entry_key, unpack_entries
from engram.models.statement import in_json_list, prepared
from engram.models.transaction import Reader, Tx
from engram.transcripts.record import EntryRef

#: Bits of an entry's key that the id of a quotation leaves out, and those that it keeps.
_CUT_BITS, _KEPT_BITS = 16, 48
_QUOTATION = re.compile(r"q_([0-9a-f]{12})([0-9a-f]{1,6})")


def turn_of_entry(store: Reader, uuid: str) -> int | None:
    """Row id of the turn that an entry belongs to; None for an unknown one."""
    turn_id = store.fetch_value(_turn_of_key(entry_key(uuid)))
    return None if turn_id is None else int(turn_id)


def entries_of_turn(store: Reader, turn_id: int) -> tuple[EntryRef, ...]:
    """A turn's entries, in the order of the file."""
    return unpack_entries(bytes(store.fetch_value(_packed_entries_of(turn_id)) or b""))


def claimed_entries(store: Reader, uuids: Sequence[str]) -> set[str]:
    """Those of the uuids that belong to a turn already."""
    by_key = {entry_key(uuid): uuid for uuid in uuids}
    return {by_key[key] for key in store.fetch_values(_known_keys(json.dumps(list(by_key))))}


def claim_entries(tx: Tx, turn_id: int, entries: Sequence[EntryRef]) -> None:
    """Note that new entries belong to a turn.

    Raises:
        Conflict: one of them went to another turn meanwhile; roll back and read again.
    """
    rows = [{"key": entry_key(entry.uuid), "turn_id": turn_id} for entry in entries]
    try:
        tx.insert_many(tables.Entry, rows)
    except peewee.IntegrityError as error:
        raise Conflict() from error


def free_entries(tx: Tx, turn_id: int) -> None:
    """Give up what a turn holds, so that its entries may come again in another one."""
    keys = [entry_key(entry.uuid) for entry in entries_of_turn(tx, turn_id)]
    tx.run(_delete_keys(json.dumps(keys)))


# -- ids of quotations


def quotation_id(source: str, position: int) -> str:
    """Return the id of the passage that begins at a character of an entry.

    Args:
        source: uuid of the entry; the key of its turn for a queued prompt, which has none.
        position: in characters; the texts of one entry count as one, with a character between them.
    """
    return f"{quotation_prefix(source)}{position:x}"


def quotation_prefix(source: str) -> str:
    """Return what the ids of all quotations of an entry begin with."""
    return f"q_{cut_key(source):012x}"


def is_quotation_id(text: str) -> bool:
    """Return True for a text of the form of a quotation's id."""
    return _QUOTATION.fullmatch(text) is not None


def parse_quotation_id(text: str) -> tuple[int, int] | None:
    """Return the cut key of the entry and the character that an id names; None for any other text."""
    match = _QUOTATION.fullmatch(text)
    return None if match is None else (int(match[1], 16), int(match[2], 16))


@lru_cache(maxsize=2048)
def cut_key(source: str) -> int:
    """Return the part of an entry's key that ids of quotations hold."""
    return (entry_key(source) >> _CUT_BITS) & ((1 << _KEPT_BITS) - 1)


def turns_of_cut_key(store: Reader, key: int) -> list[int]:
    """Return the row ids of the turns with an entry of a cut key: one, as good as always."""
    signed = key - (1 << _KEPT_BITS) if key >> (_KEPT_BITS - 1) else key
    first = signed << _CUT_BITS
    return [int(turn_id) for turn_id in store.fetch_values(_turns_between(first, first + (1 << _CUT_BITS) - 1))]


@prepared
def _turns_between(first: int, last: int) -> Query:
    entry = tables.Entry
    return entry.select(entry.turn_id).distinct().where(entry.key.between(first, last)).order_by(entry.turn_id)


@prepared
def _turn_of_key(key: int) -> Query:
    return tables.Entry.select(tables.Entry.turn_id).where(tables.Entry.key == key)


@prepared
def _packed_entries_of(turn_id: int) -> Query:
    return tables.Turn.select(tables.Turn.entries).where(tables.Turn.id == turn_id)


@prepared
def _known_keys(keys: str) -> Query:
    return tables.Entry.select(tables.Entry.key).where(in_json_list(tables.Entry.key, keys))


@prepared
def _delete_keys(keys: str) -> Query:
    return tables.Entry.delete().where(in_json_list(tables.Entry.key, keys))
