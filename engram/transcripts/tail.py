"""Read whole lines of a growing file from a byte offset, in bounded memory; notice when the file was rewritten.

A last line without its newline is whole if it is a complete JSON object, since no proper prefix of one is: many real
files end so and never grow again. Anything else waits for its newline.
"""

from __future__ import annotations

import hashlib
import os
import stat
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, NamedTuple

from engram.errors import TranscriptError
from engram.transcripts.json_bytes import parse_json

#: Bytes read at a time; a longer line is read in further steps.
CHUNK_BYTES = 4 * 1024 * 1024
#: Longest line that is read; a longer one is skipped and counted.
MAX_LINE_BYTES = 64 * 1024 * 1024
#: How much of the first line identifies a file, in bytes.
FINGERPRINT_BYTES = 1024
_STEP_BYTES = 256 * 1024


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
    """How far a file was read."""

    #: Bytes read: the beginning of a line, or the end of a last line that has no newline yet.
    offset: int = 0
    #: Lines read to their newline.
    lines: int = 0
    #: What identified the file when it was read; empty before the first whole line.
    fingerprint: bytes = b""


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
    #: Size of the file at this read, in bytes.
    size: int
    #: True if the file was truncated or replaced by another one: read again from the beginning.
    is_rewritten: bool = False
    #: True if there may be more whole lines.
    has_more: bool = False


def read_chunk(
    path: Path, position: Position, *, chunk_bytes: int = CHUNK_BYTES, max_line_bytes: int = MAX_LINE_BYTES
) -> Chunk:
    """Read up to ``chunk_bytes`` of whole lines behind ``position``; an unfinished last line is left for later.

    A line longer than ``chunk_bytes`` comes alone; one longer than ``max_line_bytes`` is named in ``skipped``.
    The file is closed again before this returns. Links, pipes and devices are not opened.

    Raises:
        TranscriptError: the file is gone, not a regular file, or cannot be read.
    """
    try:
        with _open_regular(path) as file:
            size = os.fstat(file.fileno()).st_size
            current = _fingerprint_of(file)
            if size < position.offset or (position.fingerprint and current != position.fingerprint):
                return Chunk((), (), Position(), size, is_rewritten=True)
            file.seek(position.offset)
            lines, skipped, offset, number = _read_lines(file, position, chunk_bytes, max_line_bytes)
    except (OSError, ValueError) as error:
        raise TranscriptError(f"{str(path)!r}: {error}") from error
    advanced = Position(offset, number, current if offset else b"")
    return Chunk(lines, skipped, advanced, size, has_more=offset > position.offset and offset < size)


def fingerprint(path: Path) -> bytes:
    """Return the fingerprint of a file now; empty if it has no whole first line and less than 1 KB.

    Raises:
        TranscriptError: as ``read_chunk``.
    """
    try:
        with _open_regular(path) as file:
            return _fingerprint_of(file)
    except (OSError, ValueError) as error:
        raise TranscriptError(f"{str(path)!r}: {error}") from error


def _open_regular(path: Path) -> BinaryIO:
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    file = os.fdopen(descriptor, "rb", buffering=0)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        file.close()
        raise OSError("not a regular file")
    return file


def _fingerprint_of(file: BinaryIO) -> bytes:
    file.seek(0)
    head = file.read(FINGERPRINT_BYTES)
    end = head.find(b"\n")
    if end < 0 and len(head) < FINGERPRINT_BYTES:
        return b""
    return hashlib.sha256(head if end < 0 else head[:end]).digest()


def _read_lines(
    file: BinaryIO, position: Position, chunk_bytes: int, max_line_bytes: int
) -> tuple[tuple[Line, ...], tuple[SkippedLine, ...], int, int]:
    """Return the lines, the skipped lines, the offset after them and the number of lines so far."""
    data = _read_up_to(file, chunk_bytes)
    is_at_end = len(data) < chunk_bytes
    *pieces, last = data.split(b"\n")
    if not pieces and not is_at_end:
        return _read_long_line(file, len(data), position, max_line_bytes)
    lines: list[Line] = []
    offset, number = position.offset, position.lines
    for piece in pieces:
        number += 1
        lines.append(Line(offset, len(piece), number, piece))
        offset += len(piece) + 1
    if is_at_end and _is_object(last):
        # Its newline is read later as the end of an empty line with the same number.
        lines.append(Line(offset, len(last), number + 1, last))
        offset += len(last)
    return tuple(lines), (), offset, number


def _read_long_line(
    file: BinaryIO, begin: int, position: Position, max_line_bytes: int
) -> tuple[tuple[Line, ...], tuple[SkippedLine, ...], int, int]:
    """Read the one line that is longer than a chunk; nothing if it is not finished yet.

    Its end is looked for first, so that memory holds the line once.

    Args:
        begin: how much of it was seen, in bytes.
    """
    length, is_ended = begin, False
    while not is_ended and (piece := file.read(_STEP_BYTES)):
        end = piece.find(b"\n")
        is_ended = end >= 0
        length += end if is_ended else len(piece)
    if is_ended and length > max_line_bytes:
        return (), (SkippedLine(position.offset, length),), position.offset + length + 1, position.lines + 1
    file.seek(position.offset)
    data = _read_up_to(file, min(length, max_line_bytes))
    if not is_ended:
        return _last_line(data, position)
    if len(data) < length:
        return (), (), position.offset, position.lines
    return (
        (Line(position.offset, length, position.lines + 1, data),),
        (),
        position.offset + length + 1,
        position.lines + 1,
    )


def _last_line(data: bytes, position: Position) -> tuple[tuple[Line, ...], tuple[SkippedLine, ...], int, int]:
    """Return a long last line without its newline, if it is whole."""
    if not _is_object(data):
        return (), (), position.offset, position.lines
    line = Line(position.offset, len(data), position.lines + 1, data)
    return (line,), (), position.offset + len(data), position.lines


def _is_object(data: bytes) -> bool:
    """True for one complete JSON object."""
    if not data.startswith(b"{") or not data.rstrip().endswith(b"}"):
        return False
    try:
        return isinstance(parse_json(data), dict)
    except (ValueError, RecursionError, MemoryError):
        return False


def _read_up_to(file: BinaryIO, count: int) -> bytes:
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
