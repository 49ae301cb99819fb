"""Find the notes, split them by heading, and keep their index up to date."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from engram.errors import BadRequest, NotFound
from engram.models.engine.transaction import Store
from engram.models.projects import notes as rows
from engram.models.projects.notes import EVERYONE, HEADING_SEPARATOR, NOBODY, NoteChunk, NoteRow, Owner
from engram.paths import Home
from engram.settings import Settings
from engram.system.atomic import read_regular
from engram.system.lazy_regex import lazy_regex

# -- Split Markdown text into chunks: at headings, and long ones at paragraphs.

#: Number of words after which a chunk is split at the next paragraph.
CHUNK_WORDS = 120

_HEADING = lazy_regex(r"(#{1,6})\s+(.*?)\s*#*\s*")
#: The comment below a heading that identifies the section's owner. It is not indexed.
_SECTION_MARK = lazy_regex(r"<!-- (?:session|saved|found) .*-->")
_FENCE = lazy_regex(r"\s*(```|~~~)")


def cut_markdown(text: str, words: int = CHUNK_WORDS, owners: Sequence[Owner] = ()) -> list[NoteChunk]:
    """Return the chunks of a Markdown text in order. A chunk's heading is the path of all headings above it.

    ``owners`` lists the owner of each line; a chunk has only one owner. If it is empty, all chunks belong to everyone.
    """
    chunks: list[NoteChunk] = []
    path: list[tuple[int, str]] = []
    lines: list[str] = []
    start, in_fence, owner = 1, False, EVERYONE

    def close(stop: int) -> None:
        body = "\n".join(lines).strip()
        if body:
            heading = HEADING_SEPARATOR.join(title for _, title in path)
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


def nest_text(text: str) -> str:
    """Return a text for use within a section, with headings two levels deeper and an open code fence closed."""
    lines: list[str] = []
    fence = ""
    for line in text.splitlines():
        if match := _FENCE.match(line):
            fence = "" if fence else match.group(1)
        is_heading = not fence and _HEADING.fullmatch(line) is not None
        lines.append(f"##{line}" if is_heading else line)
    return "\n".join([*lines, fence] if fence else lines)


# -- Determine the owner of each line of a note: a session, the project of a saved note, a memory, or everyone.

#: Folders to which only Engram writes. Text in them without an owner's comment has no owner.
OWN_FOLDERS = ("daily/", "saved/")
#: Prefix of the names of the earlier Engram's notes.
EARLIER_PREFIX = "earlier/"
#: The one of these notes that applies to every project. In the others, each section belongs to the project in its
#: heading.
_EARLIER_MEMORY = f"{EARLIER_PREFIX}MEMORY.md"

_OWNED_HEADING = lazy_regex(r"##?\s+(.*?)\s*")
_SESSION_MARK = lazy_regex(r"<!-- session (\S{1,200}) -->")
_SAVED_MARK = lazy_regex(r"<!-- saved \d\d:\d\d -->")
#: Engram's own remark at the top of MEMORY.md.
ABOUT_THIS_FILE = "Kept by Engram. Edit freely; sections in excess move to archive/."
#: Files with graduated memories, and the form of the heading of a project's memories in them.
_GRADUATED = ("MEMORY.md", "archive/")
_MONTH_OF_PROJECT = lazy_regex(r"\d{4}-\d\d, (.+)")
#: The comment at the end of a graduated memory's line.
MEMORY_MARK = lazy_regex(r"<!-- (ep_[0-9a-f]{12}) -->\s*$")


def owners_of_lines(source: str, lines: Sequence[str]) -> list[Owner]:
    """Return the owner of each line of a note.

    A section extends from a first- or second-level heading to the next one outside code. The comment on the line after
    the heading gives its owner: ``session ID``, or ``saved TIME`` for the project named in the heading. In MEMORY.md,
    the heading ``YYYY-MM, NAME`` names the project, and Engram's own remark at the top has no owner. In the earlier
    Engram's daily notes, each heading is a project's name. A line that ends with a memory's comment belongs to that
    memory, unless its section has an owner's comment.

    Args:
        source: the note's name, which determines the owner of sections without a comment.
    """
    is_log = source.startswith(EARLIER_PREFIX) and source != _EARLIER_MEMORY
    unmarked = NOBODY if is_log or source.startswith(OWN_FOLDERS) else EVERYONE
    owners: list[Owner] = []
    current, in_fence = unmarked, False
    for line, following in zip(lines, [*lines[1:], ""], strict=False):
        if _FENCE.match(line):
            in_fence = not in_fence
        heading = None if in_fence else _OWNED_HEADING.fullmatch(line)
        if heading:
            month = _MONTH_OF_PROJECT.fullmatch(heading[1]) if source.startswith(_GRADUATED) else None
            named = month[1] if month else heading[1] if is_log else ""
            current = Owner("project", named) if named else _owner_of_section(heading[1], following) or unmarked
        # In a section of a session or of saved text, such a comment is part of what somebody wrote, which must not
        # choose who sees it.
        is_of_memory = current == unmarked or source.startswith(_GRADUATED)
        memory = MEMORY_MARK.search(line) if is_of_memory else None
        own = NOBODY if line.strip() == ABOUT_THIS_FILE else current
        owners.append(Owner("memory", memory[1]) if memory else own)
    return owners


def _owner_of_section(heading: str, mark: str) -> Owner | None:
    if session := _SESSION_MARK.fullmatch(mark):
        # ``SESSION/NUMBER``: the session's work in another project, which the heading names.
        return Owner("project", heading) if "/" in session[1] else Owner("session", session[1])
    return Owner("project", heading) if _SAVED_MARK.fullmatch(mark) else None


# -- Notes of the earlier Engram, which are directly in the memory folder.

_DAY = lazy_regex(r"\d{4}-\d\d(?:-\d\d)?.*")
#: Folders with notes of the earlier Engram.
_FOLDERS = ("daily", "archive")


def earlier_notes(folder: Path) -> Iterator[Path]:
    """Yield the earlier Engram's notes: MEMORY.md, dated files, and files in ``daily`` and ``archive``.

    Symbolic links are left out.
    """
    for path in sorted(folder.glob("*.md")):
        if (path.name == "MEMORY.md" or _DAY.fullmatch(path.stem)) and _is_note(path):
            yield path
    for name in _FOLDERS:
        inner = folder / name
        if inner.is_dir() and not inner.is_symlink():
            yield from (path for path in sorted(inner.rglob("*.md")) if _is_note(path))


def _is_note(path: Path) -> bool:
    return path.is_file() and not path.is_symlink() and not path.name.startswith(".")


# -- Find and name the notes. No file outside the note folders is ever opened.

#: Number of bytes at the beginning of a note that are read.
MAX_NOTE_BYTES = 2_000_000
#: Maximum number of notes in one folder; the others are left out.
MAX_NOTES = 5000


def note_folders(settings: Settings) -> list[tuple[str, Path]]:
    """Return ``(name prefix, folder)`` for the memory folder's notes and for the user's note folders."""
    folders = [("", settings.places.notes)]
    # The prefixes of Engram's own folders are reserved, so that a user's folder is not confused with one of them.
    taken = {"", "daily/", "saved/", "archive/", EARLIER_PREFIX}
    for named in settings.note_folders:
        folder = Path(os.path.expanduser(named))
        prefix, number = folder.name or "notes", 1
        while f"{prefix}/" in taken:
            number += 1
            prefix = f"{folder.name}-{number}"
        taken.add(f"{prefix}/")
        folders.append((f"{prefix}/", folder))
    return folders


def find_notes(settings: Settings) -> Iterator[tuple[str, Path]]:
    """Yield ``(source name, path)`` for every Markdown file in the note folders. Symbolic links are not followed.

    The earlier Engram's notes are included.
    """
    for path in islice(earlier_notes(settings.home), MAX_NOTES):
        yield source_name(settings.places, path), path
    for prefix, folder in note_folders(settings):
        count = 0
        for parent, folders, files in os.walk(folder, followlinks=False):
            folders[:] = sorted(name for name in folders if not name.startswith("."))
            for name in sorted(files):
                path = Path(parent) / name
                if name.lower().endswith((".md", ".markdown")) and not name.startswith(".") and not path.is_symlink():
                    count += 1
                    if count <= MAX_NOTES:
                        yield prefix + path.relative_to(folder).as_posix(), path


def source_name(places: Home, path: Path) -> str:
    if path.is_relative_to(places.notes):
        return path.relative_to(places.notes).as_posix()
    return EARLIER_PREFIX + path.relative_to(places.root).as_posix()


def read_note(path: Path) -> str | None:
    """Return a note's text; None if the file is missing, a symbolic link or not a regular file."""
    data = read_regular(path, MAX_NOTE_BYTES)
    return None if data is None else data.decode("utf-8", "replace").lstrip("\ufeff")


