"""Tombstones: what was forgotten or purged, so that nothing brings it back. They hold ids and hashes, never text."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum

from peewee import SQL, Query, fn

from engram.models import tables
from engram.models.engine.packed import pack_uuid, unpack_uuid
from engram.models.engine.statement import prepared
from engram.models.engine.transaction import Reader, Tx


class TombstoneKind(StrEnum):
    """What a tombstone stands for; the value of the column ``kind``."""

    #: A forgotten memory, by its id. Neither an import nor a restore brings it back.
    MEMORY = "episode"
    #: The slot of a forgotten memory: no extractor makes the same memory of the same turn again.
    SLOT = "slot"
    #: A forgotten turn, by its key, and each of its entries: they are never read again.
    TURN = "turn"
    ENTRY = "entry"
    #: An entry whose words are erased while its turn stays: no reading stores its text again.
    WORDS = "words"
    #: An entry that a forgotten memory rested on: it is never evidence for a new automatic memory.
    EVIDENCE = "evidence"
    #: A purged memory, by its id, and its slot: it is not made again by itself, but its words may stay.
    PURGED = "purged"
    PURGED_SLOT = "purged-slot"
    #: A forgotten project, by its identity: nothing that was said in it until then is stored again.
    PROJECT = "project"


@dataclass(frozen=True, slots=True)
class CutMemory:
    """A memory that stays and had taken up the words of a forgotten one: what it says without them."""

    episode_id: str
    summary: str
    content: str
    entities: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Forgotten:
    """What one forget takes away, named so that it means the same in every copy of the database."""

    episode_ids: tuple[str, ...] = ()
    turn_keys: tuple[str, ...] = ()
    #: Entries whose words go, by uuid; a queued prompt has none and goes by the key of its turn.
    erased: tuple[str, ...] = ()
    #: Entries that are never evidence for a new automatic memory again.
    barred: tuple[str, ...] = ()
    #: None where no other memory had taken up the words.
    cut: CutMemory | None = None


def add_tombstones(tx: Tx, kind: TombstoneKind, keys: Iterable[bytes]) -> None:
    """Add tombstones of one kind; those that exist stay as they are."""
    now = tx.now_ms()
    rows = [{"kind": kind.value, "key": key, "at_ms": now} for key in keys]
    tx.insert_many(tables.Tombstone, rows, or_ignore=True)


def add_entry_tombstones(tx: Tx, forgotten: Forgotten) -> None:
    """Bar the entries that forgotten memories rested on."""
    add_tombstones(tx, TombstoneKind.WORDS, map(pack_uuid, forgotten.erased))
    add_tombstones(tx, TombstoneKind.EVIDENCE, map(pack_uuid, forgotten.barred))


def is_memory_forgotten(store: Reader, episode_id: str) -> bool:
    """True where the user forgot the memory of this id."""
    return _has_any(store, (TombstoneKind.MEMORY,), episode_id)


def is_memory_gone(store: Reader, episode_id: str) -> bool:
    """True where the memory of this id was forgotten or purged."""
    return _has_any(store, (TombstoneKind.MEMORY, TombstoneKind.PURGED), episode_id)


def is_slot_forgotten(store: Reader, slot: str) -> bool:
    """True where the user forgot what this slot held."""
    return _has_any(store, (TombstoneKind.SLOT,), slot)


def is_slot_gone(store: Reader, slot: str) -> bool:
    """True where the memory of this slot was forgotten or purged: no extractor makes it again."""
    return _has_any(store, (TombstoneKind.SLOT, TombstoneKind.PURGED_SLOT), slot)


def named_by_any(store: Reader, keys: Collection[bytes]) -> set[bytes]:
    """Those of the keys that a tombstone of any kind has."""
    used = _used(store, TombstoneKind) if keys else []
    return _keys_among(store, keys, used) if used else set()


def forgotten_entries(store: Reader, uuids: Collection[str]) -> set[str]:
    """Those of the entries whose turn was forgotten."""
    return _among(store, uuids, (TombstoneKind.ENTRY,))


def erased_entries(store: Reader, uuids: Collection[str]) -> set[str]:
    """Those of the entries whose words must not be stored."""
    return _among(store, uuids, (TombstoneKind.WORDS, TombstoneKind.ENTRY))


def barred_entries(store: Reader, uuids: Collection[str]) -> set[str]:
    """Those of the entries that must not be evidence for a new automatic memory."""
    return _among(store, uuids, (TombstoneKind.WORDS, TombstoneKind.EVIDENCE, TombstoneKind.ENTRY))


@dataclass(frozen=True, slots=True)
class TombstoneCount:
    """How many tombstones of one kind were made on one day."""

    #: A local day, such as 2026-11-05.
    day: str
    kind: TombstoneKind
    number: int


def count_tombstones(store: Reader, kinds: Collection[TombstoneKind]) -> list[TombstoneCount]:
    """Count tombstones by day and kind, the latest day first. That is all that can be said of them."""
    table = tables.Tombstone
    day = fn.date(table.at_ms / 1000, "unixepoch", "localtime").alias("day")
    query = table.select(day, table.kind, fn.COUNT(SQL("*")).alias("number"))
    query = query.where(table.kind.in_([kind.value for kind in kinds])).group_by(SQL("day"), table.kind)
    rows = store.fetch(query.order_by(SQL("day").desc(), table.kind))
    return [TombstoneCount(row.day, TombstoneKind(row.kind), row.number) for row in rows]


def _has_any(store: Reader, kinds: Sequence[TombstoneKind], key: str) -> bool:
    return any(store.fetch_first(_select_tombstone(kind.value, key.encode())) is not None for kind in kinds)


def project_forgotten_ms(store: Reader, identity: str) -> int | None:
    """Until when nothing of a project is stored again, in milliseconds since 1970; None where it was not forgotten."""
    until_ms = store.fetch_value(_project_forgotten_at(identity.encode()))
    return None if until_ms is None else int(until_ms)


@prepared
def _select_tombstone(kind: str, key: bytes) -> Query:
    table = tables.Tombstone
    return table.select(table.at_ms).where((table.kind == kind) & (table.key == key))


@prepared
def _any_of_kind(kind: str) -> Query:
    table = tables.Tombstone
    return table.select(table.at_ms).where(table.kind == kind).limit(1)


def _among(store: Reader, uuids: Collection[str], kinds: Sequence[TombstoneKind]) -> set[str]:
    """Those of the entries that have a tombstone of one of the kinds."""
    used = _used(store, kinds) if uuids else []
    if not used:
        return set()
    return {unpack_uuid(key) for key in _keys_among(store, [pack_uuid(uuid) for uuid in uuids if uuid], used)}


def _used(store: Reader, kinds: Iterable[TombstoneKind]) -> list[str]:
    """Those of the kinds of which there is any tombstone: most memories have none."""
    return [kind.value for kind in kinds if store.fetch_first(_any_of_kind(kind.value)) is not None]


def _keys_among(store: Reader, keys: Collection[bytes], used: Sequence[str]) -> set[bytes]:
    """Those of the keys that have a tombstone of one of the kinds ``used``.

    Raw SQL: keys are bytes, of which no JSON list can hold any number.
    """
    sql = f"SELECT key FROM tombstone WHERE kind IN ({', '.join('?' * len(used))}) AND key IN"
    return {bytes(key) for (key,) in store.rows_among(sql, list(keys), used)}


@prepared
def _project_forgotten_at(key: bytes) -> Query:
    tombstone = tables.Tombstone
    of_project = (tombstone.kind == TombstoneKind.PROJECT) & (tombstone.key == key)
    return tombstone.select(tombstone.at_ms).where(of_project)
