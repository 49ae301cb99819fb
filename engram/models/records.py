"""Frozen records out of rows: which field of a record is which column, checked when the program starts."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, Generic, TypeVar

from peewee import BooleanField, ColumnBase, Field, Model, ModelSelect, Select

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
