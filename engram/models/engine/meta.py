"""Small facts about a memory, by name: the table ``meta``."""

from __future__ import annotations

from peewee import Query

from engram.models import tables
from engram.models.engine.statement import prepared
from engram.models.engine.transaction import Reader, Tx


def get_meta(store: Reader, key: str) -> str | None:
    """The value under a key; None where there is none."""
    value = store.fetch_value(_value_of(key))
    return None if value is None else str(value)


def put_meta(tx: Tx, key: str, value: str) -> None:
    """Store a value under a key, in place of an earlier one."""
    tx.run(_replace_value(key, value))


def drop_meta(tx: Tx, key: str) -> None:
    """Delete the value under a key, if there is one."""
    tx.run(_delete_value(key))


@prepared
def _value_of(key: str) -> Query:
    return tables.MetaValue.select(tables.MetaValue.value).where(tables.MetaValue.key == key)


@prepared
def _replace_value(key: str, value: str) -> Query:
    return tables.MetaValue.insert(key=key, value=value).on_conflict_replace()


@prepared
def _delete_value(key: str) -> Query:
    return tables.MetaValue.delete().where(tables.MetaValue.key == key)
