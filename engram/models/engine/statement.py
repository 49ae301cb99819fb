"""From a peewee query to records: compile it into a statement, turn rows into frozen records, unpack their columns."""

from __future__ import annotations

import dataclasses
import functools
import json
import struct
import zlib
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from hashlib import blake2b
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

from engram.errors import BrokenDatabase
from engram.system.lazy_regex import lazy_regex
from engram.transcripts.turns import Action, EntryRef, Todo, TodoState

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
    def compiled() -> tuple[Signature, int, str, tuple[int, ...]]:
        """Return the signature, the number of arguments, the SQL, and the argument for each of its parameters."""
        declared = signature(build)
        names = list(declared.parameters)
        statement = compile_query(build(*(Value(_Parameter(name), converter=False) for name in names)))  # type: ignore[arg-type, call-arg]
        places = (names.index(value.name) for value in statement.parameters if isinstance(value, _Parameter))
        return declared, len(names), _planned_once(statement), tuple(places)

    @functools.wraps(build)
    def bind(*args: P.args, **kwargs: P.kwargs) -> Statement:
        declared, positional, sql, places = compiled()
        values: Sequence[Any] = args
        if kwargs or len(args) != positional:
            bound = declared.bind(*args, **kwargs)
            bound.apply_defaults()
            values = list(bound.arguments.values())
        return Statement(sql, tuple([_stored(values[place]) for place in places]))

    return bind


@functools.cache
def insertion(table: type[Model], names: tuple[str, ...], verb: str = "INSERT") -> str:
    """Return the statement that inserts a row with the given columns."""
    marks = ", ".join("?" * len(names))
    return f'{verb} INTO "{table._meta.table_name}" ({", ".join(_quoted(table, names))}) VALUES ({marks})'


@functools.cache
def row_change(table: type[Model], names: tuple[str, ...], key: tuple[str, ...]) -> str:
    assignments = ", ".join(f"{name} = ?" for name in _quoted(table, names))
    is_row = " AND ".join(f"{name} = ?" for name in _quoted(table, key))
    return f'UPDATE "{table._meta.table_name}" SET {assignments} WHERE {is_row}'


def _quoted(table: type[Model], names: tuple[str, ...]) -> list[str]:
    if unknown := set(names) - set(table._meta.columns):
        raise ValueError(f"{table.__name__} has no columns {', '.join(sorted(unknown))}")
    return [f'"{name}"' for name in names]


def _planned_once(statement: Statement) -> str:
    """Return SQL with a plus before each argument, and with all other values in its text.

    SQLite uses the value of a bare parameter to choose a plan, and therefore compiles the statement again at each call,
    which takes ten times as long as running it.
    """
    begin, *parts = statement.sql.split("?")
    marks = ("+?" if isinstance(value, _Parameter) else _literal(value) for value in statement.parameters)
    return begin + "".join(mark + part for mark, part in zip(marks, parts, strict=True))


def _literal(value: str | float | None) -> str:
    """Return a value as it is written in SQL."""
    if isinstance(value, str):
        return "'" + value.replace("'", "''") + "'"
    return "NULL" if value is None else repr(+value)


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
        place = f"{record.__name__} and table {table._meta.table_name}"
        if without := [name for name, column in selected.items() if column is None]:
            raise TypeError(f"{place}: no column for {', '.join(without)}")
        named = {*(expressions or {}), *(readers or {})}
        if unknown := (named - set(self._names)) | (set(left_out) - set(columns)):
            raise TypeError(f"{place}: neither has {', '.join(sorted(unknown))}")
        if forgotten := set(columns) - set(self._names) - set(left_out) if is_whole else set():
            raise TypeError(f"{place}: no field for {', '.join(sorted(forgotten))}")
        #: What to select, in the order of the record's fields.
        self.columns: list[ColumnBase | Select] = [
            column.alias(name) for name, column in selected.items() if column is not None
        ]
        converters = dict(readers or {})
        for name, column in selected.items():
            if isinstance(column, BooleanField):
                converters.setdefault(name, bool)
        self._converters = [(self._names.index(name), read) for name, read in converters.items()]

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


K = TypeVar("K")
V = TypeVar("V")


