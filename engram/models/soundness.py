"""Is memory.db sound, down to what each row says: SQLite checks its pages, not the values that Engram packs into
them.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from peewee import chunked

from engram.errors import EngramError
from engram.models.episode_history import changes_by_row
from engram.models.episodes import LIST_FIELDS, episodes_by_row
from engram.models.store import Store
from engram.models.transaction import Reader, Row
from engram.models.turns import turns_by_row

#: What reading a damaged value may raise, beside errors of Engram.
UNREADABLE = (ValueError, TypeError, KeyError, IndexError, AttributeError, OverflowError, struct.error)

#: Rows that are read together; where that fails, one by one.
BATCH_ROWS = 500


def quick_damage(store: Reader) -> str:
    """What a quick check finds wrong with the file; "" where all is well. Raises BrokenDatabase where it cannot
    look.
    """
    damage = store.value("PRAGMA quick_check(1)")
    return "" if damage in (None, "ok") else str(damage)


def table_damage(store: Reader, tables: Sequence[str]) -> str:
    """What SQLite finds wrong with some tables and their indexes; "" where all is well.

    More than the quick check: a page that was replaced by an empty one leaves rows in the indexes alone.

    Raises:
        BrokenDatabase: it cannot look.
    """
    for table in tables:
        damage = store.value(f"PRAGMA integrity_check('{table}')")
        if damage not in (None, "ok"):
            return f"{table}: {damage}"
    return ""


def find_all_damage(store: Store) -> str:
    """What SQLite finds wrong, or the first row that Engram cannot read; "" where all is well. Takes a while."""
    return store.find_damage() or find_unreadable(store)


def find_unreadable(store: Reader) -> str:
    """The first row whose values cannot be read; "" where there is none."""
    for table, sql, read in (
        ("meta", "SELECT key, value FROM meta", lambda rows: [str(value) for _, value in rows]),
        ("episode", "SELECT id FROM episode", lambda rows: _read_episodes(store, _keys(rows))),
        ("turn", "SELECT id FROM turn", lambda rows: turns_by_row(store, _keys(rows))),
        (
            "transcript",
            "SELECT id, cursor FROM transcript",
            lambda rows: [json.loads(text or "{}") for _, text in rows],
        ),
        ("run", "SELECT id, report FROM run", lambda rows: [json.loads(report) for _, report in rows]),
        ("history", "SELECT id FROM history", lambda rows: changes_by_row(store, _keys(rows))),
    ):
        if damage := _first_unreadable(store, table, sql, read):
            return damage
    return _find_unreadable_text(store)


def _first_unreadable(store: Reader, table: str, sql: str, read: Callable[[Sequence[Row]], object]) -> str:
    try:
        for rows in chunked(store.each_row(sql), BATCH_ROWS):
            try:
                read(rows)
            except (EngramError, *UNREADABLE):
                return _name_unreadable(table, rows, read)
    except EngramError as error:
        return f"{table} cannot be read: {error}"
    return ""


def _name_unreadable(table: str, rows: Sequence[Row], read: Callable[[Sequence[Row]], object]) -> str:
    """The first of some rows that cannot be read by itself."""
    for row in rows:
        try:
            read([row])
        except (EngramError, *UNREADABLE) as error:
            key, *_ = row
            return f"row {key!r} of {table} cannot be read: {error}"
    return f"{len(rows)} rows of {table} cannot be read together"


def _keys(rows: Sequence[Row]) -> list[Any]:
    return [key for (key,) in rows]


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


def _read_episodes(store: Reader, row_ids: Sequence[int]) -> None:
    for episode in episodes_by_row(store, row_ids).values():
        lists = (text for name in LIST_FIELDS for text in getattr(episode, name))
        texts = (episode.summary, episode.content, episode.kind, episode.status, *lists)
        if not all(isinstance(text, str) for text in texts):
            raise ValueError("a text is no text")
