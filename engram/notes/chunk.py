"""Cut a Markdown text into chunks, one per heading; cut long ones at paragraphs. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence

from engram.models.notes import EVERYONE, NoteChunk, Owner

#: A chunk grows to about this many words before it is cut at a paragraph.
CHUNK_WORDS = 120

_HEADING = re.compile(r"(#{1,6})\s+(.*?)\s*#*\s*")
#: What Engram writes below the heading of a section; it says whose the section is and is nothing to search for.
_SECTION_MARK = re.compile(r"<!-- (?:session|saved|found) .*-->")
_FENCE = re.compile(r"\s*(```|~~~)")
#: What Engram writes below the heading of a section; it says whose the section is and is nothing to search for.


def cut_markdown(text: str, words: int = CHUNK_WORDS, owners: Sequence[Owner] = ()) -> list[NoteChunk]:
    """Return the chunks of a Markdown text in order; a chunk's heading is the path of headings above it.

    ``owners`` gives the owner of each line: no chunk has two. Without it, everything is everyone's.
    """
    chunks: list[NoteChunk] = []
    path: list[tuple[int, str]] = []
    lines: list[str] = []
    start, in_fence, owner = 1, False, EVERYONE

    def close(stop: int) -> None:
        body = "\n".join(lines).strip()
        if body:
            heading = " › ".join(title for _, title in path)
            chunks.append(NoteChunk(heading, body, start, stop, owner=owner))

    for number, line in enumerate(text.splitlines(), 1):
        if owners and owners[number - 1] != owner:
            close(number - 1)
            lines, start, owner = [], number, owners[number - 1]
        if _FENCE.match(line):
            in_fence = not in_fence
        heading_match = None if in_fence else _HEADING.fullmatch(line)
        is_full = not line.strip() and not in_fence and sum(len(kept.split()) for kept in lines) >= words
        if heading_match or is_full:
            close(number - 1)
            lines, start = [], number + (1 if heading_match else 0)
        if heading_match:
            level = len(heading_match.group(1))
            path = [*[above for above in path if above[0] < level], (level, heading_match.group(2))]
        elif not _SECTION_MARK.fullmatch(line):
            lines.append(line)
    close(start + len(lines) - 1)
    return chunks


def nest_text(text: str, levels: int) -> str:
    """Return a text in a form that fits into a section: its headings ``levels`` deeper, its last code fence closed."""
    lines: list[str] = []
    fence = ""
    for line in text.splitlines():
        if match := _FENCE.match(line):
            fence = "" if fence else match.group(1)
        is_heading = not fence and _HEADING.fullmatch(line) is not None
        lines.append("#" * levels + line if is_heading else line)
    return "\n".join([*lines, fence] if fence else lines)
