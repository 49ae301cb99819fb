"""One line of a Claude Code transcript as a typed entry, or the reason why it is none."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, NamedTuple

from engram.clock import parse_time_ms
from engram.transcripts.tail import Line

#: Longest uuid, session id or tool id that is believed, in characters.
MAX_ID_CHARS = 128

#: What SQLite does not take in a text: lone surrogates, and NUL which would end it.
_UNSTORABLE = re.compile("[\ud800-\udfff\x00]")
_SCALARS = rb'\s*+\{(?:(?!"(?:type|attachment)":)"\w++":(?:"[^"\\]*+(?:\\.[^"\\]*+)*+"|true|false|null|-?\d++),)*+'
#: The type of a line whose first keys are plain scalars: found without parsing the rest.
_TYPE = re.compile(_SCALARS + rb'"type":"([\w-]++)"')
_ATTACHMENT = re.compile(_SCALARS + rb'"attachment":\{')
#: So many bytes are looked at before it is worth looking for the type.
_HEAD_BYTES = 700
#: The key of a second copy of a tool's result, a third of all bytes; it is read only where the user speaks in it.
_SECOND_COPY = b',"toolUseResult":'
#: Bytes without which nothing of the user stands in or beside the second copy.
_OF_THE_USER = (b'"answers":', b'"plan":', b'"toolDenialKind":', b"The user doesn't want to proceed")


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


class Entry(NamedTuple):
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
    #: The parsed object; its strings may hold what ``storable`` takes out.
    data: dict[str, Any]

    @property
    def is_aside(self) -> bool:
        """True for lines of a subagent, which speak neither for the user nor for the assistant."""
        return self.data.get("isSidechain") is True or bool(self.data.get("agentId"))

    @property
    def is_compaction(self) -> bool:
        """True for the line that says: what stands before it was compacted away."""
        return self.kind is Kind.SYSTEM and self.data.get("subtype") == "compact_boundary" and not self.is_aside

    @property
    def message(self) -> dict[str, Any]:
        """The message; empty where there is none."""
        found = self.data.get("message")
        return found if isinstance(found, dict) else {}


def parse_line(line: Line) -> Entry | BadLine | None:
    """The entry of a line; None for a blank line and for types that do not count. Never raises on any bytes."""
    raw = line.data
    if _is_passed_over(raw):
        return None
    try:
        data = _parse(raw)
    except ValueError:
        return BadLine(line.offset, line.length, "not JSON")
    except RecursionError:
        return BadLine(line.offset, line.length, "nested too deeply")
    except MemoryError:
        return BadLine(line.offset, line.length, "too large for the memory")
    if not isinstance(data, dict):
        return BadLine(line.offset, line.length, "not a JSON object")
    return _entry(line, data)


def _is_passed_over(raw: bytes) -> bool:
    """True for lines that need not be parsed: blank, or plainly of a type that does not count."""
    head = raw[:_HEAD_BYTES]
    if head.startswith(b'{"type":') or b'"type":"progress"' in head:
        sniffed = _TYPE.match(raw)
        return sniffed is not None and sniffed[1] not in _KIND_BYTES
    if b'"attachment":{' in head:
        return b"queued_command" not in raw and _ATTACHMENT.match(raw) is not None
    return not head.strip() and not raw.strip()


def storable(text: str) -> str:
    """The text with lone surrogates and NUL replaced by U+FFFD."""
    if "\0" not in text:
        try:
            text.isascii() or text.encode()
        except UnicodeEncodeError:
            pass
        else:
            return text
    return _UNSTORABLE.sub("\ufffd", text)


def _parse(raw: bytes) -> Any:
    cut = raw.find(_SECOND_COPY)
    if cut > 0 and raw.endswith(b"}") and not any(mark in raw for mark in _OF_THE_USER):
        head = raw[:cut] + b"}"
        try:
            data = _decode(head)
        except ValueError:
            data = None
        if isinstance(data, dict) and "uuid" in data and "timestamp" in data and "message" in data:
            return data
    return _decode(raw)


def _decode(raw: bytes) -> Any:
    """The value of a line.

    The bytes are decoded first: ``json.loads`` would take some bytes for UTF-16, and fail on others.
    """
    return json.loads(raw.decode("utf-8", "replace").removeprefix("\ufeff"))


def _entry(line: Line, data: dict[str, Any]) -> Entry | None:
    type_ = data.get("type")
    kind = _KINDS.get(type_) if isinstance(type_, str) else None
    if kind is None or (kind is Kind.ATTACHMENT and not _is_queued_command(data)):
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


def _is_queued_command(data: dict[str, Any]) -> bool:
    attachment = data.get("attachment")
    return isinstance(attachment, dict) and attachment.get("type") == "queued_command"


def _identifier(value: object) -> str:
    return storable(value) if isinstance(value, str) and len(value) <= MAX_ID_CHARS else ""


def _text(value: object) -> str:
    return storable(value) if isinstance(value, str) else ""
