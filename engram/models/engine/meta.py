"""The ``meta`` table: small facts about this memory.db, by name."""

from __future__ import annotations

from peewee import Query

from engram.models import tables
from engram.models.engine.migrations import MADE_AT
from engram.models.engine.transaction import Reader, asks_rows, writes


def made_at_ms(store: Reader) -> int:
    """Return when this memory was created, in milliseconds since 1970; 0 if unknown."""
    return int(get_meta(store, MADE_AT) or 0)


@asks_rows(lambda rows: str(rows[0].value) if rows else None)
def get_meta(key: str) -> Query:
    """Return the value under a key; None if there is none."""
    return tables.MetaValue.select(tables.MetaValue.value).where(tables.MetaValue.key == key)


def metas_beginning_with(store: Reader, beginning: str) -> dict[str, str]:
    """Return key → value for all keys with a given prefix."""
    table = tables.MetaValue
    rows = store.fetch(table.select(table.key, table.value).where(table.key.startswith(beginning)))
    return {row.key: row.value for row in rows}


@writes
def put_meta(key: str, value: str) -> Query:
    """Store a value under a key, replacing any earlier one."""
    return tables.MetaValue.insert(key=key, value=value).on_conflict_replace()


@writes
def drop_meta(key: str) -> Query:
    """Delete the value under a key, if there is one."""
    return tables.MetaValue.delete().where(tables.MetaValue.key == key)
