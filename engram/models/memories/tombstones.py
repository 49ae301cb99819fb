"""Tombstones mark forgotten and purged items, so that they don't come back. They contain ids and hashes, never text."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum

from peewee import SQL, Query, Select, Value, fn

from engram.models import tables
from engram.models.engine.statement import pack_uuid, unpack_uuid
from engram.models.engine.transaction import Reader, Tx, asks_any, asks_rows, asks_values
from engram.models.work.work import Span
from engram.paths import may_be_of
from engram.system.lazy_regex import lazy_regex

#: The words of a text, with signs that tell them apart: "C++" is not "C", nor "-1" "1".
_WORD = lazy_regex(r"(?<!\w)-\d[^\W_]*|[^\W_]+[+#]*")
#: Minimum number of letters of a summary that identifies a text on its own.
_LEAST_LETTERS = 20


class TombstoneKind(StrEnum):
    """What a tombstone marks; the value of the ``kind`` column."""

    #: A forgotten memory, by its id. Neither an import nor a restore brings it back.
    MEMORY = "episode"
    #: The slot of a forgotten memory: no extractor creates the same memory from the same turn again.
    SLOT = "slot"
    #: A forgotten turn, by its key, and each of its entries, by id: they are never read again.
    TURN = "turn"
    ENTRY = "entry"
    #: An entry whose words were erased from a turn that was kept: its text is never stored again.
    WORDS = "words"
    #: An entry that a forgotten memory rested on: it is never evidence for a new automatic memory.
    EVIDENCE = "evidence"
    #: A text or command in such an entry, as a hash of its time and words: no copy with other ids is stored.
    SAID = "said"
    #: A purged memory, by its id, and its slot: it is not recreated automatically, but its words may remain in turns.
    PURGED = "purged"
    PURGED_SLOT = "purged-slot"
    #: The text of a forgotten memory, as a hash of where it applied and its words: no agent saves it again.
    TEXT = "text"
    #: A forgotten project, by its identity: nothing that was said in it before is stored again.
    PROJECT = "project"


@dataclass(frozen=True, slots=True)
class CutMemory:
    """The remaining text of a memory into which a forgotten one was merged."""

    episode_id: str
    summary: str
    content: str
    entities: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Forgotten:
    """What one forget command deletes, by ids that are the same in every copy of the database."""

    episode_ids: tuple[str, ...] = ()
    turn_keys: tuple[str, ...] = ()
    #: Entries whose words are deleted, by id. A queued prompt has no id and is identified by the key of its turn.
    erased: tuple[str, ...] = ()
    #: Entries that must not be evidence for new automatic memories.
    barred: tuple[str, ...] = ()
    #: None if the forgotten memory had not been merged into another one.
    cut: CutMemory | None = None
    #: The agent's ids of sessions that are forgotten completely, with everything that is stored about them.
    session_ids: tuple[str, ...] = ()


def add_tombstones(tx: Tx, kind: TombstoneKind, keys: Iterable[bytes]) -> None:
    """Add tombstones of one kind; existing ones are left unchanged."""
    now = tx.now_ms()
    rows = [{"kind": kind.value, "key": key, "at_ms": now} for key in keys]
    tx.insert_many(tables.Tombstone, rows, or_ignore=True)


def add_entry_tombstones(tx: Tx, forgotten: Forgotten) -> None:
    """Add the tombstones of the entries that forgotten memories rested on."""
    add_tombstones(tx, TombstoneKind.WORDS, map(pack_uuid, forgotten.erased))
    add_tombstones(tx, TombstoneKind.EVIDENCE, map(pack_uuid, forgotten.barred))


def said_key(at_ms: int, words: str) -> bytes:
    """Return a hash that identifies a text or a command, whatever id it is stored under."""
    return hashlib.blake2b(f"{at_ms}\n{words}".encode("utf-8", "replace"), digest_size=16).digest()


def are_words_forgotten(store: Reader) -> bool:
    """Return True if any words have ever been forgotten."""
    return bool(_used(store, (TombstoneKind.SAID,)))


def forgotten_words(store: Reader, keys: Collection[bytes]) -> set[bytes]:
    """Return the keys (``said_key``) whose words were forgotten."""
    return _keys_among(store, keys, [TombstoneKind.SAID.value])


def bar_text(tx: Tx, texts: Iterable[str], project_id: int | None, *, is_global: bool) -> None:
    """Keep agents and other people's exports from storing the text of a forgotten memory again, where it applied."""
    identity = _identity_of(tx, project_id)
    places = {identity, ""} if is_global else {identity}
    add_tombstones(tx, TombstoneKind.TEXT, _text_keys(texts, places))


