"""Which turn an entry belongs to: each entry to one, by a key of its uuid. Uuids and places lie in the turn's row."""

from __future__ import annotations

from collections.abc import Sequence

import peewee

from engram.errors import Moved
from engram.models.packed_entries import entry_key, unpack_entries
from engram.models.transaction import Reader, Tx
from engram.transcripts.record import EntryRef


def turn_of_entry(store: Reader, uuid: str) -> int | None:
    """Row id of the turn that an entry belongs to; None for an unknown one."""
    found = store.value("SELECT turn_id FROM entry WHERE key = ?", (entry_key(uuid),))
    return None if found is None else int(found)


def entries_of_turn(store: Reader, turn_id: int) -> tuple[EntryRef, ...]:
    """A turn's entries, in the order of the file."""
    return unpack_entries(bytes(store.value("SELECT entries FROM turn WHERE id = ?", (turn_id,)) or b""))


def claimed_entries(store: Reader, uuids: Sequence[str]) -> set[str]:
    """Those of the uuids that belong to a turn already."""
    by_key = {entry_key(uuid): uuid for uuid in uuids}
    return {by_key[int(row[0])] for row in store.rows_among("SELECT key FROM entry WHERE key IN", list(by_key))}


def claim_entries(tx: Tx, turn_id: int, entries: Sequence[EntryRef]) -> None:
    """Note that new entries belong to a turn.

    Raises:
        Moved: one of them went to another turn meanwhile; roll back and read again.
    """
    try:
        tx.run_many("INSERT INTO entry VALUES (?, ?)", [(entry_key(entry.uuid), turn_id) for entry in entries])
    except peewee.IntegrityError as error:
        raise Moved() from error


def free_entries(tx: Tx, turn_id: int) -> None:
    """Give up what a turn holds, so that its entries may come again in another one."""
    entries = entries_of_turn(tx, turn_id)
    tx.run_many("DELETE FROM entry WHERE key = ?", [(entry_key(entry.uuid),) for entry in entries])
