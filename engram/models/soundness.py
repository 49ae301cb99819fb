"""Is memory.db sound, down to what each row says: SQLite checks its pages, not the values that Engram packs into
them.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Callable, Iterator

from engram.errors import EngramError
from engram.models import tables
from engram.models.episode_history import history_of
from engram.models.episodes import select_episodes
from engram.models.store import Store
from engram.models.transaction import Reader
from engram.models.turns import load_turn_row

#: What reading a damaged value may raise, beside errors of Engram.
UNREADABLE = (ValueError, TypeError, KeyError, IndexError, AttributeError, OverflowError, struct.error)


def quick_damage(store: Reader) -> str:
    """What a quick check finds wrong with the file; "" where all is well. Raises BrokenDatabase where it cannot
    look.
    """
    damage = store.value("PRAGMA quick_check(1)")
    return "" if damage in (None, "ok") else str(damage)


def find_all_damage(store: Store) -> str:
    """What SQLite finds wrong, or the first row that Engram cannot read; "" where all is well. Takes a while."""
    return store.find_damage() or find_unreadable(store)


def find_unreadable(store: Reader) -> str:
    """The first row whose values cannot be read; "" where there is none."""
    for table, sql, read in (
        ("meta", "SELECT key, value FROM meta", lambda key, value: str(value)),
        ("episode", "SELECT id FROM episode", lambda row_id: _read_episode(store, row_id)),
        ("turn", "SELECT id FROM turn", lambda row_id: load_turn_row(store, row_id)),
        ("transcript", "SELECT id, cursor FROM transcript", lambda row_id, cursor: json.loads(cursor or "{}")),
        ("run", "SELECT id, report FROM run", lambda row_id, report: json.loads(report)),
        ("history", "SELECT DISTINCT episode_id FROM history", lambda episode_id: history_of(store, episode_id)),
    ):
        if damage := _first_unreadable(store, table, sql, read):
            return damage
    return _find_unreadable_text(store)


def _first_unreadable(store: Reader, table: str, sql: str, read: Callable[..., object]) -> str:
    try:
        for row in store.each_row(sql):
            try:
                read(*row)
            except (EngramError, *UNREADABLE) as error:
                key, *_ = row
                return f"row {key!r} of {table} cannot be read: {error}"
    except EngramError as error:
        return f"{table} cannot be read: {error}"
    return ""


def _find_unreadable_text(store: Reader) -> str:
    """The first table with a text that is no UTF-8: SQLite keeps any bytes as a text, and no check of its own minds."""
    try:
        for table, columns in _text_columns(store):
            for _ in store.each_row(f"SELECT {columns} FROM {table}"):
                pass
    except EngramError as error:
        return f"a text cannot be read: {error}"
    return ""


def _text_columns(store: Reader) -> Iterator[tuple[str, str]]:
    """Each table and its columns of text, quoted; the text indexes keep none but for themselves."""
    names = store.rows(
        "SELECT name FROM sqlite_master WHERE type = 'table' AND sql NOT LIKE 'CREATE VIRTUAL%' "
        "AND name NOT LIKE '%\\_fts\\_%' ESCAPE '\\'"
    )
    for (table,) in names:
        columns = store.rows("SELECT name FROM pragma_table_info(?) WHERE type = 'TEXT'", (table,))
        if columns:
            yield f'"{table}"', ", ".join(f'"{name}"' for (name,) in columns)


def _read_episode(store: Reader, row_id: int) -> None:
    (episode,) = select_episodes(store, tables.Episode.id == row_id)
    texts = (episode.summary, episode.content, episode.kind, episode.status, *episode.facts, *episode.entities)
    if not all(isinstance(text, str) for text in texts):
        raise ValueError("a text is no text")
