"""The owner of each line of a note: a session, the project of a saved note, a memory, or everyone. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence

from engram.models.notes import EVERYONE, NOBODY, Owner

#: Folders that Engram alone writes: nobody knows which project text without a mark there came from.
OWN_FOLDERS = ("daily/", "saved/")
#: What the names of the earlier Engram's notes begin with.
EARLIER_PREFIX = "earlier/"
#: The one of them that was written for every project; of the others each section belongs to the project in its heading.
_EARLIER_MEMORY = f"{EARLIER_PREFIX}MEMORY.md"

_HEADING = re.compile(r"##?\s+(.*?)\s*")
_FENCE = re.compile(r"\s*(?:```|~~~)")
_SESSION_MARK = re.compile(r"<!-- session (\S{1,200}) -->")
_SAVED_MARK = re.compile(r"<!-- saved \d\d:\d\d -->")
#: Files that hold graduated memories, and the heading of those of one project.
_GRADUATED = ("MEMORY.md", "archive/")
_MONTH_OF_PROJECT = re.compile(r"\d{4}-\d\d, (.+)")
_MEMORY_MARK = re.compile(r"<!-- (ep_[0-9a-f]{12}) -->\s*$")


def owners_of_lines(source: str, lines: Sequence[str]) -> list[Owner]:
    """Return the owner of each line of a note.

    A section extends from a heading of the first or second level to the next one outside code. The comment on the line
    after the heading names its owner: ``session ID``, or ``saved TIME``, where the heading is the project's name. In
    MEMORY.md the heading ``YYYY-MM, NAME`` does, and in the daily notes of the earlier Engram the heading that is a
    project's name. A line that ends in a memory's comment belongs to that memory.

    Args:
        source: the note's name, which decides about sections without a comment.
        lines: the note's lines.
    """
    is_log = source.startswith(EARLIER_PREFIX) and source != _EARLIER_MEMORY
    unmarked = NOBODY if is_log or source.startswith(OWN_FOLDERS) else EVERYONE
    owners: list[Owner] = []
    current, in_fence = unmarked, False
    for line, following in zip(lines, [*lines[1:], ""], strict=False):
        if _FENCE.match(line):
            in_fence = not in_fence
        heading = None if in_fence else _HEADING.fullmatch(line)
        if heading:
            month = _MONTH_OF_PROJECT.fullmatch(heading[1]) if source.startswith(_GRADUATED) else None
            named = month[1] if month else heading[1] if is_log else ""
            current = Owner("project", named) if named else _owner_of_section(heading[1], following) or unmarked
        memory = _MEMORY_MARK.search(line)
        owners.append(Owner("memory", memory[1]) if memory else current)
    return owners


def _owner_of_section(heading: str, mark: str) -> Owner | None:
    if session := _SESSION_MARK.fullmatch(mark):
        # ``SESSION/NUMBER``: what it did in another project than its own, which the heading names.
        return Owner("project", heading) if "/" in session[1] else Owner("session", session[1])
    return Owner("project", heading) if _SAVED_MARK.fullmatch(mark) else None
