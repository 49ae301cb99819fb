"""Check memory.db for damage row by row, and read as much as possible of a damaged or older one."""

from __future__ import annotations

import contextlib
import json
import struct
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from peewee import IntegrityError, chunked

from engram.errors import BrokenDatabase, EngramError, StoreError
from engram.models import tables
from engram.models.engine.transaction import Reader, Row, Store
from engram.models.memories.memory_history import changes_by_row
from engram.models.memories.memory_records import LIST_FIELDS, memories_by_row
from engram.models.search.fulltext import rebuild_indexes
from engram.models.sessions.stored_turns import turns_by_row
from engram.models.tables.declaring import default_sql

# -- Check memory.db down to the values in each row, because SQLite checks only pages, not the packed values in them.

#: Exceptions that reading a damaged value may raise, apart from Engram's own.
UNREADABLE = (ValueError, TypeError, KeyError, IndexError, AttributeError, OverflowError, struct.error)

#: Number of rows read at once. If that fails, they are read one by one.
BATCH_ROWS = 500


def quick_damage(store: Reader) -> str:
    """Return what a quick check finds wrong; "" if nothing is. Raises BrokenDatabase if the check can't run."""
    damage = store.value("PRAGMA quick_check(1)")
    return "" if damage in (None, "ok") else str(damage)


def table_damage(store: Reader, tables: Sequence[str]) -> str:
    """Return what SQLite finds wrong with some tables and their indexes; "" if nothing is.

    Unlike the quick check, this finds rows that exist only in an index, because their page was replaced by an empty
    one.

    Raises:
        BrokenDatabase: the check can't run.
    """
    for table in tables:
        damage = store.value(f"PRAGMA integrity_check('{table}')")
        if damage not in (None, "ok"):
            return f"{table}: {damage}"
    return ""


def find_all_damage(store: Store) -> str:
    """Return what SQLite finds wrong, or the first row that Engram can't read; "" if nothing is wrong. Slow."""
    return store.find_damage() or find_unreadable(store)


def find_unreadable(store: Reader) -> str:
    """Return a description of the first row that has an unreadable value; "" if there is none."""
    for table, sql, read in (
        ("meta", "SELECT key, value FROM meta", lambda rows: [str(value) for _, value in rows]),
        ("episode", "SELECT id FROM episode", lambda rows: _read_memories(store, _keys(rows))),
        ("turn", "SELECT id FROM turn", lambda rows: turns_by_row(store, _keys(rows))),
        (
            "transcript",
            "SELECT id, cursor FROM transcript",
            # The form depends on the agent: a JSON object, or a single word such as a digest.
            lambda rows: [json.loads(text) for _, text in rows if text.startswith("{")],
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
    """Return a description of the first row that can't be read on its own."""
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
    """Return the first table with text that isn't valid UTF-8. SQLite stores any bytes as text without checking them.

    Damage may also turn a number into text, so every column is read. An index may contain the undamaged text, so none
    is used.
    """
    table = "sqlite_master"
    try:
        for table, columns in _columns(store):
            texts = ", ".join(f"CASE typeof({column}) WHEN 'text' THEN {column} END" for column in columns)
            for _ in store.each_row(f"SELECT {texts} FROM {table} NOT INDEXED"):
                pass
    except EngramError as error:
        return f"text in {table} cannot be read: {error}"
    return ""


def _columns(store: Reader) -> Iterator[tuple[str, list[str]]]:
    """Yield each table and its columns, quoted, except the internal ones of text indexes."""
    names = store.rows(
        "SELECT name FROM sqlite_master WHERE type = 'table' AND sql NOT LIKE 'CREATE VIRTUAL%' "
        "AND name NOT LIKE '%\\_fts\\_%' ESCAPE '\\'"
    )
    for (table,) in names:
        columns = store.rows("SELECT name FROM pragma_table_info(?)", (table,))
        yield f'"{table}"', [f'"{name}"' for (name,) in columns]


def _read_memories(store: Reader, row_ids: Sequence[int]) -> None:
    for memory in memories_by_row(store, row_ids).values():
        lists = (text for name in LIST_FIELDS for text in getattr(memory, name))
        texts = (memory.summary, memory.content, memory.kind, memory.status, *lists)
        if not all(isinstance(text, str) for text in texts):
            raise ValueError("a text column contains a value that is not text")


def mend_indexes(store: Store) -> str:
    """Rebuild the indexes of a copy of memory.db if only they are damaged; return any other damage, or "".

    Raises:
        StoreError: the copy can't be checked.
    """
    damage = store.find_damage()
    if damage and not quick_damage(store):
        with contextlib.suppress(StoreError):
            rebuild_all_indexes(store)
        damage = store.find_damage()
    return damage


def rebuild_all_indexes(store: Store) -> None:
    """Rebuild every index from the rows that it indexes.

    Raises:
        StoreError: the rows are damaged too.
    """
    try:
        with store.transaction() as tx:
            tx.run("REINDEX")
    except IntegrityError as error:
        raise BrokenDatabase(f"{store.path} is damaged: {error}") from error
    rebuild_indexes(store)


# -- Open a damaged or older memory.db to read as much of it as possible, without changing or migrating it.


@contextlib.contextmanager
def opened_source(store: Store, path: Path) -> Iterator[Store]:
    """Open another memory.db for reading, with the driver and the clock of ``store``.

    Columns that are missing from its tables are read as their defaults, but only in the thread that opens it.
    """
    source = Store(path, driver=store.driver, clock=store.clock, is_damaged=True)
    try:
        # Whatever can't be read now can't be read later either, and is reported then.
        with contextlib.suppress(EngramError, *UNREADABLE):
            _add_missing_columns(source)
        yield source
    finally:
        source.close()


def _add_missing_columns(source: Store) -> None:
    """Hide each table that lacks columns behind a temporary view of the same name, which SQLite finds first."""
    for table in tables.ALL_TABLES:
        name = table._meta.table_name
        present = {str(column) for (column,) in source.rows("SELECT name FROM pragma_table_info(?)", (name,))}
        missing = [field for field in table._meta.sorted_fields if field.column_name not in present]
        if present and missing:
            columns = ", ".join(f'{default_sql(field)} AS "{field.column_name}"' for field in missing)
            source.rows(f'CREATE TEMP VIEW "{name}" AS SELECT *, {columns} FROM main."{name}"')
