"""What a forget does to files in the memory folder: recollections, notes, exports, backups and set-aside databases."""

from __future__ import annotations

import contextlib
import json
import logging
from collections.abc import Callable, Collection, Iterable, Sequence
from pathlib import Path

from engram.atomic import read_regular, read_whole, write_atomic
from engram.errors import EngramError
from engram.models import forgetting
from engram.models.backup import drop_database
from engram.models.copies import clean_copy
from engram.models.set_aside import set_aside_files
from engram.models.tombstones import Forgotten
from engram.models.transaction import Tx
from engram.notes.day_files import cut_sections, notes_lock, write_text
from engram.paths import Home
from engram.redaction.display import fence_safe

logger = logging.getLogger(__name__)

#: A note or export larger than this is neither searched nor rewritten, in bytes.
_MAX_FILE_BYTES = 200_000_000
#: Shortest text that is looked for in notes, in characters: shorter ones stand there by chance.
_MIN_TEXT_CHARACTERS = 24
#: So much of a line is looked for, in characters: notes and bites hold the beginning of a long one.
_MAX_TOLD = 60


def told_lines(texts: Sequence[str]) -> list[str]:
    """How the lines of the forgotten texts begin, where they are long enough to be theirs alone.

    Look for them in lines as ``plain_line`` gives them.
    """
    found = {plain_line(line)[:_MAX_TOLD] for text in texts for line in text.splitlines()}
    return sorted(line for line in found if len(line) >= _MIN_TEXT_CHARACTERS)


def plain_line(text: str) -> str:
    """A text as it stands in a line of a note: without breaks and hidden characters."""
    return " ".join(fence_safe(text).split())


def clean_recollections(places: Home, is_kept: Callable[[str], bool], sessions: Collection[str] = ()) -> list[str]:
    """Remove recollection files of some sessions, and those whose text is not kept; the worker makes them anew."""
    removed = []
    for path in _files(places.recollections, ("*",)):
        data = (read_regular(path, _MAX_FILE_BYTES) or b"").decode("utf-8", "replace")
        if path.stem in sessions or not all(map(is_kept, [data, *forgetting.texts_in_json(data)])):
            with contextlib.suppress(OSError):
                path.unlink()
                removed.append(path.name)
    return removed


def cut_daily_log(places: Home, sessions: Sequence[str]) -> list[Path]:
    """Take the sections of the sessions out of the daily log; they are written anew from the turns that are left."""
    marks = [f"<!-- session {session} -->" for session in sessions]
    return rewrite_notes(
        places,
        _files(places.daily_notes, ("*.md",)),
        lambda _, text: "".join(part for part in cut_sections(text) if not any(mark in part for mark in marks)),
    )


def clean_lines(places: Home, is_kept: Callable[[str], bool]) -> list[Path]:
    """Take the lines out of notes that name one of the memories or say the same."""
    return rewrite_notes(
        places, all_notes(places), lambda _, text: "".join(filter(is_kept, text.splitlines(keepends=True)))
    )


def rewrite_notes(places: Home, paths: Iterable[Path], change: Callable[[Path, str], str]) -> list[Path]:
    """Change notes under the lock of their folder; bytes that are not UTF-8 stay. Returns the files that changed."""
    changed = []
    with notes_lock(places):
        for path in paths:
            text = (read_whole(path, _MAX_FILE_BYTES) or b"").decode("utf-8", "surrogateescape")
            after = change(path, text)
            if after != text:
                write_text(path, after)
                changed.append(path)
    return changed


def clean_exports(places: Home, ids: Collection[str], forgotten: Forgotten | None = None) -> list[str]:
    """Take memories out of exports (JSON lines) that lie in the memory folder, and their words out of another one."""
    changed = []
    for path in _files(places.root, ("*.jsonl", "*/*.jsonl")):
        data = read_whole(path, _MAX_FILE_BYTES) or b""
        lines = data.decode("utf-8", "surrogateescape").splitlines(keepends=True)
        kept = [_cut_line(line, forgotten) for line in lines if not _is_about(line, ids)]
        if kept != lines:
            write_atomic(path, "".join(kept).encode("utf-8", "surrogateescape"))
            changed.append(path.name)
    return changed


def _is_about(line: str, ids: Collection[str]) -> bool:
    if not any(one in line for one in ids):
        return False
    with contextlib.suppress(ValueError, RecursionError):
        found = json.loads(line)
        return not isinstance(found, dict) or "id" not in found or str(found["id"]) in ids
    return True


def _cut_line(line: str, forgotten: Forgotten | None) -> str:
    """The line of a memory that had taken up the words of a forgotten one, without them; any other as it is."""
    cut = forgotten.cut if forgotten else None
    if forgotten is None or cut is None or cut.episode_id not in line:
        return line
    with contextlib.suppress(ValueError, RecursionError):
        found = json.loads(line)
        if isinstance(found, dict) and found.get("id") == cut.episode_id:
            found |= {"summary": cut.summary, "content": cut.content, "entities": list(cut.entities)}
            found["evidence"] = [uuid for uuid in found.get("evidence") or [] if uuid not in forgotten.erased]
            return json.dumps(found, ensure_ascii=False) + "\n"
    return line


def all_notes(places: Home) -> list[Path]:
    """Every note of the memory folder."""
    return _files(places.notes, ("**/*.md",))


def clean_copies(places: Home, driver: str, clean: Callable[[Tx], int]) -> tuple[int, int]:
    """Clean every backup and set-aside memory; a damaged one is deleted. (cleaned, deleted)

    Args:
        places: the memory folder.
        driver: of SQLite.
        clean: deletes rows of an open copy, in a transaction; returns how many.
    """
    cleaned = dropped = 0
    for path in [*_files(places.backups, ("*.db", "*.sqlite")), *set_aside_files(places.root, driver)]:
        try:
            cleaned += bool(clean_copy(path, driver, clean))
        except EngramError as error:
            logger.warning("action=forget copy=%s reason=%s", path.name, error)
            drop_database(path)
            dropped += 1
    return cleaned, dropped


def _files(folder: Path, patterns: Sequence[str]) -> list[Path]:
    return sorted({p for pattern in patterns for p in folder.glob(pattern) if p.is_file() and not p.is_symlink()})
