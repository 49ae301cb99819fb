"""What was forgotten stays forgotten in every copy: tombstones carried from one database to another, and applied
there.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from pathlib import Path

from peewee import SQL, fn

from engram.enums import Actor, Source
from engram.models import tables
from engram.models.copies import clean_copy
from engram.models.entries import turn_of_entry
from engram.models.episodes import episode_by_slot, find_episode
from engram.models.forgetting import apply_tombstones
from engram.models.project_erasing import carry_forgotten_projects
from engram.models.projects import find_project_of_identity
from engram.models.tombstones import (
    TombstoneKind,
    barred_entries,
    is_episode_forgotten,
    is_episode_gone,
    is_slot_forgotten,
    is_slot_gone,
)
from engram.models.transaction import Reader, Tx, Value
from engram.models.uuids import unpack_uuid

#: ``(kind, key, when it was forgotten)``.
Tombstone = tuple[str, bytes, int]


def read_tombstones(store: Reader) -> list[Tombstone]:
    """Everything that was forgotten. The database need not be open: a damaged one is read as far as it goes."""
    table = tables.Tombstone
    rows = store.fetch(table.select(table.kind, table.key, table.at_ms))
    return [(str(row.kind), bytes(row.key), int(row.at_ms)) for row in rows]


def carry_tombstones(tx: Tx, tombstones: Sequence[Tombstone]) -> int:
    """Take over tombstones; returns how many are new.

    What projects hold that were forgotten since goes at once; what other tombstones name goes by ``apply_tombstones``.
    """
    before = _count_tombstones(tx)
    carry_forgotten_projects(tx, tombstones, actor=Actor.TIDYING)
    rows: list[dict[str, Value]] = [{"kind": kind, "key": key, "at_ms": at_ms} for kind, key, at_ms in tombstones]
    tx.insert_many(tables.Tombstone, rows, or_ignore=True)
    return _count_tombstones(tx) - before


def carry_harmless_tombstones(tx: Tx, tombstones: Sequence[Tombstone]) -> int:
    """Take over tombstones from a file that name nothing here; returns how many are new. Nothing is deleted.

    None of them is of the future: a file must not bar what will be said in a project.
    """
    before, now_ms = _count_tombstones(tx), tx.now_ms()
    rows: list[dict[str, Value]] = [
        {"kind": kind, "key": key, "at_ms": min(at_ms, now_ms)}
        for kind, key, at_ms in tombstones
        if not _names_something(tx, TombstoneKind(kind), key)
    ]
    tx.insert_many(tables.Tombstone, rows, or_ignore=True)
    return _count_tombstones(tx) - before


def _names_something(store: Reader, kind: TombstoneKind, key: bytes) -> bool:
    text = key.decode("utf-8", "replace")
    if kind in (TombstoneKind.EPISODE, TombstoneKind.PURGED):
        return find_episode(store, text) is not None
    if kind in (TombstoneKind.SLOT, TombstoneKind.PURGED_SLOT):
        return episode_by_slot(store, text) is not None
    if kind is TombstoneKind.TURN:
        turn = tables.Turn
        return store.has_any(turn.select(turn.id).where(turn.key == text).limit(1))
    if kind is TombstoneKind.PROJECT:
        return find_project_of_identity(store, text) is not None
    return turn_of_entry(store, unpack_uuid(key)) is not None


def _count_tombstones(store: Reader) -> int:
    return int(store.fetch_value(tables.Tombstone.select(fn.count(SQL("*")))))


def is_named_by_tombstone(
    store: Reader, episode_id: str, slot: str | None, uuids: Collection[str], source: str, *, with_purged: bool = True
) -> bool:
    """True where a memory must not come (back): it, its slot, or an entry that an automatic one rests on was forgotten.

    Args:
        store: the open memory.
        episode_id: the memory's id.
        slot: its slot, where it has one.
        uuids: the entries that it rests on.
        source: who made it; what a person saved may rest on anything.
        with_purged: what was purged must not come back either.
    """
    if (is_episode_gone if with_purged else is_episode_forgotten)(store, episode_id):
        return True
    if slot and (is_slot_gone if with_purged else is_slot_forgotten)(store, slot):
        return True
    return source == Source.AUTO and bool(barred_entries(store, uuids))


def delete_named_in_copy(path: Path, driver: str, tombstones: Sequence[Tombstone]) -> int:
    """Delete what tombstones name from another database of Engram, such as one that was set aside; returns how much.

    Raises:
        StoreError: the file is damaged, or not Engram's; it is as it was.
    """

    def delete_named(tx: Tx) -> int:
        erased = carry_forgotten_projects(tx, tombstones, actor=Actor.TIDYING)
        carry_tombstones(tx, tombstones)
        return erased + apply_tombstones(tx, actor=Actor.TIDYING)

    return clean_copy(path, driver, delete_named)
