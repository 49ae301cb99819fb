"""Is memory.db sound, down to what each row says: SQLite checks its pages, not the values that Engram packs into them."""

from __future__ import annotations

import json
import struct
from collections.abc import Callable

from engram.errors import EngramError
from engram.models.episode_history import history_of
from engram.models.episodes import select_episodes
from engram.models.packed_entries import unpack_entries
from engram.models.store import Row, Store
from engram.models.turns import unpack_facts

#: What reading a damaged value may raise, beside errors of Engram.
UNREADABLE = (ValueError, TypeError, KeyError, IndexError, AttributeError, OverflowError, struct.error)


def find_all_damage(store: Store) -> str:
    """What SQLite finds wrong, or the first row that Engram cannot read; "" where all is well. Takes a while."""
    return store.find_damage() or find_unreadable(store)


def find_unreadable(store: Store) -> str:
    """The first row whose values cannot be read; "" where there is none."""
    for table, sql, read in (
        ("meta", "SELECT key, value FROM meta", lambda row: str(row[1])),
        ("episode", "SELECT id FROM episode", lambda row: _read_episode(store, row[0])),
        ("turn", "SELECT id, entries, actions, extra FROM turn", _read_turn),
        ("transcript", "SELECT id, reader_state FROM transcript", lambda row: json.loads(row[1])),
        ("run", "SELECT id, report FROM run", lambda row: json.loads(row[1])),
        ("history", "SELECT DISTINCT episode_id FROM history", lambda row: history_of(store, row[0])),
    ):
        try:
            damage = _first_unreadable(store, table, sql, read)
        except EngramError as error:
            damage = str(error)
        if damage:
            return damage
    return ""


def _first_unreadable(store: Store, table: str, sql: str, read: Callable[[Row], object]) -> str:
    for row in store.rows(sql):
        try:
            read(row)
        except (EngramError, *UNREADABLE) as error:
            return f"row {row[0]!r} of {table} cannot be read: {error}"
    return ""


def _read_episode(store: Store, row_id: int) -> None:
    (episode,) = select_episodes(store, "e.id = ?", (row_id,))
    texts = (episode.summary, episode.content, episode.kind, episode.status, *episode.facts, *episode.entities)
    if not all(isinstance(text, str) for text in texts):
        raise ValueError("a text is no text")


def _read_turn(row: Row) -> None:
    unpack_entries(bytes(row[1]))
    unpack_facts(row[2])
    json.loads(row[3])
