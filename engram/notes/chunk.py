"""Cut a Markdown text into chunks, one a heading, long ones further at paragraphs. Pure."""

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
    """The chunks of a Markdown text in order; a chunk's heading is the path of headings above it.

    ``owners`` names whose each line is: no chunk goes over from one owner to another. Without it all is everyone's.
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
        found = None if in_fence else _HEADING.fullmatch(line)
        is_full = not line.strip() and not in_fence and sum(len(one.split()) for one in lines) >= words
        if found or is_full:
            close(number - 1)
            lines, start = [], number + (1 if found else 0)
        if found:
            level = len(found.group(1))
            path = [*[one for one in path if one[0] < level], (level, found.group(2))]
        elif not _SECTION_MARK.fullmatch(line):
            lines.append(line)
    close(start + len(lines) - 1)
    return chunks


def nest_text(text: str, levels: int) -> str:
    """Return a text that can stand inside a section: its headings ``levels`` deeper, its last code fence closed."""
    lines: list[str] = []
    fence = ""
    for line in text.splitlines():
        if match := _FENCE.match(line):
            fence = "" if fence else match.group(1)
        is_heading = not fence and _HEADING.fullmatch(line) is not None
        lines.append("#" * levels + line if is_heading else line)
    return "\n".join([*lines, fence] if fence else lines)
