"""One line of a Claude Code transcript as a typed entry, or the reason why it is none."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from engram.clock import parse_time_ms
from engram.transcripts.tail import Line

#: Longest uuid, session id or tool id that is believed, in characters.
MAX_ID_CHARS = 128

_LONE_SURROGATE = re.compile("[\ud800-\udfff\x00]")
#: Escapes that may stand for something SQLite does not take.
_NEEDS_CLEANING = re.compile(rb"\\u(?:[dD][89a-fA-F]|0000)")
#: The type of a line whose first keys are plain scalars: found without parsing the rest.
_TYPE = re.compile(rb'\s*+\{(?:(?!"type":)"\w++":(?:"(?:[^"\\]|\\.)*+"|true|false|null|-?\d++),)*+"type":"([\w-]++)"')


class Kind(StrEnum):
    """The types of lines that are read; all others are passed over."""

    USER = "user"
    ASSISTANT = "assistant"
    SYSTEM = "system"
    ATTACHMENT = "attachment"
    QUEUE = "queue-operation"


_KINDS = {kind.value: kind for kind in Kind}
_KIND_BYTES = {kind.value.encode(): kind for kind in Kind}


@dataclass(frozen=True, slots=True)
class BadLine:
    """A line that could not be understood, by its place and with the reason; its text is not kept."""

    offset: int
    #: Bytes without the newline.
    length: int
    reason: str


@dataclass(frozen=True, slots=True)
class Entry:
    """One line that counts. Fields that are missing or of an unexpected type are empty."""

    kind: Kind
    offset: int
    length: int
    #: Line number from 1.
    line: int
    uuid: str
    at_ms: int | None
    cwd: str
    branch: str
    #: The whole parsed object; its strings hold no lone surrogates and no NUL.
    data: dict[str, Any]

    @property
    def is_aside(self) -> bool:
        """True for lines of a subagent, which speak neither for the user nor for the assistant."""
        return self.data.get("isSidechain") is True or bool(self.data.get("agentId"))

    @property
    def message(self) -> dict[str, Any]:
        """The message; empty where there is none."""
        found = self.data.get("message")
        return found if isinstance(found, dict) else {}


def parse_line(line: Line) -> Entry | BadLine | None:
    """The entry of a line; None for a blank line and for types that do not count. Never raises on any bytes."""
    raw = line.data
    sniffed = _TYPE.match(raw)
    if sniffed is not None:
        kind = _KIND_BYTES.get(sniffed[1])
        if kind is None or (kind is Kind.ATTACHMENT and b"queued_command" not in raw):
            return None
    if not raw.strip():
        return None
    try:
        data = json.loads(raw.decode("utf-8", "replace").removeprefix("\ufeff"))
        if _NEEDS_CLEANING.search(raw):
            data = _clean(data)
    except ValueError:
        return BadLine(line.offset, line.length, "not JSON")
    except RecursionError:
        return BadLine(line.offset, line.length, "nested too deeply")
    except MemoryError:
        return BadLine(line.offset, line.length, "too large for the memory")
    if not isinstance(data, dict):
        return BadLine(line.offset, line.length, "not a JSON object")
    return _entry(line, data)


def _entry(line: Line, data: dict[str, Any]) -> Entry | None:
    type_ = data.get("type")
    kind = _KINDS.get(type_) if isinstance(type_, str) else None
    if kind is None:
        return None
    return Entry(
        kind=kind,
        offset=line.offset,
        length=line.length,
        line=line.number,
        uuid=_identifier(data.get("uuid")),
        at_ms=parse_time_ms(data.get("timestamp")),
        cwd=_text(data.get("cwd")),
        branch=_text(data.get("gitBranch")),
        data=data,
    )


def _identifier(value: object) -> str:
    return value if isinstance(value, str) and len(value) <= MAX_ID_CHARS else ""


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


def _clean(value: Any) -> Any:
    """The value with lone surrogates and NUL replaced by U+FFFD: SQLite takes neither."""
    if isinstance(value, str):
        return _LONE_SURROGATE.sub("\ufffd", value) if not value.isascii() or "\0" in value else value
    if isinstance(value, list):
        return [_clean(one) for one in value]
    if isinstance(value, dict):
        return {_clean(key): _clean(one) for key, one in value.items()}
    return value
