"""Compile peewee queries into statements, and turn their rows into frozen records."""

from __future__ import annotations

import dataclasses
import functools
import json
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from inspect import Signature, signature
from typing import Any, Generic, ParamSpec, TypeVar

from peewee import (
    OP,
    SQL,
    BooleanField,
    ColumnBase,
    Expression,
    Field,
    Model,
    ModelSelect,
    NodeList,
    Query,
    Select,
    SqliteDatabase,
    Value,
    fn,
)

# -- Compile peewee queries into statements, at each call or only once.
#
# Compiling a query usually takes longer than running it. Queries that are run often are therefore built by ``prepared``
# functions: each is compiled once, and later calls only pass other values.

P = ParamSpec("P")

#: Provides SQLite's dialect to compile queries with; it is never opened.
_DIALECT = SqliteDatabase(None)
#: Types that are passed to SQLite unchanged.
_PLAIN = (str, int, float, bytes)


@dataclass(frozen=True, slots=True)
class Statement:
    sql: str
    parameters: Sequence[Any] = ()


class _Parameter:
    """A placeholder for an argument while a query is compiled."""

    def __init__(self, name: str) -> None:
        self.name = name


def compile_query(query: Query | Statement) -> Statement:
    if isinstance(query, Statement):
        return query
    sql, parameters = _DIALECT.get_sql_context().sql(query).query()  # type: ignore[no-untyped-call]
    return Statement(sql, tuple(parameters))


def in_json_list(column: ColumnBase, values: Any) -> ColumnBase:
    """Return the condition that a column has one of the given values. Their number is not limited.

    Args:
        values: a collection of strings or numbers, a string with such a JSON list, or an argument of a ``prepared``
            function that is either.
    """
    listed = values if isinstance(values, Value) else _stored(values)
    condition: ColumnBase = column.in_(Select([fn.json_each(listed)], [SQL("value")]))
    return condition


def _stored(value: Any) -> Any:
    """Return a value in a form that SQLite accepts: a collection becomes a JSON list."""
    return value if value is None or isinstance(value, _PLAIN) else json.dumps(list(value), default=int)


def without_index(column: ColumnBase) -> ColumnBase:
    """Return a column whose index SQLite won't use, for queries in which another index selects fewer rows."""
    return NodeList((SQL("+"), column), glue="")


def is_same(column: ColumnBase, value: Any) -> ColumnBase:
    """Return the condition that a column has the given value, treating NULL as a value like any other."""
    return Expression(column, OP.IS, value)


def prepared(build: Callable[P, Query]) -> Callable[P, Statement]:
    """Make a function that builds a query return a statement. The function itself runs only at the first call.

    The function is called with placeholders instead of arguments, and may use them only as values in the query: not in
    an ``if`` or a formatted string, and as a list of values only with ``in_json_list``. Collections are passed to
    SQLite as JSON and everything else unchanged, so a flag must be passed as a number and a path as bytes.
    """

    @functools.cache
    def compiled() -> tuple[Signature, int, str, tuple[tuple[int, Any], ...]]:
        """Return the signature, the number of arguments, the SQL and the slots of its parameters.

        The number is -1 if some arguments are keyword-only. A slot is the index of an argument, or -1 and a fixed
        value.
        """
        declared = signature(build)
        names = list(declared.parameters)
        placeholders = {name: Value(_Parameter(name), converter=False) for name in names}
        keyword_only = {
            name: placeholders.pop(name)
            for name, parameter in declared.parameters.items()
            if parameter.kind is parameter.KEYWORD_ONLY
        }
        statement = compile_query(build(*placeholders.values(), **keyword_only))  # type: ignore[arg-type]
        slots = tuple(
            (names.index(value.name), None) if isinstance(value, _Parameter) else (-1, value)
            for value in statement.parameters
        )
        return declared, -1 if keyword_only else len(names), _planned_once(statement.sql, slots), slots

    @functools.wraps(build)
    def bind(*args: P.args, **kwargs: P.kwargs) -> Statement:
        declared, positional, sql, slots = compiled()
        values: Sequence[Any] = args
        if kwargs or len(args) != positional:
            bound = declared.bind(*args, **kwargs)
            bound.apply_defaults()
            values = list(bound.arguments.values())
        return Statement(sql, tuple([_stored(values[place]) if place >= 0 else value for place, value in slots]))

    return bind


@functools.cache
def insertion(table: type[Model], names: tuple[str, ...], verb: str = "INSERT") -> str:
    """Return the statement that inserts a row with the given columns."""
    marks = ", ".join("?" * len(names))
    return f'{verb} INTO "{table._meta.table_name}" ({", ".join(_quoted(table, names))}) VALUES ({marks})'


