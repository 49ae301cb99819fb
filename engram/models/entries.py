"""Which turn an entry belongs to: each entry to one, by a key of its uuid. Uuids and places lie in the turn's row."""

from __future__ import annotations

import json
from collections.abc import Sequence

import peewee
from peewee import Query

from engram.errors import Conflict
from engram.models import tables
from engram.models.packed_entries import entry_key, unpack_entries
from engram.models.statement import in_json_list, prepared
from engram.models.transaction import Reader, Tx
from engram.transcripts.record import EntryRef


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
