"""Parse the lines of a read: the entries of any agent, and what could not be read. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeVar

from engram.transcripts.source import Unreadable
from engram.transcripts.tail import Chunk, Line

Entry = TypeVar("Entry")


def parse_lines(
    lines: Iterable[Line], parse_line: Callable[[Line], Entry | Unreadable | None]
) -> tuple[list[Entry], list[Unreadable]]:
    """Return the entries of the lines, and the lines that could not be read.

    ``parse_line`` returns None for a line that is of no interest.
    """
    entries: list[Entry] = []
    unreadable: list[Unreadable] = []
    for line in lines:
        parsed = parse_line(line)
        if isinstance(parsed, Unreadable):
            unreadable.append(parsed)
        elif parsed is not None:
            entries.append(parsed)
    return entries, unreadable


def too_long_lines(chunk: Chunk) -> list[Unreadable]:
    """Return the lines of a read that were skipped for their length."""
    return [Unreadable(line.offset, line.length, "too long") for line in chunk.skipped]