# -- Keep the index of notes up to date.

#: Maximum number of lines that ``read_lines`` returns.
MAX_LINES = 400

Redact = Callable[[str], str]


@dataclass(frozen=True, slots=True)
class IndexReport:
    """Numbers of notes in total, newly indexed and removed."""

    notes: int
    changed: int
    removed: int


def index_notes(store: Store, settings: Settings, redact: Redact) -> IndexReport:
    """Update the index from the files. A note with an unchanged size and modification time is not read."""
    known = {note.source: note for note in rows.list_notes(store)}
    changed = total = 0
    seen = set()
    for source, path in find_notes(settings):
        seen.add(source)
        total += 1
        changed += _index_one(store, source, path, known.get(source), redact)
    gone = set(known) - seen
    with store.transaction() as tx:
        for source in gone:
            rows.drop_note(tx, source)
    return IndexReport(total, changed, len(gone))


def _index_one(store: Store, source: str, path: Path, known: NoteRow | None, redact: Redact) -> bool:
    try:
        facts = path.stat(follow_symlinks=False)
    except OSError:
        return False
    if known and (known.size, known.changed_at_ns, known.path) == (facts.st_size, facts.st_mtime_ns, str(path)):
        return False
    text = read_note(path)
    if text is None:
        return False
    digest = hashlib.sha256(text.encode()).digest()
    note = NoteRow(0, source, str(path), facts.st_size, facts.st_mtime_ns, digest)
    with store.transaction() as tx:
        clean = redact(text)
        rows.put_note(tx, note, cut_markdown(clean, owners=owners_of_lines(source, clean.splitlines())))
    return True