def is_text_forgotten(store: Reader, texts: Iterable[str], project_id: int | None) -> bool:
    """Return True if a memory with one of the texts was forgotten in a project, or one that applied everywhere."""
    used = _used(store, (TombstoneKind.TEXT,))
    places = {_identity_of(store, project_id), ""} if used else set()
    return bool(_keys_among(store, list(_text_keys(texts, places)), used))


def allow_text(tx: Tx, texts: Iterable[str], project_id: int | None) -> None:
    """Allow a forgotten text again, because the user has said or saved it once more."""
    if _used(tx, (TombstoneKind.TEXT,)):
        keys = _text_keys(texts, {_identity_of(tx, project_id), ""})
        tx.run_many("DELETE FROM tombstone WHERE kind = ? AND key = ?", [(TombstoneKind.TEXT.value, k) for k in keys])


def _text_keys(texts: Iterable[str], places: Iterable[str]) -> set[bytes]:
    told = {" ".join(_WORD.findall(text.casefold())) for text in texts} - {""}
    # "Decision" and "Root cause" are headings, with which other texts begin, too. The longest is the whole text.
    said = {words for words in told if len(words) >= _LEAST_LETTERS or words == max(told, key=len)}
    return {
        hashlib.blake2b(f"{place}\n{words}".encode("utf-8", "replace"), digest_size=16).digest()
        for place in places
        for words in said
    }


def _identity_of(store: Reader, project_id: int | None) -> str:
    table = tables.Project
    return store.fetch_value(table.select(table.identity).where(table.id == project_id)) or ""


def is_memory_gone(store: Reader, episode_id: str, *, with_purged: bool = True) -> bool:
    return _has_any(store, (TombstoneKind.MEMORY, *[TombstoneKind.PURGED] * with_purged), episode_id)


def forgotten_memories(store: Reader, episode_ids: Collection[str]) -> set[str]:
    used = _used(store, (TombstoneKind.MEMORY,)) if episode_ids else []
    return {key.decode() for key in _keys_among(store, [name.encode() for name in episode_ids], used)}


def is_slot_gone(store: Reader, slot: str, *, with_purged: bool = True) -> bool:
    return _has_any(store, (TombstoneKind.SLOT, *[TombstoneKind.PURGED_SLOT] * with_purged), slot)


def is_turn_forgotten(store: Reader, key: str) -> bool:
    return _has_any(store, (TombstoneKind.TURN,), key)


def named_by_any(store: Reader, keys: Collection[bytes]) -> set[bytes]:
    return _keys_among(store, keys, _used(store, TombstoneKind) if keys else [])


def forgotten_entries(store: Reader, uuids: Collection[str]) -> set[str]:
    """Return the entries whose turn was forgotten."""
    return _among(store, uuids, (TombstoneKind.ENTRY,))


def erased_entries(store: Reader, uuids: Collection[str]) -> set[str]:
    """Return the entries whose words must not be stored."""
    return _among(store, uuids, (TombstoneKind.WORDS, TombstoneKind.ENTRY))


def barred_entries(store: Reader, uuids: Collection[str]) -> set[str]:
    """Return the entries that must not be evidence for new automatic memories."""
    return _among(store, uuids, (TombstoneKind.WORDS, TombstoneKind.EVIDENCE, TombstoneKind.ENTRY))


