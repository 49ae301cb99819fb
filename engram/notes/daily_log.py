"""Write the notes of each day: the daily log and saved notes."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path

from engram.enums import Kind, Scope
from engram.errors import BadRequest
from engram.models.engine.transaction import Store
from engram.models.memories.memory_records import memories_of_session
from engram.models.projects.projects import project_by_id
from engram.models.sessions.sessions import SessionRow, find_session
from engram.models.sessions.stored_turns import turns_of_session
from engram.notes.note_index import Redact, nest_text
from engram.paths import Home
from engram.redaction import redact
from engram.system.atomic import locked_folder, read_whole, write_atomic
from engram.system.clock import DAY_MS, day_of, moment_of
from engram.system.lazy_regex import lazy_regex
from engram.text.markdown import without_breaks
from engram.text.shell import hides_status
from engram.transcripts.turns import Turn
from engram.trust.display import cut_at_word, fence_safe, one_line, visible

# -- Files for a day. They have one writer at a time, and are never rewritten after a partial read.

#: Maximum size of a day's file, in bytes. The day is continued in another file.
MAX_DAY_BYTES = 400_000
#: Maximum size of a file that is rewritten, in bytes.
MAX_REWRITE_BYTES = 20_000_000

_SECTION = lazy_regex(r"(?m)^(?=## )")


@contextlib.contextmanager
def notes_lock(home: Home) -> Iterator[None]:
    """Hold the lock that every writer of notes takes before reading a file. Not reentrant."""
    with locked_folder(home.notes):
        yield


def paths_of_day(folder: Path, day: str) -> Iterator[Path]:
    """Yield ``DAY.md``, ``DAY-2.md``, ``DAY-3.md`` and so on without end, whether or not they exist."""
    yield folder / f"{day}.md"
    number = 1
    while True:
        number += 1
        yield folder / f"{day}-{number}.md"


def files_of_day(folder: Path, day: str) -> list[Path]:
    files: list[Path] = []
    for path in paths_of_day(folder, day):
        if not path.exists():
            return files
        files.append(path)
    return files


def append_to_day(folder: Path, day: str, title: str, text: str) -> Path:
    """Add a text to the first file of a day that has room; return the file's path.

    A file that can't be read completely is skipped. Call this with ``notes_lock`` held. Raises OSError.
    """
    added = text.strip("\n").encode("utf-8", "surrogateescape")
    for path in paths_of_day(folder, day):
        old = read_whole(path, MAX_REWRITE_BYTES)
        if old is None or (old and len(old) + len(added) > MAX_DAY_BYTES):
            continue
        head = old.rstrip(b"\n") or f"# {title}".encode()
        write_atomic(path, head + b"\n\n" + added + b"\n")
        return path
    raise AssertionError("unreachable: there is always a further file")


def cut_sections(text: str) -> list[str]:
    """Split a note before each second-level heading. The parts joined are the original text."""
    return _SECTION.split(text)


def read_text(path: Path) -> str | None:
    """Return the text of a note, "" if it does not exist, or None if it must not be rewritten."""
    data = read_whole(path, MAX_REWRITE_BYTES)
    return None if data is None else data.decode("utf-8", "surrogateescape")


def write_text(path: Path, text: str) -> None:
    """Write the text of a note from ``read_text``, preserving invalid UTF-8. Raises OSError."""
    write_atomic(path, text.encode("utf-8", "surrogateescape"))


# -- Saved notes: text that someone chose to keep, in one Markdown file per day. Engram only appends to these files.

#: Maximum length of a note, in characters.
MAX_NOTE_CHARACTERS = 20_000
#: Heading of text without a project, in saved notes and in the daily log.
NO_PROJECT = "no project"
_PROJECT_CHARACTERS = 80


def save_note(home: Home, text: str, redact: Redact, at_ms: int, project: str = "") -> Path:
    """Add a note to the file of its day; return the file's path.

    Args:
        text: the note, 1 to 20,000 characters.
        at_ms: when it was saved, which determines the file.
        project: display name of its project; "" if there is none.

    Raises:
        BadRequest: the text is empty or too long.
        OSError: the file can't be written, and is unchanged.
    """
    clean = redact(text.replace("\0", "")).strip()
    if not clean or len(clean) > MAX_NOTE_CHARACTERS:
        raise BadRequest(f"a note has 1 to {MAX_NOTE_CHARACTERS} characters")
    day, time = day_of(at_ms), f"{moment_of(at_ms):%H:%M}"
    with notes_lock(home):
        return append_to_day(home.saved_notes, day, _title(day), _section(project, f"saved {time}", clean))


def keep_found_text(home: Home, day: str, text: str) -> None:
    """Save text from a file of the daily log that is not part of the log, unless it is saved already.

    Call this with ``notes_lock`` held.
    """
    section = _section("", "found in the daily log", text)
    if not any(section.strip() in (read_text(path) or "") for path in files_of_day(home.saved_notes, day)):
        append_to_day(home.saved_notes, day, _title(day), section)


def _title(day: str) -> str:
    return f"Saved on {day}"


def _section(project: str, mark: str, text: str) -> str:
    heading = one_line(project, _PROJECT_CHARACTERS) or NO_PROJECT
    return f"## {heading}\n<!-- {mark} -->\n\n{nest_text(text)}\n"


# -- The daily log: what was asked, decided, changed and left open in each session, in one Markdown file per day.

#: Maximum length of an item in the log, in words and in characters.
MAX_LINE_WORDS = 24
MAX_LINE_CHARACTERS = 300
#: Maximum number of characters of a text that are read to make an item.
MAX_READ_CHARACTERS = 4_000

_DAY_FILE = lazy_regex(r"(\d{4}-\d\d-\d\d)(?:-\d+)?")
_MARK = lazy_regex(r"<!-- session \S+ -->")


def is_of_session(section: str) -> bool:
    return _MARK.search(section) is not None


#: Headings of the lists in a section, in order.
_LISTS = ("Asked:", "Decided:", "Changed:", "Committed:", "Left open:")


def log_session(store: Store, home: Home, session_id: str) -> list[Path]:
    """Write a session's sections to the logs of its days; return the files that changed.

    Each turn is logged on the day on which it began, in a section of its project. Sections are made from the stored
    turns, so writing them twice changes nothing. Notes that an earlier version saved in a log are moved to the saved
    notes.

    Raises:
        StoreError: the session can't be read.
        OSError: a file can't be written, and is unchanged.
    """
    session = find_session(store, session_id)
    if session is None:
        return []
    changed = []
    with notes_lock(home):
        of_projects = _sections(store, session)
        changed += _cut_left_over(home, session, of_projects)
        for key, sections in of_projects.items():
            days = (*_days_around(session), *sections)
            for path in _log_files(home, min(days), max(days)):
                changed += _update_file(home, path, f"<!-- session {key} -->", sections)
            for day in sorted(sections):
                changed.append(append_to_day(home.daily_notes, day, day, sections[day]))
    return list(dict.fromkeys(changed))


def move_saved_notes(home: Home) -> int:
    """Move notes that an earlier version saved in daily logs to the saved notes; return how many logs had some."""
    with notes_lock(home):
        return sum(bool(_update_file(home, path, "", {})) for path in _log_files(home))


def session_section(key: str, project: str, turns: Sequence[Turn], decided: Sequence[str] = ()) -> str:
    """Return a session's Markdown section: what was asked, decided, changed, committed and left open.

    Args:
        key: the session's id, or ``SESSION/NUMBER`` for its work in a project other than its own.
    """
    asked = [f"- {_short(turn.users_prompt)}" for turn in turns if turn.is_by_person]
    files = list(
        dict.fromkeys(f for turn in turns for a in turn.actions if a.is_edit and not a.is_error for f in a.files)
    )
    commits = [action.commit for turn in turns for action in turn.actions if action.commit]
    left = _left_open(turns)
    lines = [f"## {_short(project)}", f"<!-- session {key} -->"]
    if asked:
        lines += ["", "Asked:", *asked[-40:]]
    if decided:
        lines += ["", "Decided:", *[f"- {_short(decision)}" for decision in decided[-20:]]]
    if files:
        lines += ["", "Changed:", *[f"- `{_one_line(name)}`" for name in files[:30]]]
    if commits:
        lines += ["", "Committed:", *[f"- {_one_line(commit)}" for commit in commits[:20]]]
    if left:
        lines += ["", "Left open:", *[f"- {item}" for item in left]]
    return "\n".join(lines) + "\n"


def split_log(text: str) -> tuple[list[str], str]:
    """Split a log file into the parts to keep and the notes that were saved between them.

    The title and the user's text around the sections are parts to keep. Text after the lists of a section, or after the
    heading "Saved", was saved by an earlier version.
    """
    parts: list[str] = []
    saved: list[str] = []
    is_saved = False
    for part in cut_sections(text):
        lines = part.split("\n")
        if _mark_of(part):
            end = _end_of_section(lines)
            parts.append("\n".join(lines[:end]).rstrip() + "\n\n")
            rest = "\n".join(lines[end:]).strip("\n")
            is_saved = bool(rest)
            saved += [rest] if rest else []
        elif is_saved or lines[0] == "## Saved":
            saved.append("\n".join(lines[lines[0] == "## Saved" :]).strip("\n"))
            is_saved = True
        else:
            parts.append(part)
    return parts, "\n\n".join(saved).strip()


def _mark_of(part: str) -> str:
    """Return the comment below the heading of a log section; "" for other text."""
    lines = part.split("\n", 2)
    return lines[1] if len(lines) > 1 and _MARK.fullmatch(lines[1]) else ""


def _end_of_section(lines: Sequence[str]) -> int:
    """Return the index of the line at which a log section ends. What follows was saved by an earlier version."""
    expected = list(_LISTS)
    end = 2
    while end < len(lines):
        start = end
        while start < len(lines) and not lines[start].strip():
            start += 1
        if start == len(lines) or lines[start] not in expected:
            return end
        del expected[: expected.index(lines[start]) + 1]
        end = start + 1
        while end < len(lines) and lines[end].startswith("-"):
            end += 1
    return end


def _sections(store: Store, session: SessionRow) -> dict[str, dict[str, str]]:
    """Return key → day → section, for each project in which a session worked, its own project first."""
    turns: dict[int | None, dict[str, list[Turn]]] = {session.project_id: {}}
    at_ms = session.first_at_ms
    for stored in turns_of_session(store, session.id):
        at_ms = stored.turn.started_at_ms or at_ms
        turns.setdefault(stored.project_id, {}).setdefault(day_of(at_ms), []).append(stored.turn)
    sections = {}
    for project_id, days in turns.items():
        project = None if project_id is None else project_by_id(store, project_id)
        is_own = project_id == session.project_id
        key = session.session_id if is_own else f"{session.session_id}/{project_id or 0}"
        decided = _decided(store, session, project_id, days)
        sections[key] = {
            day: session_section(key, project.name if project else NO_PROJECT, said, decided.get(day, ()))
            for day, said in days.items()
            if any(turn.prompt for turn in said)
        }
    return sections


def _decided(
    store: Store, session: SessionRow, project_id: int | None, days: Mapping[str, Sequence[Turn]]
) -> dict[str, list[str]]:
    """Return day → summaries of the decisions that were made in a project during a session."""
    decided: dict[str, list[str]] = {}
    for memory in memories_of_session(store, session.session_id) if days else ():
        is_here = project_id in (memory.project_id, session.project_id if memory.scope == Scope.GLOBAL else 0)
        if memory.kind == Kind.DECISION and memory.is_current and not memory.suspect and is_here:
            day = day_of(memory.created_at_ms)
            decided.setdefault(day if day in days else max(days), []).append(memory.summary)
    return decided


def _days_around(session: SessionRow) -> tuple[str, str]:
    """Return the day before a session and the day after it, on which it may have been logged in another time zone."""
    return day_of(session.first_at_ms - DAY_MS), day_of(session.last_at_ms + DAY_MS)


def _log_files(home: Home, first: str = "", last: str = "~") -> list[Path]:
    named = sorted(path for path in home.daily_notes.glob("*.md") if _DAY_FILE.fullmatch(path.stem))
    return [path for path in named if first <= path.stem[:10] <= last]


def _update_file(home: Home, path: Path, mark: str, sections: dict[str, str]) -> list[Path]:
    """Replace the section with ``mark`` by the day's new section, which is removed from ``sections``."""
    text = read_text(path)
    if text is None:
        return []
    day = path.stem[:10]
    parts, saved = split_log(text)
    is_found = bool(mark) and any(_mark_of(part) == mark for part in parts)
    if not saved and not is_found:
        return []
    if saved:
        keep_found_text(home, day, saved)
    kept = [sections.pop(day, "") + "\n" if mark and _mark_of(part) == mark else part for part in parts]
    whole = "".join(part for part in kept if part.strip()).rstrip("\n") + "\n"
    if whole == text:
        return []
    write_text(path, whole)
    return [path]


