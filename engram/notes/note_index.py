"""Find the files that are notes, cut them by heading, and keep the index of them up to date."""

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
from engram.models.projects.notes import EVERYONE, NOBODY, NoteChunk, NoteRow, Owner
from engram.paths import Home
from engram.settings import Settings
from engram.system.atomic import read_regular
from engram.system.lazy_regex import lazy_regex

# -- Cut a Markdown text into chunks, one per heading; cut long ones at paragraphs. Pure.

#: A chunk grows to about this many words before it is cut at a paragraph.
CHUNK_WORDS = 120

_HEADING = lazy_regex(r"(#{1,6})\s+(.*?)\s*#*\s*")
#: What Engram writes below the heading of a section; it says whose the section is and is nothing to search for.
_SECTION_MARK = lazy_regex(r"<!-- (?:session|saved|found) .*-->")
_FENCE = lazy_regex(r"\s*(```|~~~)")
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


# -- The owner of each line of a note: a session, the project of a saved note, a memory, or everyone. Pure.

#: Folders that only Engram writes: the project of text without a mark there is unknown.
OWN_FOLDERS = ("daily/", "saved/")
#: What the names of the earlier Engram's notes begin with.
EARLIER_PREFIX = "earlier/"
#: The one of them that was written for every project; of the others each section belongs to the project in its heading.
_EARLIER_MEMORY = f"{EARLIER_PREFIX}MEMORY.md"

_OWNED_HEADING = lazy_regex(r"##?\s+(.*?)\s*")
_OWNED_FENCE = lazy_regex(r"\s*(?:```|~~~)")
_SESSION_MARK = lazy_regex(r"<!-- session (\S{1,200}) -->")
_SAVED_MARK = lazy_regex(r"<!-- saved \d\d:\d\d -->")
#: What Engram itself writes at the top of MEMORY.md.
ABOUT_THIS_FILE = "Kept by Engram. Edit freely; sections in excess move to archive/."
#: Files that hold graduated memories, and the heading of those of one project.
_GRADUATED = ("MEMORY.md", "archive/")
_MONTH_OF_PROJECT = lazy_regex(r"\d{4}-\d\d, (.+)")
_MEMORY_MARK = lazy_regex(r"<!-- (ep_[0-9a-f]{12}) -->\s*$")


def owners_of_lines(source: str, lines: Sequence[str]) -> list[Owner]:
    """Return the owner of each line of a note.

    A section extends from a heading of the first or second level to the next one outside code. The comment on the line
    after the heading names its owner: ``session ID``, or ``saved TIME``, where the heading is the project's name. In
    MEMORY.md the heading ``YYYY-MM, NAME`` does, and Engram's own remark at the top is nobody's. In the daily notes of
    the earlier Engram the heading that is a project's name does. A line that ends in a memory's comment belongs to
    that memory.

    Args:
        source: the note's name, which decides about sections without a comment.
        lines: the note's lines.
    """
    is_log = source.startswith(EARLIER_PREFIX) and source != _EARLIER_MEMORY
    unmarked = NOBODY if is_log or source.startswith(OWN_FOLDERS) else EVERYONE
    owners: list[Owner] = []
    current, in_fence = unmarked, False
    for line, following in zip(lines, [*lines[1:], ""], strict=False):
        if _OWNED_FENCE.match(line):
            in_fence = not in_fence
        heading = None if in_fence else _OWNED_HEADING.fullmatch(line)
        if heading:
            month = _MONTH_OF_PROJECT.fullmatch(heading[1]) if source.startswith(_GRADUATED) else None
            named = month[1] if month else heading[1] if is_log else ""
            current = Owner("project", named) if named else _owner_of_section(heading[1], following) or unmarked
        memory = _MEMORY_MARK.search(line)
        own = NOBODY if line.strip() == ABOUT_THIS_FILE else current
        owners.append(Owner("memory", memory[1]) if memory else own)
    return owners


def _owner_of_section(heading: str, mark: str) -> Owner | None:
    if session := _SESSION_MARK.fullmatch(mark):
        # ``SESSION/NUMBER``: its work in a project other than its own, which the heading names.
        return Owner("project", heading) if "/" in session[1] else Owner("session", session[1])
    return Owner("project", heading) if _SAVED_MARK.fullmatch(mark) else None


# -- Notes of the earlier Engram: Markdown files in the memory folder itself.

_DAY = lazy_regex(r"\d{4}-\d\d(?:-\d\d)?.*")
#: Folders of its notes.
_FOLDERS = ("daily", "archive")


def earlier_notes(folder: Path) -> Iterator[Path]:
    """Yield the notes in a memory folder itself: MEMORY.md, dated files, and those of ``daily``, ``archive``.

    Links are none.
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


# -- Find the files that are notes, and name them. Nothing outside the folders of notes is ever opened.

#: A note larger than this, in bytes, is truncated when it is read.
MAX_NOTE_BYTES = 2_000_000
#: Maximum number of notes in one folder; the rest is omitted.
MAX_NOTES = 5000


def note_folders(settings: Settings) -> list[tuple[str, Path]]:
    """Return ``(prefix of the names, folder)`` of the memory folder's notes and of the folders that the user names."""
    folders = [("", settings.places.notes)]
    # Names of Engram's own folders: a folder of the user's must not be taken for one of them.
    taken = {"", "daily/", "saved/", "archive/", EARLIER_PREFIX}
    for named in settings.note_folders:
        folder = Path(named).expanduser()
        prefix, number = folder.name or "notes", 1
        while f"{prefix}/" in taken:
            number += 1
            prefix = f"{folder.name}-{number}"
        taken.add(f"{prefix}/")
        folders.append((f"{prefix}/", folder))
    return folders


def find_notes(settings: Settings) -> Iterator[tuple[str, Path]]:
    """Yield ``(source name, path)`` of every Markdown file in the folders of notes; links are not followed.

    The notes of the earlier Engram, which are in the memory folder itself, are read where they are.
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
    """Return the name of a note in the memory folder."""
    if path.is_relative_to(places.notes):
        return path.relative_to(places.notes).as_posix()
    return EARLIER_PREFIX + path.relative_to(places.root).as_posix()


def read_note(path: Path) -> str | None:
    """Return a note's text; None if the file is gone, a link or not a regular file."""
    data = read_regular(path, MAX_NOTE_BYTES)
    return None if data is None else data.decode("utf-8", "replace").lstrip("\ufeff")


# -- Keep the index of notes up to date: find new, changed and vanished notes by size, time and digest.

#: Most lines that ``read_lines`` returns.
MAX_LINES = 400

Redact = Callable[[str], str]


@dataclass(frozen=True, slots=True)
class IndexReport:
    """How many notes were indexed and removed."""

    notes: int
    changed: int
    removed: int


def index_notes(store: Store, settings: Settings, redact: Redact) -> IndexReport:
    """Update the index from the files; unchanged notes cost one ``stat`` each."""
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
    """Return lines of a note, redacted.

    Args:
        store: the open memory.
        settings: they name the folders of notes.
        redact: removes secrets.
        source: a name that search printed; never a path.
        start: first line, from 1; by default, the note from its beginning.
        lines: how many, at most 400.
        project_id: omit the lines that this project may not see; None omits nothing.

    Raises:
        NotFound: there is no note with that name.
        BadRequest: ``start`` or ``lines`` is below 1.
    """
    first, count = 1 if start is None else start, MAX_LINES if lines is None else lines
    if first < 1 or count < 1:
        raise BadRequest("start and lines are numbers from 1")
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
