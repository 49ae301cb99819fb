"""Saved notes: texts that somebody chose to keep, a Markdown file a day. Engram adds to these files and rewrites
nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from engram.clock import day_of, moment_of
from engram.errors import BadRequest
from engram.notes.chunk import nest_text
from engram.notes.day_files import append_to_day, files_of_day, notes_lock, read_text
from engram.paths import Home
from engram.redaction.display import one_line

#: Longest text of one note, in characters.
MAX_NOTE_CHARACTERS = 20_000
#: Heading of a note that belongs to no project, in the daily log as well.
NO_PROJECT = "no project"
_PROJECT_CHARACTERS = 80

Redact = Callable[[str], str]


def save_note(home: Home, text: str, redact: Redact, at_ms: int, project: str = "") -> Path:
    """Add a note to the file of its day and return the file.

    Args:
        home: the memory folder.
        text: what to keep, at most 20,000 characters.
        redact: removes secrets.
        at_ms: when it was saved; decides the file.
        project: display name of the project it was saved in; "" for none.

    Raises:
        BadRequest: the text is empty or too long.
        OSError: the file cannot be written; nothing was changed.
    """
    clean = redact(text.replace("\0", "")).strip()
    if not clean or len(clean) > MAX_NOTE_CHARACTERS:
        raise BadRequest(f"a note has 1 to {MAX_NOTE_CHARACTERS} characters")
    day, time = day_of(at_ms), f"{moment_of(at_ms):%H:%M}"
    with notes_lock(home):
        return append_to_day(home.saved_notes, day, _title(day), _section(project, f"saved {time}", clean))


def keep_found_text(home: Home, day: str, text: str) -> None:
    """Add text from the daily log of ``day`` that the log itself did not write, unless it is there already.

    Call it with ``notes_lock`` held.
    """
    section = _section("", "found in the daily log", text)
    if not any(section.strip() in (read_text(path) or "") for path in files_of_day(home.saved_notes, day)):
        append_to_day(home.saved_notes, day, _title(day), section)


def _title(day: str) -> str:
    return f"Saved on {day}"


def _section(project: str, mark: str, text: str) -> str:
    heading = one_line(project, _PROJECT_CHARACTERS) or NO_PROJECT
    return f"## {heading}\n<!-- {mark} -->\n\n{nest_text(text, 2)}\n"
