"""Add lines to a file of standing instructions, such as CLAUDE.md, without touching its other bytes. Pure."""

from __future__ import annotations

import difflib
import re
from collections.abc import Sequence

#: The heading below which lines are added.
HEADING = "## Learned from earlier sessions"


def add_to_section(data: bytes, lines: Sequence[str]) -> bytes:
    """Return a file with lines at the end of the section ``HEADING``, which is made at the end if it is missing.

    Every byte that was there stays, invalid UTF-8 included; only a last line without an end gets one. New lines end as
    the file's own do.
    """
    end = b"\r\n" if b"\r\n" in data else b"\n"
    new = b"".join(line.encode("utf-8") + end for line in lines)
    place = _end_of_section(data)
    if place is None:
        before = data if not data or data.endswith(b"\n") else data + end
        gap = end if before.strip(b"\xef\xbb\xbf") and not before.endswith(end * 2) else b""
        return before + gap + HEADING.encode() + end + end + new
    head = data[:place]
    return (head if head.endswith(b"\n") else head + end) + new + data[place:]


def _end_of_section(data: bytes) -> int | None:
    """Return the position behind the last text of the section; None if there is no such section."""
    start = re.search(rb"(?m)^" + re.escape(HEADING.encode()) + rb"[ \t]*\r?$", data)
    if start is None:
        return None
    following = re.search(rb"(?m)^#{1,2} ", data[start.end() :])
    section_end = len(data) if following is None else start.end() + following.start()
    text = data[:section_end].rstrip()
    line_end = data.find(b"\n", len(text))
    return len(data) if line_end < 0 else line_end + 1


def unified_diff(name: str, before: bytes, after: bytes) -> str:
    """Return the difference of two versions of a file in unified format; bytes that are no UTF-8 are replaced."""
    # Not splitlines: it also splits at form feeds and other separators.
    old, new = (re.findall(r"[^\n]*\n|[^\n]+", data.decode("utf-8", "replace")) for data in (before, after))
    source = name if before else "/dev/null"
    lines = difflib.unified_diff(old, new, source, name)
    return "".join(line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n" for line in lines)
