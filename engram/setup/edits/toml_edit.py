"""Add a table to a TOML file that others also write, and remove it again; every other byte is kept."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from engram.errors import BadRequest
from engram.reports.claude_checks import has_mark
from engram.setup.edits.install_steps import Json, TomlEdit
from engram.system.lazy_regex import lazy_regex

_HEADER = lazy_regex(r"^[ \t]*\[.*", re.MULTILINE)
#: A line that is neither empty nor a comment.
_USED_LINE = lazy_regex(r"^[ \t]*[^\s#].*\n?", re.MULTILINE)
_BARE_KEY = lazy_regex(r"[A-Za-z0-9_-]+")


@dataclass(frozen=True, slots=True)
class AppliedToml:
    """What an edit did, as needed to revert it."""

    table: tuple[str, ...]
    #: The newline that was added to the last line, if it had none.
    line_end: str = ""
    #: The empty line before the table.
    blank: str = ""
    #: The tables that it replaced, each as it was written.
    former: list[str] = field(default_factory=list)
    #: False if the table was already there, so that reverting keeps it.
    is_added: bool = True
    #: A string that the table contains as long as it is Engram's; "" if any content counts as Engram's.
    marker: str = ""

    def to_json(self) -> dict[str, Any]:
        return asdict(self) | {"table": list(self.table)}

    @classmethod
    def from_json(cls, stored: Mapping[str, Any]) -> AppliedToml:
        # A record written before tables had a marker describes the MCP server's table.
        return cls(**{"marker": "engram_mcp", **stored, "table": tuple(stored["table"])})


def apply_toml(text: str, edit: TomlEdit) -> tuple[str, AppliedToml]:
    """Return the text with the table at its end, and what was done. A table with the same name is replaced.

    Raises:
        BadRequest: the text is not TOML, or writes the table in a form that can't be replaced.
    """
    before = _parse(text)
    if _value_at(before, edit.table) == _plain(edit.values):
        return text, AppliedToml(edit.table, is_added=False, marker=edit.marker)
    spans = list(_spans(text, edit.table))
    former = [text[begin:end] for begin, end in spans]
    rest = _without(text, spans)
    newline = "\r\n" if "\r\n" in text else "\n"
    line_end = "" if not rest or rest.endswith("\n") else newline
    blank = newline if rest.strip() else ""
    new = rest + line_end + blank + _table_text(edit, newline)
    wanted = _without_table(before, edit.table)
    try:
        after = tomllib.loads(new)
    except tomllib.TOMLDecodeError:
        after = {}
    if _value_at(after, edit.table) != _plain(edit.values) or _without_table(after, edit.table) != wanted:
        above = ".".join(edit.table[:-1])
        raise BadRequest(f"{above} is written on one line; write a table [{above}.NAME] for each entry, then try again")
    return new, AppliedToml(edit.table, line_end, blank, former, marker=edit.marker)


def revert_toml(text: str, applied: AppliedToml) -> str:
    """Return the text without the table and the tables below it; a replaced table is restored.

    Raises:
        BadRequest: the text is not TOML.
    """
    value = _value_at(_parse(text), applied.table)
    is_ours = not applied.marker or has_mark(str(value), applied.marker)
    spans = list(_spans(text, applied.table)) if applied.is_added and is_ours else []
    if not spans:
        return text
    before, after = text[: spans[0][0]], _without(text, spans)[spans[0][0] :]
    if applied.blank and before.endswith(("\n" + applied.blank, "\r\n" + applied.blank)):
        before = before.removesuffix(applied.blank)
    if applied.line_end and not after.strip():
        before = before.removesuffix(applied.line_end)
    rest = before + after
    if not applied.former:
        return rest
    return rest + ("" if not rest or rest.endswith("\n") else "\n") + "".join(applied.former)


def _parse(text: str) -> dict[str, Any]:
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise BadRequest(str(error)) from error


def _spans(text: str, table: tuple[str, ...]) -> Iterator[tuple[int, int]]:
    """Yield the start and end of the table and of those below it, up to the last line with a value."""
    headers = list(_headers(text))
    for number, (begin, path) in enumerate(headers):
        if path[: len(table)] == table:
            limit = headers[number + 1][0] if number + 1 < len(headers) else len(text)
            yield begin, begin + _used_length(text[begin:limit])


def _headers(text: str) -> Iterator[tuple[int, tuple[str, ...]]]:
    """Yield where each table begins, with its path. A line that begins with a bracket may be part of a value."""
    begin = 0
    for line in _HEADER.finditer(text):
        if _is_toml(text[begin : line.start()]):
            begin = line.start()
            yield begin, _path_in(tomllib.loads(line[0].strip()))


def _is_toml(text: str) -> bool:
    try:
        tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        return False
    return True


def _path_in(header: dict[str, Any]) -> tuple[str, ...]:
    """Return the path of a header that was parsed on its own."""
    path = []
    value: Any = header
    while value:
        if isinstance(value, list):
            value = value[0]
            continue
        (key,) = value
        path.append(key)
        value = value[key]
    return tuple(path)


def _used_length(text: str) -> int:
    """Return the length up to the end of the last line that is neither empty nor a comment."""
    return max((line.end() for line in _USED_LINE.finditer(text)), default=0)


def _without(text: str, spans: list[tuple[int, int]]) -> str:
    for begin, end in reversed(spans):
        text = text[:begin] + text[end:]
    return text


def _value_at(data: Mapping[str, Any], path: tuple[str, ...]) -> Any:
    value: Any = data
    for key in path:
        value = value.get(key) if isinstance(value, dict) else None
    return value


def _without_table(data: Mapping[str, Any], path: tuple[str, ...]) -> dict[str, Any]:
    """Return the data without a table, and without tables that became empty as a result."""
    rest = dict(data)
    if len(path) == 1:
        rest.pop(path[0], None)
    elif isinstance(rest.get(path[0]), dict):
        inner = _without_table(rest[path[0]], path[1:])
        rest[path[0]] = inner
        if not inner:
            del rest[path[0]]
    return rest


def _plain(value: Json) -> Any:
    """Return a value with the types that a parser would return."""
    if isinstance(value, Mapping):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return value


def _table_text(edit: TomlEdit, newline: str) -> str:
    lines = [f"[{'.'.join(map(_key, edit.table))}]"]
    lines += [f"{_key(key)} = {_text_of(value)}" for key, value in edit.values.items()]
    return newline.join(lines) + newline


def _key(key: str) -> str:
    return key if _BARE_KEY.fullmatch(key) else json.dumps(key)


def _text_of(value: Json) -> str:
    """Return a value on one line. The escapes of JSON are those of TOML's basic strings."""
    if isinstance(value, Mapping):
        return "{ " + ", ".join(f"{_key(key)} = {_text_of(item)}" for key, item in value.items()) + " }"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(_text_of, value)) + "]"
    return json.dumps(value, ensure_ascii=False)