def read_lines(
    store: Store,
    settings: Settings,
    redact: Redact,
    source: str,
    start: int | None = None,
    lines: int | None = None,
    *,
    project_id: int | None = None,
) -> str:
    """Return redacted lines of a note.

    Args:
        source: the note's name as printed by a search; not a path.
        start: number of the first line, from 1; None for 1.
        lines: number of lines; at most ``MAX_LINES``, which is also the default.
        project_id: leave out lines that this project may not see; None to leave nothing out.

    Raises:
        NotFound: there is no note with that name.
        BadRequest: ``start`` or ``lines`` is below 1.
    """
    first, count = 1 if start is None else start, MAX_LINES if lines is None else lines
    if first < 1 or count < 1:
        raise BadRequest("start and lines must be at least 1")
    path = dict(find_notes(settings)).get(source)
    text = None if path is None else read_note(path)
    if text is None:
        raise NotFound(f"there is no note {source[:80]!r}; memory_search prints the names of notes as their source")
    whole = redact(text).splitlines()
    chosen = slice(first - 1, first - 1 + min(count, MAX_LINES))
    if project_id is None:
        return "\n".join(whole[chosen])
    owners = owners_of_lines(source, whole)[chosen]
    seen = {owner for owner in set(owners) if rows.is_seen_by(store, owner, project_id)}
    return "\n".join(line for line, owner in zip(whole[chosen], owners, strict=True) if owner in seen)