def _cut_left_over(home: Home, session: SessionRow, keys: Collection[str]) -> list[Path]:
    """Remove the sections of projects in which a session no longer has turns."""
    begin = f"<!-- session {session.session_id}/"
    changed = []
    for path in _log_files(home, *_days_around(session)):
        text = read_text(path)
        if text is None or begin not in text:
            continue
        marks = {f"<!-- session {key} -->" for key in keys}
        parts = cut_sections(text)
        kept = [part for part in parts if not _mark_of(part).startswith(begin) or _mark_of(part) in marks]
        if len(kept) < len(parts):
            write_text(path, "".join(kept).rstrip("\n") + "\n")
            changed.append(path)
    return changed


def _left_open(turns: Sequence[Turn]) -> list[str]:
    """Describe commands that failed at their last run, and a last prompt that was interrupted or not answered."""
    last: dict[str, bool] = {}
    for turn in turns:
        for action in turn.actions:
            if action.command and action.is_error is not None:
                last[action.command] = action.is_error and not hides_status(action.command, has_failed=True)
    left = [f"{_code(command)} failed" for command, is_error in last.items() if is_error][-5:]
    closing = turns[-1]
    if closing.is_interrupted or (closing.is_by_person and not closing.reply):
        left.append(f"not finished: {_short(closing.users_prompt)}")
    return left