def grouped(pairs: Iterable[tuple[K, V]]) -> dict[K, list[V]]:
    """Return key → its values, both in the order of the pairs."""
    groups: dict[K, list[V]] = {}
    for key, value in pairs:
        groups.setdefault(key, []).append(value)
    return groups


# -- Compressed column values: text, the facts of tool calls, a turn's entries, UUIDs.

#: Text shorter than this, in characters, is stored uncompressed.
_SHORT = 200


def pack_text(text: str) -> str | bytes:
    """Return the stored form of text: the text itself, or its UTF-8 bytes as a zlib stream."""
    if len(text) < _SHORT:
        return text
    packed = zlib.compress(text.encode("utf-8", "replace"), 6)
    return packed if len(packed) < len(text) else text


def unpack_text(stored: str | bytes) -> str:
    """Return text from its stored form. Raises BrokenDatabase if that is damaged."""
    if isinstance(stored, str):
        return stored
    try:
        return zlib.decompress(bytes(stored)).decode("utf-8")
    except (zlib.error, UnicodeDecodeError) as error:
        raise BrokenDatabase(f"stored text is damaged: {error}") from error


# -- A turn's tool calls, stored in its row as compressed JSON with the facts that differ from the defaults.

_ACTION_DEFAULTS = Action("", "")._asdict()
_ACTION_ITEMS = tuple(_ACTION_DEFAULTS.items())
_TODO_STATES = frozenset(state.value for state in TodoState)
#: Facts that refer to an entry. They are stored as the entry's position among the turn's entries.
ENTRY_FACTS = ("uuid", "result_uuid")
#: Facts with several values.
_LISTS = ("files", "error_lines", "error_keys")


def pack_actions(actions: Iterable[Action], entries: Sequence[EntryRef]) -> str | bytes:
    """Return the stored form of tool calls; ``entries`` are the entries of their turn, in order."""
    places = {entry.uuid: place for place, entry in enumerate(entries)}
    return pack_text(json.dumps([_action_to_json(action, places) for action in actions], ensure_ascii=False))


def unpack_actions(stored: str | bytes, entries: Sequence[EntryRef]) -> tuple[Action, ...]:
    """Return the tool calls stored in a column. Raises BrokenDatabase if it is damaged."""
    return tuple(_action_from_json(facts, entries) for facts in unpack_facts(stored))


def todos_of(facts: Mapping[str, Any]) -> tuple[Todo, ...]:
    """Return the changes of a todo list among the facts of a tool call; malformed ones are left out."""
    listed = facts.get("todos")
    return tuple(todo for change in listed if (todo := _todo_of(change))) if isinstance(listed, list) else ()


def _todo_of(change: object) -> Todo | None:
    match change:
        case [str(key), str(text), str(state)] if state in _TODO_STATES:
            return Todo(key, text, TodoState(state))
    return None


def _action_to_json(action: Action, places: Mapping[str, int]) -> dict[str, Any]:
    """Return the facts that differ from the defaults. The tool-use id is kept until the result arrives."""
    given: Iterable[tuple[Any, tuple[str, Any]]] = zip(action, _ACTION_ITEMS, strict=True)
    facts = {name: value for value, (name, default) in given if value != default}
    if action.result_uuid:
        facts.pop("tool_use_id", None)
    for name in ENTRY_FACTS:
        if name in facts:
            facts[name] = places.get(facts[name], facts[name])
    return facts


def unpack_calls(stored: str | bytes) -> tuple[Action, ...]:
    """Return the tool calls stored in a column, without the ids of their entries. Raises BrokenDatabase if damaged."""
    facts = ({k: v for k, v in fact.items() if k not in ENTRY_FACTS} for fact in unpack_facts(stored))
    return tuple(_action_from_json(fact, ()) for fact in facts)


def unpack_facts(stored: str | bytes) -> list[dict[str, Any]]:
    """Return the facts of the tool calls stored in a column; [] if it is not such JSON. Raises BrokenDatabase."""
    try:
        facts = json.loads(unpack_text(stored))
    except (ValueError, RecursionError):
        return []
    return [fact for fact in facts if isinstance(fact, dict)] if isinstance(facts, list) else []


