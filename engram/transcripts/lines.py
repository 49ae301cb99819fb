"""Lines of an agent's files: texts that SQLite can store, and what could not be read. Pure."""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import TypeVar

from engram.transcripts.agents import Unreadable
from engram.transcripts.tail import Chunk, Line, is_object

# -- Texts and ids out of an agent's files in a form that SQLite can store.

#: Longest uuid, session id or tool id that is accepted, in characters.
MAX_ID_CHARS = 128
#: The text of a prompt that is only a picture.
PICTURE = "[image]"

#: Characters that SQLite cannot store in a text: lone surrogates, and NUL, which would end the text.
_UNSTORABLE = re.compile("[\ud800-\udfff\x00]")


def storable(text: str) -> str:
    """Return the text with lone surrogates and NUL replaced by U+FFFD."""
    if "\0" not in text:
        try:
            text.isascii() or text.encode()
        except UnicodeEncodeError:
            pass
        else:
            return text
    return _UNSTORABLE.sub("\ufffd", text)


def storable_value(value: object) -> object:
    """Return a parsed JSON value with all its texts and names storable. Raises RecursionError for deep nesting."""
    match value:
        case str():
            return storable(value)
        case list():
            return [storable_value(part) for part in value]
        case dict():
            return {storable(str(name)): storable_value(part) for name, part in value.items()}
    return value


def storable_text(value: object) -> str:
    """Return a text of a parsed file, storable; "" for any other value."""
    return storable(value) if isinstance(value, str) else ""


def storable_id(value: object) -> str:
    """Return an id of a parsed file, storable; "" for any other value, and for one that is too long."""
    return storable(value) if isinstance(value, str) and len(value) <= MAX_ID_CHARS else ""


# -- Parse the lines of a read: the entries of any agent, and what could not be read. Pure.
#
# Agents do not always write whole lines: a record that was cut off has the next one behind it on its line, two
# records stand on one, or zero bytes are before one. Every whole record is read, and only the rest counts as
# unreadable.

Entry = TypeVar("Entry")

#: What may stand between records.
BLANK = b" \t\r\n\0"
_BLANK_TEXT = BLANK.decode()
#: Most places behind a torn record at which a whole one is looked for.
_MAX_TRIES = 200
_DECODER = json.JSONDecoder()


@dataclass(frozen=True, slots=True)
class Records:
    """How an agent's records are recognised on a line that holds more, or less, than one."""

    #: Matches the beginning of every record, and of few objects within one.
    beginning: re.Pattern[str]
    #: Keys that every record has, and an object within a record has not.
    keys: frozenset[str]

    def split(self, line: Line) -> Iterator[Line | Unreadable]:
        """Yield the whole records of a line as lines of their own, with their places, and what is left between them.

        Zero bytes and blanks are left out.
        """
        # Each byte becomes one character, so that places in the text are places in the line.
        text = line.data.decode("latin-1")
        position = 0
        while (begin := _skip_blanks(text, position)) < len(text):
            end = self._end_of_record(text, begin)
            if end < 0:
                torn, (begin, end) = begin, self._next_record(text, begin)
                yield Unreadable(line.offset + torn, len(text[torn:begin].rstrip(_BLANK_TEXT)), "not JSON")
                if begin == len(text):
                    return
            yield Line(line.offset + begin, end - begin, line.number, line.data[begin:end])
            position = end

    def ends_whole(self, data: bytes) -> bool:
        """True if the last record on a line is whole."""
        if is_object(data):
            return True
        end = data.rstrip(BLANK)
        if not end.endswith(b"}"):
            return False
        *_, last = self.split(Line(0, len(data), 1, data))
        return isinstance(last, Line)

    def _next_record(self, text: str, torn: int) -> tuple[int, int]:
        """Return beginning and end of the first whole record behind a torn one; the end of the text twice if none."""
        for match in itertools.islice(self.beginning.finditer(text, torn + 1), _MAX_TRIES):
            end = self._end_of_record(text, match.start(), is_behind_torn=True)
            if end >= 0:
                return match.start(), end
        return len(text), len(text)

    def _end_of_record(self, text: str, begin: int, *, is_behind_torn: bool = False) -> int:
        """Return where the record that begins at a place ends; -1 if there is no whole one.

        Behind a torn record it could be an object within that: then it lacks the keys, or more of it follows.
        """
        try:
            value, end = _DECODER.raw_decode(text, begin)
        except (ValueError, RecursionError, MemoryError):
            return -1
        if not isinstance(value, dict):
            return -1
        follows = _skip_blanks(text, end)
        is_record = self.keys <= value.keys() and (follows == len(text) or text[follows] not in ",]}")
        return end if is_record or not is_behind_torn else -1


def _skip_blanks(text: str, position: int) -> int:
    while position < len(text) and text[position] in _BLANK_TEXT:
        position += 1
    return position


def parse_lines(
    lines: Iterable[Line], parse_line: Callable[[Line], Entry | Unreadable | None], records: Records
) -> tuple[list[Entry], list[Unreadable]]:
    """Return the entries of the lines, and the parts that could not be read.

    ``parse_line`` returns None for a line that is of no interest.
    """
    entries: list[Entry] = []
    unreadable: list[Unreadable] = []
    for line in lines:
        parsed = parse_line(line)
        if isinstance(parsed, Unreadable):
            found, rest = _parse_parts(line, parsed, parse_line, records)
            entries += found
            unreadable += rest
        elif parsed is not None:
            entries.append(parsed)
    return entries, unreadable


def _parse_parts(
    line: Line, whole: Unreadable, parse_line: Callable[[Line], Entry | Unreadable | None], records: Records
) -> tuple[list[Entry], list[Unreadable]]:
    """Return what ``parse_lines`` does for a line that is not one record."""
    parts = list(records.split(line))
    if parts and not any(isinstance(part, Line) for part in parts):
        return [], [whole]
    parsed = [part if isinstance(part, Unreadable) else parse_line(part) for part in parts]
    entries = [entry for entry in parsed if entry is not None and not isinstance(entry, Unreadable)]
    return entries, [part for part in parsed if isinstance(part, Unreadable)]


def too_long_lines(chunk: Chunk) -> list[Unreadable]:
    """Return the parts of a read that were skipped: lines for their length, and what a compressed file hides."""
    skipped = [Unreadable(line.offset, line.length, "too long") for line in chunk.skipped]
    if chunk.is_damaged:
        skipped.append(Unreadable(chunk.position.offset, 0, "the compressed file is damaged or too large from here"))
    return skipped