def _short(text: str) -> str:
    words = _one_line(text).split()
    return " ".join(words[:MAX_LINE_WORDS]) + ("…" if len(words) > MAX_LINE_WORDS else "")


def _code(command: str) -> str:
    """Return a command as code on one line, unchanged except that no HTML comment can begin in it.

    Line breaks become "⏎", since a here-document or a comment ends only at one. Lines that end in a backslash are not
    joined, because whether it continues the line depends on the quoting around it.
    """
    lines = redact(command.strip()[:MAX_READ_CHARACTERS]).replace("\r\n", "\n").split("\n")
    shown = " ⏎ ".join(map(visible, lines))
    words = shown.replace("<!--", "‹!--").split()
    text = cut_at_word(" ".join(words[:MAX_LINE_WORDS]), MAX_LINE_CHARACTERS)
    is_cut = len(words) > MAX_LINE_WORDS or len(command.strip()) > MAX_READ_CHARACTERS
    text += "…" if is_cut and not text.endswith("…") else ""
    marks = "`" * (max(map(len, re.findall("`+", text)), default=0) + 1)
    space = " " if "`" in text else ""
    return f"{marks}{space}{text}{space}{marks}"


def _one_line(text: str) -> str:
    """Return a text on one line without Markdown or comments, redacted again in case a rule is newer than the text."""
    line = re.sub(r"[`<>]+", " ", fence_safe(without_breaks(redact(text[:MAX_READ_CHARACTERS])))).strip()
    return cut_at_word(line, MAX_LINE_CHARACTERS)
