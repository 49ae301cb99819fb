"""Queries of peewee as statements that can be run: compiled each time, or once for all times.

To compile a query takes longer than SQLite takes to answer most of them. A query that is asked often stands in a
function that is ``prepared``: it is compiled once, and each call only gives it other values.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from inspect import signature
from typing import Any, ParamSpec

from peewee import OP, SQL, ColumnBase, Expression, NodeList, Query, Select, SqliteDatabase, Value, fn

P = ParamSpec("P")

#: Gives queries the dialect of SQLite; it is never opened.
_DIALECT = SqliteDatabase(None)


@dataclass(frozen=True, slots=True)
class Statement:
    """SQL with the values for its parameters."""

    sql: str
    parameters: Sequence[Any] = ()


class _Parameter:
    """Stands for an argument while a query is compiled."""

    def __init__(self, name: str) -> None:
        self.name = name


def compile_query(query: Query | Statement) -> Statement:
    """The statement of a query."""
    if isinstance(query, Statement):
        return query
    sql, parameters = _DIALECT.get_sql_context().sql(query).query()  # type: ignore[no-untyped-call]
    return Statement(sql, tuple(parameters))


def in_json_list(column: ColumnBase, values: Any) -> ColumnBase:
    """The condition that a column has one of the values of a JSON list, given as text: any number, in one statement."""
    condition: ColumnBase = column.in_(Select([fn.json_each(values)], [SQL("value")]))
    return condition


def without_index(column: ColumnBase) -> ColumnBase:
    """A column in whose index SQLite does not look: the condition beside it has an index with fewer rows."""
    return NodeList((SQL("+"), column), glue="")


def is_same(column: ColumnBase, value: Any) -> ColumnBase:
    """The condition that a column has a value, where NULL is a value like any other."""
    return Expression(column, OP.IS, value)


def prepared(build: Callable[P, Query]) -> Callable[P, Statement]:
    """Let a function that builds a query be called for a statement; it runs once, at the first call.

    The function gets placeholders instead of its arguments. It may use them as values of the query and for nothing
    else: no ``if``, no formatting, no list of values. They are given to SQLite as they are, so that a flag is passed as
    a number and a path as bytes.
    """
    declared = signature(build)

    @functools.cache
    def compiled() -> Statement:
        placeholders = [Value(_Parameter(name), converter=False) for name in declared.parameters]
        keyword_only = {
            name: placeholder
            for (name, parameter), placeholder in zip(declared.parameters.items(), placeholders, strict=True)
            if parameter.kind is parameter.KEYWORD_ONLY
        }
        positional = placeholders[: len(placeholders) - len(keyword_only)]
        return compile_query(build(*positional, **keyword_only))  # type: ignore[arg-type]

    names = list(declared.parameters)
    is_positional = all(parameter.kind is not parameter.KEYWORD_ONLY for parameter in declared.parameters.values())

    @functools.cache
    def slots() -> tuple[tuple[int, Any], ...]:
        """For each parameter of the statement the place of its argument, or -1 and its value."""
        return tuple(
            (names.index(value.name), None) if isinstance(value, _Parameter) else (-1, value)
            for value in compiled().parameters
        )

    @functools.wraps(build)
    def bind(*args: P.args, **kwargs: P.kwargs) -> Statement:
        values: Sequence[Any] = args
        if kwargs or not is_positional or len(args) != len(names):
            bound = declared.bind(*args, **kwargs)
            bound.apply_defaults()
            values = list(bound.arguments.values())
        return Statement(compiled().sql, tuple([values[place] if place >= 0 else value for place, value in slots()]))

    return bind
