"""What all tables have in common: how their names are made, SQL defaults, references and checks."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from peewee import SQL, BooleanField, Check, Field, ForeignKeyField, Model, Node


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
    """A foreign key in ``column``. It has no index of its own; with ``cascade`` a row goes with the one it names."""
    on_delete = "CASCADE" if cascade else None
    if null:
        return ForeignKeyField(table, column_name=column, null=True, index=False, backref="+", on_delete=on_delete)
    return ForeignKeyField(table, column_name=column, index=False, backref="+", on_delete=on_delete)


def one_of(column: str, values: Iterable[str]) -> Node:
    """A constraint: the column holds one of these texts."""
    return Check(f"{column} IN ({', '.join(_literal(value) for value in values)})")


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
    """The names of a table's columns, in their order."""
    fields: list[Field] = table._meta.sorted_fields
    return [field.column_name for field in fields]
