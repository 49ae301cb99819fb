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

# -- Compile peewee queries into statements: at each call, or once.
#
# Compiling a query takes longer than SQLite needs to answer most queries. A query that is run often is built
# by a ``prepared`` function: it is compiled once, and each call only passes other values.

P = ParamSpec("P")

#: Provides SQLite's dialect for compiling; it is never opened.
_DIALECT = SqliteDatabase(None)
#: Types that SQLite accepts as they are.
_PLAIN = (str, int, float, bytes)


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
    if isinstance(query, Statement):
        return query
    sql, parameters = _DIALECT.get_sql_context().sql(query).query()  # type: ignore[no-untyped-call]
    return Statement(sql, tuple(parameters))


def in_json_list(column: ColumnBase, values: Any) -> ColumnBase:
    """Return the condition that a column has one of some values: any number, in one statement.

    Args:
        values: a collection of strings or numbers, the same as a JSON list in a string, or an argument of a
            ``prepared`` function that is one of these.
    """
    listed = values if isinstance(values, Value) else _stored(values)
    condition: ColumnBase = column.in_(Select([fn.json_each(listed)], [SQL("value")]))
    return condition


def _stored(value: Any) -> Any:
    """Return a value in a form that SQLite accepts: a collection becomes a JSON list."""
    return value if value is None or isinstance(value, _PLAIN) else json.dumps(list(value), default=int)


def without_index(column: ColumnBase) -> ColumnBase:
    """Return a column whose index SQLite must not use, because another condition has an index with fewer rows."""
    return NodeList((SQL("+"), column), glue="")


def is_same(column: ColumnBase, value: Any) -> ColumnBase:
    """Return the condition that a column has the given value, where NULL is a value like any other."""
    return Expression(column, OP.IS, value)


def prepared(build: Callable[P, Query]) -> Callable[P, Statement]:
    """Make a function that builds a query return a statement; the function runs once, at the first call.

    The function gets placeholders instead of its arguments. It may use them as values of the query and for nothing
    else: no ``if``, no formatting, no list of values except with ``in_json_list``. Collections are passed to SQLite as
    JSON and everything else unchanged, so a flag must be passed as a number and a path as bytes.
    """

    @functools.cache
    def compiled() -> tuple[Signature, int, str, tuple[tuple[int, Any], ...]]:
        """Return the signature, the number of arguments that need no binding, the SQL, and for each of its parameters
        the index of its argument, or -1 and its value.
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
    """Return SQL with a plus before each argument: SQLite looks at a plain one to choose a plan, and then compiles the
    statement again at each call, which takes ten times as long as answering it.
    """
    begin, *parts = sql.split("?")
    if len(parts) != len(slots):  # one is in a literal
        return sql
    marks = ("+?" if place >= 0 else "?" for place, _ in slots)
    return begin + "".join(mark + part for mark, part in zip(marks, parts, strict=True))


# -- Turning rows into frozen records: which column each field comes from, checked when the program starts.

R = TypeVar("R")


class RecordReader(Generic[R]):
    """Selects the columns of a record, and turns rows into records.

    A field of the record gets the column of the same name, or the expression that is given for it. A column of the
    table without a field, or a field of the record without a column, is an error at import, so anyone who adds a column
    has to decide what it is for.
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
        """Check that record and table agree.

        Args:
            table: the table whose columns the fields are.
            expressions: what to select for a field without a column of the same name.
            readers: how to make a field from its stored value; flags become bool automatically.
            left_out: columns that the record leaves out.
            is_whole: False for a record of only the columns that some query needs.

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
        """Return a query for records; the caller joins the tables that its expressions use."""
        return self.table.select(*self.columns)

    def select_by(self, key: Field) -> ModelSelect[Any]:
        """Return a query for records of several owners, the owner first; see ``Reader.fetch_records_by``."""
        return self.table.select(key, *self.columns)

    def read(self, rows: Sequence[tuple[Any, ...]]) -> list[R]:
        """Return the records of rows that were selected by ``columns``, in their order."""
        if not rows:
            return []
        # Column by column: twice as fast as row by row for the hundreds of rows that a search ranks.
        values: list[Iterable[Any]] = list(zip(*rows, strict=True))
        for place, convert in self._converters:
            values[place] = map(convert, values[place])
        return list(map(self.record, *values))
