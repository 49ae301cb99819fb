"""A damaged or older memory.db, opened to be read as far as it goes. Nothing in it is changed or migrated."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from peewee import Field

from engram.errors import EngramError
from engram.models import tables
from engram.models.soundness import UNREADABLE
from engram.models.store import Store


@contextlib.contextmanager
def opened_source(store: Store, path: Path) -> Iterator[Store]:
    """Open another memory.db beside ``store``, which gives the driver and the clock.

    Columns that its tables were made without are read as their defaults, in the thread that opens it.
    """
    source = Store(path, driver=store.driver, clock=store.clock, is_damaged=True)
    try:
        # What can't be read here can't be read later either, and is reported there.
        with contextlib.suppress(EngramError, *UNREADABLE):
            _add_missing_columns(source)
        yield source
    finally:
        source.close()


def _add_missing_columns(source: Store) -> None:
    """Put a view of the same name before each table that lacks columns: SQLite looks for temporary ones first."""
    for table in tables.ALL_TABLES:
        name = table._meta.table_name
        present = {str(column) for (column,) in source.rows("SELECT name FROM pragma_table_info(?)", (name,))}
        missing = [field for field in table._meta.sorted_fields if field.column_name not in present]
        if present and missing:
            columns = ", ".join(f'{_literal(field)} AS "{field.column_name}"' for field in missing)
            source.rows(f'CREATE TEMP VIEW "{name}" AS SELECT *, {columns} FROM main."{name}"')


def _literal(field: Field) -> str:
    """Return the default of a column as SQL; NULL for one without."""
    default: Any = field.default
    if default is None or callable(default):
        return "NULL"
    return "'" + default.replace("'", "''") + "'" if isinstance(default, str) else str(int(default))