@dataclass(frozen=True, slots=True)
class TombstoneCount:
    """How many tombstones of one kind were added on one day."""

    #: A day in local time, such as 2026-11-05.
    day: str
    kind: TombstoneKind
    number: int


def count_tombstones(store: Reader, kinds: Collection[TombstoneKind]) -> list[TombstoneCount]:
    """Count tombstones by day and kind, the latest day first."""
    table = tables.Tombstone
    day = fn.date(table.at_ms / 1000, "unixepoch", "localtime").alias("day")
    query = table.select(day, table.kind, fn.COUNT(SQL("*")).alias("number"))
    query = query.where(table.kind.in_([kind.value for kind in kinds])).group_by(SQL("day"), table.kind)
    rows = store.fetch(query.order_by(SQL("day").desc(), table.kind))
    return [TombstoneCount(row.day, TombstoneKind(row.kind), row.number) for row in rows]


def _has_any(store: Reader, kinds: Sequence[TombstoneKind], key: str) -> bool:
    return any(_has_tombstone(store, kind.value, key.encode()) for kind in kinds)


def project_forgotten_ms(store: Reader, identity: str) -> int | None:
    """Return until when a project was forgotten, in milliseconds since 1970; None if it never was."""
    forgotten = forgotten_projects(store).items()
    return max((until_ms for other, until_ms in forgotten if may_be_of(identity, other)), default=None)


@asks_rows(lambda rows: {bytes(row.key).decode(errors="surrogateescape"): int(row.at_ms) for row in rows})
def forgotten_projects() -> Query:
    """Return the identity of each forgotten project, and until when it was forgotten, in milliseconds since 1970."""
    table = tables.Tombstone
    return table.select(table.key, table.at_ms).where(table.kind == TombstoneKind.PROJECT.value)


@asks_any
def has_forgotten_turns() -> Query:
    """Return whether a project, or whole turns of sessions, were ever forgotten."""
    table = tables.Tombstone
    return table.select(table.at_ms).where(table.kind.in_([TombstoneKind.PROJECT.value, TombstoneKind.TURN.value]))


def forgotten_span(store: Reader, identity: str | None) -> list[Span]:
    """Return the time span from which nothing in a project may be stored again; [] if it was never forgotten."""
    until_ms = project_forgotten_ms(store, identity) if identity else None
    return [] if until_ms is None else [(0, until_ms + 1)]


@asks_any
def _has_tombstone(kind: str, key: bytes) -> Query:
    table = tables.Tombstone
    return table.select(table.at_ms).where((table.kind == kind) & (table.key == key))


def _among(store: Reader, uuids: Collection[str], kinds: Sequence[TombstoneKind]) -> set[str]:
    used = _used(store, kinds) if uuids else []
    keys = [pack_uuid(uuid) for uuid in uuids if uuid] if used else []
    return {unpack_uuid(key) for key in _keys_among(store, keys, used)}


@asks_values
def _used(kinds: Iterable[TombstoneKind]) -> Query:
    """Return the kinds for which there are tombstones. Most databases have none at all."""
    kind = SQL("value")
    has_any = fn.EXISTS(tables.Tombstone.select(Value(1)).where(tables.Tombstone.kind == kind))
    return Select([fn.json_each(kinds)], [kind]).where(has_any)


def _keys_among(store: Reader, keys: Collection[bytes], used: Sequence[str]) -> set[bytes]:
    """Return the keys that have a tombstone of one of the kinds ``used``.

    This uses raw SQL, because keys are bytes, which a JSON list can't contain.
    """
    if not used:
        return set()
    sql = f"SELECT key FROM tombstone WHERE kind IN ({', '.join('?' * len(used))}) AND key IN"
    return {bytes(key) for (key,) in store.rows_among(sql, list(keys), used)}
