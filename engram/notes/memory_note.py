"""MEMORY.md: graduated memories as lines under dated headings. Old sections beyond its limits go to the archive.
Pure.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

#: Longest MEMORY.md, in lines and in bytes: what Claude Code reads of such a file.
MAX_LINES = 200
MAX_BYTES = 25_000

_SECTION = re.compile(r"(?m)^(?=## )")


def add_lines(text: str, heading: str, lines: Sequence[str]) -> str:
    """Return MEMORY.md with lines added under ``## heading``; lines that are there already are omitted."""
    new = [line for line in lines if line not in text.splitlines()]
    if not new:
        return text
    text = text or "# Memory\n\nKept by Engram. Edit freely; sections in excess move to archive/.\n"
    parts = _SECTION.split(text)
    for number, part in enumerate(parts):
        if part.startswith(f"## {heading}\n"):
            parts[number] = part.rstrip("\n") + "\n" + "\n".join(new) + "\n\n"
            return "".join(parts).rstrip("\n") + "\n"
    return text.rstrip("\n") + f"\n\n## {heading}\n" + "\n".join(new) + "\n"


def within_limits(text: str) -> tuple[str, str]:
    """Return ``(kept, moved)``: the oldest ``##`` sections move until the rest fits; the text before them stays.

    A single section that is too large loses its first lines to the archive.
    """
    parts = _SECTION.split(text)
    head, sections = parts[0], parts[1:]
    moved: list[str] = []
    while sections and not _fits(head + "".join(sections)):
        if len(sections) == 1:
            lines = sections[0].splitlines(keepends=True)
            if len(lines) < 3:
                break
            moved.append("".join(lines[:2]))
            sections[0] = lines[0] + "".join(lines[2:])
        else:
            moved.append(sections.pop(0))
    return head + "".join(sections), "".join(moved)


def _fits(text: str) -> bool:
    return len(text.splitlines()) <= MAX_LINES and len(text.encode()) <= MAX_BYTES
