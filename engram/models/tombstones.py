"""What was forgotten stays forgotten: tombstones carried from one database to another, and what they name deleted."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from engram.errors import BrokenDatabase
from engram.models.entries import turn_of_entry
from engram.models.episodes import select_episodes
from engram.models.forgetting import delete_memories, wipe_free_space
from engram.models.store import Store
from engram.models.turns import erase_entries
from engram.models.uuids import pack_uuid, unpack_uuid

#: ``(kind, key, when it was forgotten)``.
Tombstone = tuple[str, bytes, int]

#: Memories that a tombstone names: by id, by slot, or (where no person made them) by an entry that they rest on.
_NAMED_EPISODES = (
    "SELECT e.id FROM tombstone t JOIN episode e ON e.episode_id = CAST(t.key AS TEXT) WHERE t.kind = 'episode' "
    "UNION SELECT e.id FROM tombstone t JOIN episode e ON e.slot = CAST(t.key AS TEXT) WHERE t.kind = 'slot' "
    "UNION SELECT e.id FROM evidence v JOIN tombstone t ON t.kind = 'entry' AND t.key = v.uuid "
    "JOIN episode e ON e.id = v.episode_ref WHERE e.source = 'auto'"
)
_NAMED_TURNS = "SELECT n.id FROM tombstone t JOIN turn n ON n.key = CAST(t.key AS TEXT) WHERE t.kind = 'turn'"


def read_tombstones(store: Store) -> list[Tombstone]:
    """Everything that was forgotten. The database need not be open: a damaged one is read as far as it goes."""
    return [(str(row[0]), bytes(row[1]), int(row[2])) for row in store.rows("SELECT kind, key, at_ms FROM tombstone")]


def add_tombstones(store: Store, tombstones: Sequence[Tombstone]) -> int:
    """Take over tombstones; returns how many are new. Inside ``writing``."""
    before = int(store.value("SELECT count(*) FROM tombstone"))
    store.run_many("INSERT OR IGNORE INTO tombstone (kind, key, at_ms) VALUES (?, ?, ?)", tombstones)
    return int(store.value("SELECT count(*) FROM tombstone")) - before


def apply_tombstones(store: Store) -> int:
    """Delete what the database's own tombstones name; returns how many memories and turns there were.

    A restored, imported, migrated or set-aside database may hold what was forgotten since it was written. Text that
    was deleted leaves the file only with ``wipe_free_space``.
    """
    if not store.value("SELECT EXISTS (SELECT 1 FROM tombstone)"):
        return 0
    with store.writing():
        named = [int(row[0]) for row in store.rows(_NAMED_EPISODES)]
        memories = [memory for row_id in named for memory in select_episodes(store, "e.id = ?", (row_id,))]
        turn_ids = [int(row[0]) for row in store.rows(_NAMED_TURNS)]
        delete_memories(store, memories, turn_ids)
        erased = _erase_forgotten_entries(store)
    return len(memories) + len(turn_ids) + erased


def _erase_forgotten_entries(store: Store) -> int:
    """Erase the words of forgotten entries that stand in another turn than when they were forgotten."""
    by_turn: dict[int, list[str]] = {}
    for (key,) in store.rows("SELECT key FROM tombstone WHERE kind = 'entry'"):
        uuid = unpack_uuid(key)
        turn_id = turn_of_entry(store, uuid)
        if turn_id is not None:
            by_turn.setdefault(turn_id, []).append(uuid)
    return sum(erase_entries(store, turn_id, uuids) for turn_id, uuids in by_turn.items())


def is_named_by_tombstone(store: Store, episode_id: str, slot: str | None, uuids: Iterable[str], source: str) -> bool:
    """True where a memory must not come (back): it, its slot, or an entry that an automatic one rests on was forgotten."""
    names = [("episode", episode_id.encode())]
    if slot:
        names.append(("slot", slot.encode()))
    if source == "auto":
        names += [("entry", pack_uuid(uuid)) for uuid in uuids if uuid]
    return any(store.row("SELECT 1 FROM tombstone WHERE kind = ? AND key = ?", name) is not None for name in names)


def clean_copy(path: Path, driver: str, tombstones: Sequence[Tombstone]) -> int:
    """Delete what tombstones name from another database of Engram, such as one that was set aside; returns how much.

    Raises:
        StoreError: the file is damaged, or not Engram's; it is as it was.
    """
    copy = Store(path, driver=driver)
    try:
        copy.open()
        if damage := copy.find_damage():
            raise BrokenDatabase(damage)
        with copy.writing():
            add_tombstones(copy, tombstones)
            cleaned = apply_tombstones(copy)
        if cleaned:
            wipe_free_space(copy)
    finally:
        copy.close()
    return cleaned
