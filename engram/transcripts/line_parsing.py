"""Parse the lines of an agent's files into records, and note the parts that could not be read."""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, TypeVar

from engram.system.lazy_regex import lazy_regex
from engram.transcripts.agents import Cursor, Reading, Source, Unreadable
from engram.transcripts.growing_file import Chunk, Line, Position, read_chunk
from engram.transcripts.json_values import is_object, parse_json

# -- Parse lines into an agent's entries, and note the parts that could not be read. Pure.


def record_in(line: Line) -> dict[str, Any] | Unreadable:
    """Return the JSON object on a line. Never raises an exception, whatever the bytes."""
    try:
        record = parse_json(line.data)
    except ValueError:
        reason = "not JSON"
    except RecursionError:
        reason = "nested too deeply"
    except MemoryError:
        reason = "too large for memory"
    else:
        if isinstance(record, dict):
            return record
        reason = "not a JSON object"
    return Unreadable(line.offset, line.length, reason)


#
# Agents do not always write complete lines: a truncated record is followed by the next one on its line, two
# records share a line, or zero bytes precede a record. Every complete record is read; only the rest counts as
# unreadable.

Entry = TypeVar("Entry")

#: Bytes that may separate records.
BLANK = b" \t\r\n\0"
_BLANK_TEXT = BLANK.decode()
#: Maximum number of positions after a truncated record at which to look for a complete one.
_MAX_TRIES = 200
_DECODER = json.JSONDecoder()


@dataclass(frozen=True, slots=True)
class Records:
    """How to recognise an agent's records on a line that contains several records, or only part of one."""

    #: Matches the beginning of every record, and rarely that of an object within one.
    beginning: re.Pattern[str]
    #: Keys that every record has, but no object within a record.
    keys: frozenset[str]

    def split(self, line: Line) -> Iterator[Line | Unreadable]:
        """Yield the complete records on a line as separate lines, with their positions, and the unreadable parts.

        Zero bytes and blanks are left out.
        """
        # Each byte becomes one character, so that positions in the text are positions in the line.
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
        """Return True if the last record on a line is complete."""
        if is_object(data):
            return True
        end = data.rstrip(BLANK)
        if not end.endswith(b"}"):
            return False
        *_, last = self.split(Line(0, len(data), 1, data))
        return isinstance(last, Line)

    def _next_record(self, text: str, torn: int) -> tuple[int, int]:
        """Return the span of the first complete record after a truncated one.

        If there is none, both ends of the span are the end of the text.
        """
        for match in itertools.islice(self.beginning.finditer(text, torn + 1), _MAX_TRIES):
            end = self._end_of_record(text, match.start(), is_behind_torn=True)
            if end >= 0:
                return match.start(), end
        return len(text), len(text)

    def _end_of_record(self, text: str, begin: int, *, is_behind_torn: bool = False) -> int:
        """Return the end of the record that begins at a position; -1 if there is no complete record.

        After a truncated record, the object found could be one inside that record; it then lacks the keys, or more of
        the record follows.
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

    ``parse_line`` returns None for lines that are not relevant.
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
    parts = list(records.split(line))
    if parts and not any(isinstance(part, Line) for part in parts):
        return [], [whole]
    parsed = [part if isinstance(part, Unreadable) else parse_line(part) for part in parts]
    entries = [entry for entry in parsed if entry is not None and not isinstance(entry, Unreadable)]
    return entries, [part for part in parsed if isinstance(part, Unreadable)]


def too_long_lines(chunk: Chunk) -> list[Unreadable]:
    """Return the parts that were skipped: lines that are too long, and what follows the damage in a compressed file."""
    skipped = [Unreadable(line.offset, line.length, "too long") for line in chunk.skipped]
    if chunk.is_damaged:
        skipped.append(Unreadable(chunk.position.offset, 0, "the compressed file is damaged or too large beyond here"))
    return skipped


# -- Read new lines of a file, for agents with files that only grow.


#: The cursor of an agent that reads whole files.
_DIGEST = lazy_regex(r"[0-9a-f]{64}")


def facts_in(cursor: Cursor, foreign: str) -> dict[str, Any]:
    """Return the facts in a cursor; {} if another agent wrote it, as earlier versions let happen.

    Args:
        foreign: a key that only the cursors of other agents have.

    Raises:
        ValueError: the cursor is damaged.
    """
    is_digest = _DIGEST.fullmatch(cursor.position) is not None
    facts = {} if is_digest else json.loads(cursor.position or "{}")
    return {} if foreign in facts else facts


def chunk_of(source: Source, position: Position, records: Records, max_bytes: int, max_line_bytes: int) -> Chunk:
    """Return the complete lines of a source after a position. Raises TranscriptError."""
    return read_chunk(
        source.path,
        position,
        chunk_bytes=max_bytes,
        max_line_bytes=max_line_bytes,
        is_doubtful=source.is_doubtful,
        ends_whole=records.ends_whole,
    )


def reading_of(chunk: Chunk, cursor: Cursor, **found: Any) -> Reading:
    """Return the ``Reading`` for a chunk: how far the chunk extends, and what was found in it."""
    place = chunk.position
    return Reading(cursor, stamp=chunk.stamp, size=chunk.size, bytes_read=place.offset, lines_read=place.lines, **found)