@functools.cache
def row_change(table: type[Model], names: tuple[str, ...], key: tuple[str, ...]) -> str:
    """Return the statement that changes columns of the row with the given key."""
    assignments = ", ".join(f"{name} = ?" for name in _quoted(table, names))
    is_row = " AND ".join(f"{name} = ?" for name in _quoted(table, key))
    return f'UPDATE "{table._meta.table_name}" SET {assignments} WHERE {is_row}'


def _quoted(table: type[Model], names: tuple[str, ...]) -> list[str]:
    if unknown := set(names) - set(table._meta.columns):
        raise ValueError(f"{table.__name__} has no columns {', '.join(sorted(unknown))}")
    return [f'"{name}"' for name in names]


def _planned_once(sql: str, slots: Sequence[tuple[int, Any]]) -> str:
    """Return SQL with a plus before each argument.

    SQLite uses the value of a bare parameter to choose a plan, and therefore compiles the statement again at each call,
    which takes ten times as long as running it.
    """
    begin, *parts = sql.split("?")
    if len(parts) != len(slots):  # there is a question mark in a literal
        return sql
    marks = ("+?" if place >= 0 else "?" for place, _ in slots)
    return begin + "".join(mark + part for mark, part in zip(marks, parts, strict=True))


# -- Turn rows into frozen records. The fields are checked against the table's columns at import.

R = TypeVar("R")


class RecordReader(Generic[R]):
    """Selects the columns of a record, and turns rows into records.

    A field gets the value of the column with the same name, or of the expression given for it. A column without a
    field, or a field without a column, raises TypeError at import, so that anyone who adds a column has to decide how
    it is used.
    """

    def __init__(
        self,
        record: type[R],
        table: type[Model],
        *,
        expressions: Mapping[str, ColumnBase | Select] | None = None,
        readers: Mapping[str, Callable[[Any], Any]] | None = None,
        left_out: Collection[str] = (),
        is_whole: bool = True,
    ) -> None:
        """Check that the record and the table match.

        Args:
            table: the table from which the fields are read.
            expressions: what to select for a field without a column of the same name.
            readers: how to convert a field's stored value; flags are converted to bool automatically.
            left_out: columns that the record leaves out.
            is_whole: False for a record with only the columns that certain queries need.

        Raises:
            TypeError: a field has no column, or a column has no field.
        """
        self.record = record
        self.table = table
        self._names = [field.name for field in dataclasses.fields(record)]  # type: ignore[arg-type]
        columns: dict[str, Field] = {field.column_name: field for field in table._meta.sorted_fields}
        selected = {name: (expressions or {}).get(name, columns.get(name)) for name in self._names}
        self._check(selected, columns, {*(expressions or {}), *(readers or {})}, set(left_out), is_whole)
        #: What to select, in the order of the record's fields.
        self.columns: list[ColumnBase | Select] = [
            column.alias(name) for name, column in selected.items() if column is not None
        ]
        converters = dict(readers or {})
        for name, column in selected.items():
            if isinstance(column, BooleanField):
                converters.setdefault(name, bool)
        self._converters = [(self._names.index(name), read) for name, read in converters.items()]

    def _check(
        self,
        selected: Mapping[str, ColumnBase | Select | None],
        columns: Mapping[str, Field],
        named: set[str],
        left_out: set[str],
        is_whole: bool,
    ) -> None:
        place = f"{self.record.__name__} and table {self.table._meta.table_name}"
        if without := [name for name, column in selected.items() if column is None]:
            raise TypeError(f"{place}: no column for {', '.join(without)}")
        if unknown := (named - set(self._names)) | (left_out - set(columns)):
            raise TypeError(f"{place}: neither has {', '.join(sorted(unknown))}")
        forgotten = set(columns) - set(self._names) - left_out if is_whole else set()
        if forgotten:
            raise TypeError(f"{place}: no field for {', '.join(sorted(forgotten))}")

    def select(self) -> ModelSelect[Any]:
        """Return a query for records; the caller joins the tables that ``expressions`` refer to."""
        return self.table.select(*self.columns)

    def select_by(self, key: Field) -> ModelSelect[Any]:
        """Return a query for ``Reader.fetch_records_by``, which reads the records of several owners."""
        return self.table.select(key, *self.columns)

    def read(self, rows: Sequence[tuple[Any, ...]]) -> list[R]:
        """Convert rows with the values of ``columns`` into records, in the same order."""
        if not rows:
            return []
        # Column by column: twice as fast as row by row for the hundreds of rows that a search ranks.
        values: list[Iterable[Any]] = list(zip(*rows, strict=True))
        for place, convert in self._converters:
            values[place] = map(convert, values[place])
        return list(map(self.record, *values))
