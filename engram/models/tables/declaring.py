"""What all tables have in common: how their names are made, SQL defaults, references and checks."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from peewee import SQL, BooleanField, Check, Field, ForeignKeyField, Model, Node

from engram.text.words import UNSPACED_LETTERS, UNSPACED_RANGES


class Table(Model):
    """A table of memory.db. It is bound to no database: the store compiles a query for its own.

    A class declares columns, indexes and constraints. Its instances are not used: rows become frozen records.
    """

    class Meta:
        legacy_table_names = False


class View(Table):
    """A view of memory.db: selected from like a table. ``definition`` is the statement that creates it."""

    definition: str

    class Meta:
        primary_key = False


def reference(table: type[Model], column: str, *, null: bool = False, cascade: bool = False) -> Any:
    """Return a foreign key in ``column``. It has no index of its own; with ``cascade`` a row is deleted with the one
    that it names.
    """
    on_delete = "CASCADE" if cascade else None
    if null:
        return ForeignKeyField(table, column_name=column, null=True, index=False, backref="+", on_delete=on_delete)
    return ForeignKeyField(table, column_name=column, index=False, backref="+", on_delete=on_delete)


def one_of(column: str, values: Iterable[str]) -> Node:
    """Return a constraint: the column holds one of these texts."""
    return Check(f"{column} IN ({', '.join(_literal(value) for value in values)})")


def in_pairs_sql(text: str) -> str:
    """Return a text of a view as the full-text indexes hold it: ``engram.text.words.in_pairs`` as an expression of SQL.

    For most texts, a check of a few ranges of letters shows that they have none of these. The letters of others are
    read in parts of 64, since SQLite counts to a letter from the beginning of its text.
    """
    is_letter = f"GLOB '[{UNSPACED_LETTERS}]'"
    return f"""CASE WHEN {text} GLOB '*[{UNSPACED_RANGES}]*' THEN (WITH RECURSIVE
        part(start, whole) AS (SELECT 1, {text}
            UNION ALL SELECT start + 64, whole FROM part WHERE start + 64 <= length(whole)),
        place(place) AS (SELECT 1 UNION ALL SELECT place + 1 FROM place WHERE place < 64)
        SELECT group_concat(CASE WHEN letter {is_letter} THEN ' ' || letter ||
            CASE WHEN behind {is_letter} THEN behind ELSE '' END || ' ' ELSE letter END, '')
        FROM (SELECT substr(part, place, 1) AS letter, substr(part, place + 1, 1) AS behind
            FROM (SELECT substr(whole, start, 65) AS part FROM part LIMIT -1) CROSS JOIN place)) ELSE {text} END"""


def add_column_constraints(table: type[Model]) -> None:
    """Give every column with a default the same default in SQL, and let flags be 0 or 1."""
    for field in table._meta.sorted_fields:
        constraints = list(field.constraints or ())
        if field.default is not None and not callable(field.default):
            constraints.append(SQL(f"DEFAULT {_literal(field.default)}"))
        if isinstance(field, BooleanField):
            constraints.append(Check(f"{field.column_name} IN (0, 1)"))
        field.constraints = constraints


def _literal(value: object) -> str:
    if isinstance(value, str):
        return "'" + value.replace("'", "''") + "'"
    if isinstance(value, bytes):
        return f"x'{value.hex()}'"
    return repr(int(value)) if isinstance(value, bool) else repr(value)


def column_names(table: type[Model]) -> list[str]:
    fields: list[Field] = table._meta.sorted_fields
    return [field.column_name for field in fields]
