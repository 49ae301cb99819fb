"""Queries of peewee as statements that can be run, and frozen records out of their rows."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from inspect import signature
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

# -- Queries of peewee as statements that can be run: compiled each time, or once for all times.
#
# To compile a query takes longer than SQLite takes to answer most of them. A query that is asked often stands in a
# function that is ``prepared``: it is compiled once, and each call only gives it other values.

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


# -- Frozen records out of rows: which field of a record is which column, checked when the program starts.

R = TypeVar("R")


class RecordReader(Generic[R]):
    """Selects what a record holds, and makes records of the rows.

    A field of the record takes the column of the same name, or the expression that is given for it. A table that has a
    column which no field takes, or a record that has a field which no column gives, is an error at import: whoever adds
    a column to a table says here what becomes of it.
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
            record: a dataclass.
            table: whose columns the fields are.
            expressions: what to select for a field that is no column of the table of the same name.
            readers: how a field is made of the stored value; flags become bool by themselves.
            left_out: columns that the record does not hold.
            is_whole: False for a record that holds only what some query needs of the table.

        Raises:
            TypeError: a field has no column, or a column no field.
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
        """A query for records; what its expressions name has to be joined."""
        return self.table.select(*self.columns)

    def select_by(self, key: Field) -> ModelSelect[Any]:
        """A query for records of several owners, the owner first; see ``Reader.fetch_records_by``."""
        return self.table.select(key, *self.columns)

    def read(self, rows: Sequence[tuple[Any, ...]]) -> list[R]:
        """The records of rows that were selected by ``columns``, in their order."""
        if not rows:
            return []
        # Column by column: twice as fast as row by row for the hundreds of rows that a search ranks.
        values: list[Iterable[Any]] = list(zip(*rows, strict=True))
        for place, convert in self._converters:
            values[place] = map(convert, values[place])
        return list(map(self.record, *values))