def _action_from_json(facts: dict[str, Any], entries: Sequence[EntryRef]) -> Action:
    known = {k: v for k, v in facts.items() if k in _ACTION_DEFAULTS}
    for name in _LISTS:
        known[name] = tuple(known.get(name, ()))
    known["todos"] = todos_of(known)
    for name in ENTRY_FACTS:
        if isinstance(known.get(name), int):
            known[name] = entries[known[name]].uuid
    return Action(**({"tool_use_id": "", "tool": ""} | known))


# -- UUIDs of entries, stored as 16 bytes, or as text if an agent's id isn't a UUID. This saves a fifth of memory.db.

_UUID_BYTES = 16
#: Number of UUIDs whose stored form, or key, is cached. Each is needed twice while a portion is read.
REMEMBERED = 2048
_UUID = lazy_regex(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")


@lru_cache(maxsize=REMEMBERED)
def pack_uuid(text: str) -> bytes:
    """Return the stored form of an entry's id: 16 bytes for a UUID, any other length for text."""
    if len(text) == 36 and _UUID.fullmatch(text):
        return bytes.fromhex(text.replace("-", ""))
    data = text.encode("utf-8", "replace")
    return data + b"\0" if len(data) == _UUID_BYTES else data


def unpack_uuid(data: bytes | None) -> str:
    """Return the text of a stored id; "" if there is none."""
    if not data:
        return ""
    data = bytes(data)
    if len(data) == _UUID_BYTES:
        text = data.hex()  # three times as fast as the class UUID
        return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"
    return data.rstrip(b"\0").decode("utf-8", "replace")


# -- A turn's entries, stored in its row as UUIDs and positions.
#
# The packed form begins with a raw deflate stream of four numbers per entry: the distance in bytes from the end of the
# previous entry, the entry's length, the distance in lines from the previous entry, and the length of its stored UUID.
# Each number has 8 bytes, little-endian; all first numbers precede all second ones, and so on. After the stream come
# the stored UUIDs. The entries are in the order of the file.


def in_order(entries: Iterable[EntryRef]) -> list[EntryRef]:
    """Return the entries in the order of the file."""
    return sorted(entries, key=lambda entry: (entry.offset, entry.line))


def pack_entries(entries: Sequence[EntryRef]) -> bytes:
    """Return the stored form of a turn's entries, which must be ``in_order``."""
    gaps, lengths, steps, sizes, uuids = [], [], [], [], []
    end = line = 0
    for entry in entries:
        uuid = pack_uuid(entry.uuid)
        gaps.append(entry.offset - end)
        lengths.append(entry.length)
        steps.append(entry.line - line)
        sizes.append(len(uuid))
        uuids.append(uuid)
        end, line = entry.offset + entry.length, entry.line
    numbers = gaps + lengths + steps + sizes
    packer = zlib.compressobj(6, zlib.DEFLATED, -zlib.MAX_WBITS)
    return b"".join((packer.compress(struct.pack(f"<{len(numbers)}q", *numbers)), packer.flush(), *uuids))


def unpack_entries(data: bytes) -> tuple[EntryRef, ...]:
    """Return a turn's entries, in the order of the file. Raises BrokenDatabase if they are damaged."""
    if not data:
        return ()
    unpacker = zlib.decompressobj(-zlib.MAX_WBITS)
    try:
        plain = unpacker.decompress(data)
        count = len(plain) // 32
        numbers = struct.unpack(f"<{count * 4}q", plain)
    except (zlib.error, struct.error) as error:
        raise BrokenDatabase(f"the entries of a turn are damaged: {error}") from error
    uuids = unpacker.unused_data
    found, end, line, start = [], 0, 0, 0
    for index in range(count):
        gap, length, step, size = numbers[index::count]
        offset, line = end + gap, line + step
        found.append(EntryRef(unpack_uuid(uuids[start : start + size]), offset, length, line))
        end, start = offset + length, start + size
    return tuple(found)


#: An entry's lookup key.
_KEY = struct.Struct("<q")


@lru_cache(maxsize=REMEMBERED)
def entry_key(uuid: str) -> int:
    """Return an entry's lookup key: 64 bits of a BLAKE2b hash.

    The probability of a collision among ten million entries is 1 in 400,000.
    """
    key: int = _KEY.unpack(blake2b(pack_uuid(uuid), digest_size=8).digest())[0]
    return key
