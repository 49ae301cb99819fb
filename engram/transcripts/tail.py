"""Read whole lines of a growing file from a byte offset, in bounded memory; notice when the file was rewritten.

A cursor is believed only on evidence. At each read the beginning of the file and the 4 KB before the cursor must be as
they were. Everything before the cursor is compared where the file's number, size or time look wrong, or where somebody
doubts (``is_doubtful``). What this can't notice is in docs/promises.md.

A last line without its newline is whole if it ends in a complete record, since no proper prefix of one is: many real
files end so and never grow again. Anything else waits for its newline.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple, Protocol

import orjson

from engram.errors import TranscriptError
from engram.transcripts.transcript_files import Expanded, open_content, stamp_of

# -- Parse JSON out of an agent's files. Pure.

#: Longest text that orjson parses, in bytes: it keeps the memory that a longer one took.
_LONGEST = 64 * 1024
#: A picture, as agents write it into a line: more than 3 KB in base64.
_PICTURE = re.compile(
    rb'("(?:data|base64|image_url|url)":")(?:data:[\w.+-]{1,40}/[\w.+-]{1,40};base64,)?[A-Za-z0-9+/]{4096,}={0,2}"'
)


def parse_json(data: bytes) -> Any:
    """Return the value of JSON text in UTF-8; bytes that are no UTF-8 become U+FFFD, and a byte order mark is left out.

    A picture in a long text is left out: "" stands in its place. Integers beyond 64 bits may come as floats.

    Raises:
        ValueError: it is not JSON.
        RecursionError: it is nested too deeply.
        MemoryError: it is too large.
    """
    if len(data) > _LONGEST:
        data = _PICTURE.sub(rb'\1"', data)
        if len(data) > _LONGEST:
            return _parse_slowly(data)
    try:
        return orjson.loads(data)
    except ValueError:
        # It refuses lone surrogates, NaN and deep nesting, which agents write.
        return _parse_slowly(data)


def _parse_slowly(data: bytes) -> Any:
    return json.loads(data.decode("utf-8", "replace").removeprefix("\ufeff"))


#: Bytes read at a time; a longer line is read in further steps.
CHUNK_BYTES = 4 * 1024 * 1024
#: Bytes of a compressed file read at a time at least: each read expands it from its beginning.
COMPRESSED_CHUNK_BYTES = 2 * 1024 * 1024
#: Longest line that is read; a longer one is skipped and counted.
MAX_LINE_BYTES = 64 * 1024 * 1024
#: How much of the first line identifies a file, and how much before the cursor is compared at each read, in bytes.
FINGERPRINT_BYTES, WINDOW_BYTES = 1024, 4096
_STEP_BYTES = 256 * 1024


class Content(Protocol):
    """What is read from: an open file, or the content of a compressed one."""

    def read(self, size: int, /) -> bytes | None:
        """Return up to ``size`` bytes; b"" at the end."""

    def seek(self, offset: int, /) -> int:
        """Go to a place."""

    def fileno(self) -> int:
        """Return the descriptor of the file."""


class Line(NamedTuple):
    """One whole line. A named tuple because there is one for every line: it is made three times as fast."""

    #: Where it begins in the file, in bytes.
    offset: int
    #: Bytes without the newline.
    length: int
    #: Line number from 1.
    number: int
    data: bytes


@dataclass(frozen=True, slots=True)
class Position:
    """How far a file was read, and what it held then."""

    #: Bytes read: the beginning of a line, or the end of a last line that has no newline yet.
    offset: int = 0
    #: Lines read to their newline.
    lines: int = 0
    #: What identified the file when it was read; empty before the first whole line.
    fingerprint: bytes = b""
    #: Hash of the bytes right before ``offset``; empty at the beginning, and in cursors of versions before 0.2.
    window: bytes = b""
    #: CRC-32 of everything before ``offset``; None in cursors of versions before 0.2.
    prefix: int | None = 0
    #: Number of the file, and its time in nanoseconds since 1970, when it was read.
    inode: int = 0
    changed_at_ns: int = 0

    def as_facts(self) -> dict[str, object]:
        """Return it as JSON for a cursor."""
        return {
            "offset": self.offset,
            "lines": self.lines,
            "fingerprint": self.fingerprint.hex(),
            "window": self.window.hex(),
            "prefix": self.prefix,
            "inode": self.inode,
            "changed_at_ns": self.changed_at_ns,
        }

    @classmethod
    def of_facts(cls, facts: dict[str, object]) -> Position:
        """Return the position that ``as_facts`` described. Raises ValueError or TypeError for anything else."""
        prefix = facts.get("prefix", None if facts.get("offset") else 0)
        return cls(
            offset=_number(facts.get("offset", 0)),
            lines=_number(facts.get("lines", 0)),
            fingerprint=bytes.fromhex(str(facts.get("fingerprint", ""))),
            window=bytes.fromhex(str(facts.get("window", ""))),
            prefix=None if prefix is None else _number(prefix),
            inode=_number(facts.get("inode", 0)),
            changed_at_ns=_number(facts.get("changed_at_ns", 0)),
        )


def _number(value: object) -> int:
    if not isinstance(value, int):
        raise TypeError(f"{value!r} is not a number")
    return value


@dataclass(frozen=True, slots=True)
class SkippedLine:
    """A line too long to be read, by its position."""

    offset: int
    length: int


@dataclass(frozen=True, slots=True)
class Chunk:
    """The result of one read."""

    lines: tuple[Line, ...]
    skipped: tuple[SkippedLine, ...]
    #: Where the next read continues.
    position: Position
    #: Size of the file at this read, in bytes; for a compressed file, of what was expanded so far.
    size: int
    #: ``stamp_of`` the file at this read.
    stamp: str = ""
    #: True if the file was truncated or replaced by another one: read again from the beginning.
    is_rewritten: bool = False
    #: True if there may be more whole lines.
    has_more: bool = False
    #: True if a compressed file is damaged behind the position, or expands to more than is read.
    is_damaged: bool = False


def is_object(data: bytes) -> bool:
    """True for one complete JSON object."""
    if not data.startswith(b"{") or not data.rstrip().endswith(b"}"):
        return False
    try:
        return isinstance(parse_json(data), dict)
    except (ValueError, RecursionError, MemoryError):
        return False


def read_chunk(
    path: Path,
    position: Position,
    *,
    chunk_bytes: int = CHUNK_BYTES,
    max_line_bytes: int = MAX_LINE_BYTES,
    is_doubtful: bool = False,
    ends_whole: Callable[[bytes], bool] = is_object,
) -> Chunk:
    """Read up to ``chunk_bytes`` of whole lines behind ``position``; an unfinished last line is left for later.

    A line longer than ``chunk_bytes`` comes alone; one longer than ``max_line_bytes`` is named in ``skipped``.
    The file is closed again before this returns. Pipes, devices and foreign files behind links are not opened.

    Args:
        is_doubtful: compare everything before ``position`` with what was read.
        ends_whole: decides whether a last line without its newline ends in a whole record.

    Raises:
        TranscriptError: the file is gone, not a regular file, or cannot be read.
    """
    try:
        with open_content(path) as file:
            if isinstance(file, Expanded):
                chunk_bytes = max(chunk_bytes, COMPRESSED_CHUNK_BYTES)
            return _Read(file, position, chunk_bytes, max_line_bytes, ends_whole).run(is_doubtful=is_doubtful)
    except (OSError, ValueError) as error:
        raise TranscriptError(f"{str(path)!r}: {error}") from error


def holds_prefix(path: Path, position: Position) -> bool:
    """True if a file holds everything that was read up to ``position``, as a file that was moved does.

    Raises:
        TranscriptError: as ``read_chunk``.
    """
    if not position.fingerprint:
        return False
    try:
        with open_content(path) as file:
            if _fingerprint_of(file) != position.fingerprint:
                return False
            return position.prefix is None or _crc_up_to(file, position.offset) == position.prefix
    except (OSError, ValueError) as error:
        raise TranscriptError(f"{str(path)!r}: {error}") from error


def fingerprint(path: Path) -> bytes:
    """Return the fingerprint of a file now; empty if it has no whole first line and less than 1 KB.

    Raises:
        TranscriptError: as ``read_chunk``.
    """
    try:
        with open_content(path) as file:
            return _fingerprint_of(file)
    except (OSError, ValueError) as error:
        raise TranscriptError(f"{str(path)!r}: {error}") from error


class _Read:
    """One read of an open file."""

    def __init__(
        self,
        file: BinaryIO | Expanded,
        position: Position,
        chunk_bytes: int,
        max_line_bytes: int,
        ends_whole: Callable[[bytes], bool],
    ) -> None:
        self._file = file
        self._before = position
        self._chunk_bytes = chunk_bytes
        self._max_line_bytes = max_line_bytes
        self._ends_whole = ends_whole
        self._lines: list[Line] = []
        self._skipped: tuple[SkippedLine, ...] = ()
        self._offset, self._number = position.offset, position.lines
        #: What was read from the position on, if it is in memory; it may reach behind ``_offset``.
        self._data: bytes | None = None
        self._is_at_end = False

    def run(self, *, is_doubtful: bool) -> Chunk:
        """Compare what is before the position, then read what is behind it."""
        file, before = self._file, self._before
        facts = os.fstat(file.fileno())
        stamp = stamp_of(facts)
        first_line = _fingerprint_of(file)
        size = before.offset if isinstance(file, Expanded) else facts.st_size
        window = _window_before(file, before.offset)
        if self._is_rewritten(facts, size, first_line, window, is_doubtful=is_doubtful):
            return Chunk((), (), Position(), size, stamp, is_rewritten=True)
        file.seek(before.offset)
        self._read_lines()
        if isinstance(file, Expanded):
            size, has_more = self._offset, self._offset > before.offset and not self._is_at_end
        else:
            has_more = before.offset < self._offset < size
        position = before if self._offset == before.offset else self._advance(facts, first_line, window)
        is_damaged = isinstance(file, Expanded) and file.is_damaged
        return Chunk(tuple(self._lines), self._skipped, position, size, stamp, has_more=has_more, is_damaged=is_damaged)

    def _is_rewritten(
        self, facts: os.stat_result, size: int, first_line: bytes, window: bytes, *, is_doubtful: bool
    ) -> bool:
        """True if what is before the position is not what was read."""
        before = self._before
        if size < before.offset or (before.fingerprint and first_line != before.fingerprint):
            return True
        if not before.offset:
            return False
        if before.prefix is None:
            return not _is_between_lines(self._file, before.offset, size)
        if _hash(window) != before.window:
            return True
        is_odd = (
            facts.st_ino != before.inode
            or facts.st_mtime_ns < before.changed_at_ns
            or (size == before.offset and facts.st_mtime_ns != before.changed_at_ns)
        )
        return (is_odd or is_doubtful) and _crc_up_to(self._file, before.offset) != before.prefix

    def _advance(self, facts: os.stat_result, first_line: bytes, window: bytes) -> Position:
        """Return the position behind what was read."""
        before, taken = self._before, self._offset - self._before.offset
        crc = before.prefix
        if crc is None or self._data is None:
            crc = _crc_up_to(self._file, self._offset)
            window = _window_before(self._file, self._offset)
        else:
            crc = zlib.crc32(memoryview(self._data)[:taken], crc)
            window = (window + self._data[max(0, taken - WINDOW_BYTES) : taken])[-WINDOW_BYTES:]
        return Position(
            offset=self._offset,
            lines=self._number,
            fingerprint=first_line,
            window=_hash(window),
            prefix=crc,
            inode=facts.st_ino,
            changed_at_ns=facts.st_mtime_ns,
        )

    def _read_lines(self) -> None:
        """Take whole lines, up to the size of a chunk."""
        data = _read_up_to(self._file, self._chunk_bytes)
        self._is_at_end = len(data) < self._chunk_bytes
        *pieces, last = data.split(b"\n")
        if not pieces and not self._is_at_end:
            self._read_long_line(len(data))
            return
        self._data = data
        offset, number = self._offset, self._number
        for piece in pieces:
            number += 1
            self._lines.append(Line(offset, len(piece), number, piece))
            offset += len(piece) + 1
        self._offset, self._number = offset, number
        if self._is_at_end and last and self._ends_whole(last):
            # Its newline is read later as the end of an empty line with the same number.
            self._take(last)

    def _read_long_line(self, begin: int) -> None:
        """Read the one line that is longer than a chunk; nothing if it is not finished yet.

        Its end is looked for first, so that memory holds the line once.

        Args:
            begin: how much of it was seen, in bytes.
        """
        length, is_ended = begin, False
        while not is_ended and (piece := self._file.read(_STEP_BYTES)):
            end = piece.find(b"\n")
            is_ended = end >= 0
            length += end if is_ended else len(piece)
        self._is_at_end = not is_ended
        if is_ended and length > self._max_line_bytes:
            self._skipped = (SkippedLine(self._offset, length),)
            self._offset, self._number = self._offset + length + 1, self._number + 1
            return
        self._file.seek(self._offset)
        data = _read_up_to(self._file, min(length, self._max_line_bytes))
        if not is_ended:
            if self._ends_whole(data):
                self._take(data)
        elif len(data) == length:
            self._number += 1
            self._lines.append(Line(self._offset, length, self._number, data))
            self._offset += length + 1

    def _take(self, last: bytes) -> None:
        """Take a last line without its newline."""
        self._lines.append(Line(self._offset, len(last), self._number + 1, last))
        self._offset += len(last)


def _fingerprint_of(file: Content) -> bytes:
    file.seek(0)
    head = _read_up_to(file, FINGERPRINT_BYTES)
    end = head.find(b"\n")
    if end < 0 and len(head) < FINGERPRINT_BYTES:
        return b""
    return hashlib.sha256(head if end < 0 else head[:end]).digest()


def _window_before(file: Content, offset: int) -> bytes:
    """Return the bytes right before an offset; the file is at the offset then."""
    begin = max(0, offset - WINDOW_BYTES)
    file.seek(begin)
    return _read_up_to(file, offset - begin)


def _hash(window: bytes) -> bytes:
    return hashlib.blake2b(window, digest_size=16).digest() if window else b""


def _is_between_lines(file: Content, offset: int, size: int) -> bool:
    """True if a line begins at an offset, or a last line without newline ended there: all that old cursors tell."""
    file.seek(offset - 1)
    around = _read_up_to(file, 2)
    return around[:1] == b"\n" or offset == size or around[1:] == b"\n"


def _crc_up_to(file: Content, offset: int) -> int:
    """Return the CRC-32 of everything before an offset; of less if the file is shorter."""
    file.seek(0)
    crc = 0
    while offset > 0 and (piece := file.read(min(offset, _STEP_BYTES))):
        crc = zlib.crc32(piece, crc)
        offset -= len(piece)
    return crc


def _read_up_to(file: Content, count: int) -> bytes:
    """Read as many bytes as there are, at most ``count``; a raw read may return fewer than asked."""
    pieces: list[bytes] = []
    left = count
    while left > 0:
        piece = file.read(left)
        if not piece:
            break
        pieces.append(piece)
        left -= len(piece)
    return pieces[0] if len(pieces) == 1 else b"".join(pieces)
