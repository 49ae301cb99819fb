"""Declare tables: base classes, SQL defaults, references and checks."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from peewee import SQL, BooleanField, Check, Field, ForeignKeyField, Model, Node

from engram.text.words import UNSPACED_LETTERS, UNSPACED_RANGES


class Table(Model):
    """A table of memory.db. It is not bound to a database, because ``Store`` compiles and runs the queries.

    Instances are not used; rows are read as frozen records.
    """

    class Meta:
        legacy_table_names = False


class View(Table):
    """A view of memory.db; ``definition`` is the statement that creates it."""

    definition: str

    class Meta:
        primary_key = False


def reference(table: type[Model], column: str, *, null: bool = False, cascade: bool = False) -> Any:
    """Return a foreign key without an index. With ``cascade``, rows are deleted with the row that they refer to."""
    on_delete = "CASCADE" if cascade else None
    if null:
        return ForeignKeyField(table, column_name=column, null=True, index=False, backref="+", on_delete=on_delete)
    return ForeignKeyField(table, column_name=column, index=False, backref="+", on_delete=on_delete)


def one_of(column: str, values: Iterable[str]) -> Node:
    return Check(f"{column} IN ({', '.join(_literal(value) for value in values)})")


def in_pairs_sql(text: str) -> str:
    """Return an SQL expression for ``engram.text.words.in_pairs``, used by views to prepare full-text indexes.

    Usually, a check of a few ranges shows that there are no such letters. Otherwise, the text is read in parts of 64
    letters, because ``substr`` counts letters from the beginning of the string.
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
    """Declare every column's default in SQL too, and restrict flags to 0 and 1."""
    for field in table._meta.sorted_fields:
        constraints = list(field.constraints or ())
        if (default := default_sql(field)) != "NULL":
            constraints.append(SQL(f"DEFAULT {default}"))
        if isinstance(field, BooleanField):
            constraints.append(Check(f"{field.column_name} IN (0, 1)"))
        field.constraints = constraints


def default_sql(field: Field) -> str:
    """Return the default of a column as SQL; NULL if it has none."""
    return "NULL" if field.default is None or callable(field.default) else _literal(field.default)


def _literal(value: object) -> str:
    if isinstance(value, str):
        return "'" + value.replace("'", "''") + "'"
    if isinstance(value, bytes):
        return f"x'{value.hex()}'"
    return repr(int(value)) if isinstance(value, bool) else repr(value)


def column_names(table: type[Model]) -> list[str]:
    fields: list[Field] = table._meta.sorted_fields
    return [field.column_name for field in fields]
