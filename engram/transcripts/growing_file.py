"""Read complete lines of a growing file from a byte offset, in bounded memory, and detect that it was rewritten.

A cursor is trusted only if the file still matches it. At each read, the beginning of the file and the 4 KB before the
cursor must be unchanged. Everything before the cursor is compared if the inode, the size or the modification time looks
wrong, or if the caller requests it (``is_doubtful``). docs/promises.md lists the changes that this can't detect.

A last line without a newline counts as complete if it ends with a complete record, because no proper prefix of a record
is itself complete. Many real files end this way and never grow again. Any other last line is read once it has its
newline.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, NamedTuple, Protocol

from engram.errors import TranscriptError
from engram.transcripts.json_values import is_object
from engram.transcripts.transcript_files import Expanded, open_content, stamp_of

#: Number of bytes read at a time; a longer line is read in several steps.
CHUNK_BYTES = 4 * 1024 * 1024
#: Minimum number of bytes read at a time from a compressed file, because each read decompresses the file from the
#: start.
COMPRESSED_CHUNK_BYTES = 2 * 1024 * 1024
#: Maximum length of a line for it to be read, in bytes; a longer line is skipped and counted.
MAX_LINE_BYTES = 64 * 1024 * 1024
#: Number of bytes of the first line that identify a file, and number of bytes before the cursor that are compared at
#: each read.
FINGERPRINT_BYTES, WINDOW_BYTES = 1024, 4096
_STEP_BYTES = 256 * 1024


class Content(Protocol):
    """The input of ``read_chunk``: an open file, or the content of a compressed one."""

    def read(self, size: int, /) -> bytes | None:
        """Return up to ``size`` bytes; b"" at the end."""

    def seek(self, offset: int, /) -> int:
        """Move to an offset, in bytes."""

    def fileno(self) -> int:
        """Return the descriptor of the file."""


class Line(NamedTuple):
    """A complete line.

    A named tuple, because one is created for every line, and creating a dataclass would take three times as long.
    """

    #: Where the line begins in the file, in bytes.
    offset: int
    #: Number of bytes without the newline.
    length: int
    #: Line number from 1.
    number: int
    data: bytes


@dataclass(frozen=True, slots=True)
class Position:
    """How far a file has been read, and what identified its content at that time."""

    #: Bytes read: the beginning of a line, or the end of a last line that has no newline yet.
    offset: int = 0
    #: Complete lines read.
    lines: int = 0
    #: Identifies the file as it was when read; empty before the first complete line.
    fingerprint: bytes = b""
    #: Hash of the bytes right before ``offset``; empty at the beginning.
    window_hash: bytes = b""
    #: CRC-32 of everything before ``offset``.
    prefix_crc: int = 0
    #: Inode, and modification time in nanoseconds since 1970, when it was read.
    inode: int = 0
    changed_at_ns: int = 0

    def to_json(self) -> dict[str, object]:
        """Return the position as JSON-ready values for a cursor; the keys are stored."""
        return {
            "offset": self.offset,
            "lines": self.lines,
            "fingerprint": self.fingerprint.hex(),
            "window": self.window_hash.hex(),
            "prefix": self.prefix_crc,
            "inode": self.inode,
            "changed_at_ns": self.changed_at_ns,
        }

    @classmethod
    def from_json(cls, values: dict[str, object]) -> Position:
        """Return the position that ``to_json`` wrote. Raises ValueError or TypeError for anything else."""
        return cls(
            offset=_number(values.get("offset", 0)),
            lines=_number(values.get("lines", 0)),
            fingerprint=bytes.fromhex(str(values.get("fingerprint", ""))),
            window_hash=bytes.fromhex(str(values.get("window", ""))),
            prefix_crc=_number(values.get("prefix", 0)),
            inode=_number(values.get("inode", 0)),
            changed_at_ns=_number(values.get("changed_at_ns", 0)),
        )


def _number(value: object) -> int:
    if not isinstance(value, int):
        raise TypeError(f"{value!r} is not a number")
    return value


@dataclass(frozen=True, slots=True)
class SkippedLine:
    """The position of a line that was skipped because it is too long, in bytes."""

    offset: int
    length: int


@dataclass(frozen=True, slots=True)
class Chunk:
    lines: tuple[Line, ...]
    skipped: tuple[SkippedLine, ...]
    #: Where the next read continues.
    position: Position
    #: Size of the file at this read, in bytes; for a compressed file, the number of bytes expanded so far.
    size: int
    #: ``stamp_of`` the file at this read.
    stamp: str = ""
    #: True if the file was truncated or replaced by another one, and must be read again from the beginning.
    is_rewritten: bool = False
    #: True if there may be more complete lines.
    has_more: bool = False
    #: True if a compressed file is damaged after the position, or expands to more than is read.
    is_damaged: bool = False


def read_chunk(
    path: Path,
    position: Position,
    *,
    chunk_bytes: int = CHUNK_BYTES,
    max_line_bytes: int = MAX_LINE_BYTES,
    is_doubtful: bool = False,
    ends_whole: Callable[[bytes], bool] = is_object,
) -> Chunk:
    """Read up to ``chunk_bytes`` of complete lines after ``position``; an unfinished last line is left for later.

    A line longer than ``chunk_bytes`` is returned alone; a line longer than ``max_line_bytes`` is reported in
    ``skipped``. The file is closed before this returns. Pipes, devices and links to other users' files are not opened.

    Args:
        is_doubtful: True to compare everything before ``position`` with what was read.
        ends_whole: decides whether a last line without its newline ends with a complete record.

    Raises:
        TranscriptError: the file is gone, not a regular file, or cannot be read.
    """
    with _opened(path) as file:
        if isinstance(file, Expanded):
            chunk_bytes = max(chunk_bytes, COMPRESSED_CHUNK_BYTES)
        return _Read(file, position, chunk_bytes, max_line_bytes, ends_whole).run(is_doubtful=is_doubtful)


def holds_prefix(path: Path, position: Position) -> bool:
    """Return True if a file contains everything that was read up to ``position``, as a moved file does.

    Raises:
        TranscriptError: as ``read_chunk``.
    """
    if not position.fingerprint:
        return False
    with _opened(path) as file:
        if _fingerprint_of(file) != position.fingerprint:
            return False
        return _crc_up_to(file, position.offset) == position.prefix_crc


def line_number(path: Path, offset: int) -> int | None:
    """Return the number of the line at an offset, in bytes, counted from 1; None if the file does not reach so far."""
    number = 1
    try:
        with _opened(path) as file:
            while offset and (part := file.read(min(offset, _STEP_BYTES))):
                number, offset = number + part.count(b"\n"), offset - len(part)
    except TranscriptError:
        return None
    return None if offset else number


@contextlib.contextmanager
def _opened(path: Path) -> Iterator[BinaryIO | Expanded]:
    """Open a file for reading. Raises TranscriptError for errors while opening or reading it."""
    try:
        with open_content(path) as file:
            yield file
    except (OSError, ValueError) as error:
        raise TranscriptError(f"{str(path)!r}: {error}") from error


class _Read:
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
        #: The data after the position, if it is in memory; it may extend beyond ``_offset``.
        self._data: bytes | None = None
        self._is_at_end = False

    def run(self, *, is_doubtful: bool) -> Chunk:
        """Compare the content before the position, then read the content after it."""
        file, before = self._file, self._before
        facts = os.fstat(file.fileno())
        stamp = stamp_of(facts)
        first_line = _fingerprint_of(file)
        size = before.offset if isinstance(file, Expanded) else facts.st_size
        window = _window_before(file, before.offset)
        if self._is_rewritten(facts, size, first_line, window, is_doubtful=is_doubtful):
            return Chunk(lines=(), skipped=(), position=Position(), size=size, stamp=stamp, is_rewritten=True)
        file.seek(before.offset)
        self._read_lines()
        if isinstance(file, Expanded):
            size, has_more = self._offset, self._offset > before.offset and not self._is_at_end
        else:
            has_more = before.offset < self._offset < size
        position = before if self._offset == before.offset else self._advance(facts, first_line, window)
        is_damaged = isinstance(file, Expanded) and file.is_damaged
        return Chunk(
            lines=tuple(self._lines),
            skipped=self._skipped,
            position=position,
            size=size,
            stamp=stamp,
            has_more=has_more,
            is_damaged=is_damaged,
        )

    def _is_rewritten(
        self, facts: os.stat_result, size: int, first_line: bytes, window: bytes, *, is_doubtful: bool
    ) -> bool:
        """Return True if the content before the position differs from what was read."""
        before = self._before
        if size < before.offset or (before.fingerprint and first_line != before.fingerprint):
            return True
        if not before.offset:
            return False
        if _hash(window) != before.window_hash:
            return True
        looks_rewritten = (
            facts.st_ino != before.inode
            or facts.st_mtime_ns < before.changed_at_ns
            or (size == before.offset and facts.st_mtime_ns != before.changed_at_ns)
        )
        return (looks_rewritten or is_doubtful) and _crc_up_to(self._file, before.offset) != before.prefix_crc

    def _advance(self, facts: os.stat_result, first_line: bytes, window: bytes) -> Position:
        before, taken = self._before, self._offset - self._before.offset
        if self._data is None:
            crc = _crc_up_to(self._file, self._offset)
            window = _window_before(self._file, self._offset)
        else:
            crc = zlib.crc32(memoryview(self._data)[:taken], before.prefix_crc)
            window = (window + self._data[max(0, taken - WINDOW_BYTES) : taken])[-WINDOW_BYTES:]
        return Position(
            offset=self._offset,
            lines=self._number,
            fingerprint=first_line,
            window_hash=_hash(window),
            prefix_crc=crc,
            inode=facts.st_ino,
            changed_at_ns=facts.st_mtime_ns,
        )

    def _read_lines(self) -> None:
        """Read complete lines, up to the chunk size."""
        data = _read_up_to(self._file, self._chunk_bytes)
        self._is_at_end = len(data) < self._chunk_bytes
        *pieces, last = data.split(b"\n")
        if not pieces and not self._is_at_end:
            self._read_long_line(len(data))
            return
        self._data = data
        offset, number, longest, add = self._offset, self._number, self._max_line_bytes, self._lines.append
        for piece in pieces:
            length, number = len(piece), number + 1
            if length <= longest:
                add(Line(offset, length, number, piece))
            else:
                self._skipped += (SkippedLine(offset, length),)
            offset += length + 1
        self._offset, self._number = offset, number
        if self._is_at_end and last and self._ends_whole(last):
            # The newline will be read later, as the end of an empty line with the same number.
            self._take(last)

    def _read_long_line(self, seen_bytes: int) -> None:
        """Read a line that is longer than a chunk; read nothing if the line is not complete yet.

        Its end is found first, so that the line is held in memory only once.

        Args:
            seen_bytes: how much of the line has already been read.
        """
        length, is_ended = seen_bytes, False
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
        """Append a last line that has no newline."""
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
    """Return the bytes right before an offset, leaving the file positioned at the offset."""
    begin = max(0, offset - WINDOW_BYTES)
    file.seek(begin)
    return _read_up_to(file, offset - begin)


def _hash(window: bytes) -> bytes:
    return hashlib.blake2b(window, digest_size=16).digest() if window else b""


def _crc_up_to(file: Content, offset: int) -> int:
    """Return the CRC-32 of everything before an offset, or of the whole file if it is shorter."""
    file.seek(0)
    crc = 0
    while offset > 0 and (piece := file.read(min(offset, _STEP_BYTES))):
        crc = zlib.crc32(piece, crc)
        offset -= len(piece)
    return crc


def _read_up_to(file: Content, count: int) -> bytes:
    """Read all available bytes, at most ``count``; a raw read may return fewer than requested."""
    pieces: list[bytes] = []
    left = count
    while left > 0:
        piece = file.read(left)
        if not piece:
            break
        pieces.append(piece)
        left -= len(piece)
    return pieces[0] if len(pieces) == 1 else b"".join(pieces)
