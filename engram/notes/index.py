"""Keep the index of notes up to date: find new, changed and vanished notes by size, time and digest."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from engram.errors import BadRequest, NotFound
from engram.models import notes as rows
from engram.models.notes import NoteRow
from engram.models.store import Store
from engram.notes.chunk import cut_markdown
from engram.notes.owner import owners_of_lines
from engram.notes.places import find_notes, read_note
from engram.settings import Settings

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
        start: first line, from 1; the whole note from its beginning by default.
        lines: how many, at most 400.
        project_id: omit the lines that this project may not see; None omits nothing.

    Raises:
        NotFound: no note has that name.
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
