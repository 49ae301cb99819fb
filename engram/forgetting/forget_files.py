"""Remove forgotten memories from recollections, notes, exports, backups and other databases in the memory folder."""

from __future__ import annotations

import contextlib
import json
import logging
import re
from collections.abc import Callable, Collection, Iterable, Sequence
from pathlib import Path
from typing import Any

from engram.errors import DiskFull, EngramError
from engram.models.engine.transaction import Tx
from engram.models.forgetting import forget_memories
from engram.models.memories.tombstones import Forgotten
from engram.models.rescue.backup import drop_database
from engram.models.rescue.clean_copies import clean_copy
from engram.models.rescue.restore import foreign_files, logs_without_database, set_aside_files
from engram.notes.daily_log import cut_sections, is_of_session, notes_lock, write_text
from engram.notes.note_index import earlier_notes
from engram.paths import Home
from engram.system.atomic import read_regular, read_whole, write_atomic
from engram.system.lazy_regex import lazy_regex
from engram.trust.display import fence_safe

logger = logging.getLogger(__name__)

#: Suffix of recollection files that list failed programs.
FAILURES_SUFFIX = ".failures"
#: The first bytes of every file of a Markdown export.
MARKDOWN_EXPORT = b"---\nengram: 1\n"
#: The line with the memory's id in a Markdown export; the file's name may have been changed.
_MARKDOWN_ID = lazy_regex(r'^id: "([^"\n]*)"', re.MULTILINE)
#: The first bytes of a JSON Lines export.
_JSON_EXPORT = b'{"id": "ep_'
#: Maximum size of a note, Markdown export file or recollection that is searched and rewritten, in bytes.
_MAX_FILE_BYTES = 200_000_000
#: Number of bytes of another program's database that are searched at a time.
_PART_BYTES = 4_000_000
#: Minimum length of a text that is searched for in notes, in characters; a shorter text may occur by chance.
_MIN_TEXT_CHARACTERS = 24
#: Number of characters of a line that are searched for, because notes and bites truncate long lines.
_MAX_LINE_CHARACTERS = 60


def line_beginnings(texts: Sequence[str]) -> list[str]:
    """Return the distinct beginnings of the lines of forgotten texts, in the form of ``plain_line``."""
    beginnings = {plain_line(line)[:_MAX_LINE_CHARACTERS] for text in texts for line in text.splitlines()}
    return sorted(line for line in beginnings if len(line) >= _MIN_TEXT_CHARACTERS)


def plain_line(text: str) -> str:
    """Return a text as it appears in a line of a note: without line breaks and hidden characters."""
    return " ".join(fence_safe(text).split())


def clean_recollections(
    places: Home, is_kept: Callable[[str], bool], sessions: Collection[str] = (), *, is_dry: bool = False
) -> list[str]:
    """Remove recollection files of some sessions, and those with text that must be deleted; return their names.

    Lists of failed programs are also removed, but not returned, because the worker creates new ones. With ``is_dry``,
    in this function and those below, nothing is changed; the return value is the same.
    """
    removed = []
    for path in _files(places.recollections, ("*",)):
        data = (read_regular(path, _MAX_FILE_BYTES) or b"").decode("utf-8", "replace")
        must_go = path.stem in sessions or not all(map(is_kept, [data, *forget_memories.texts_in_json(data)]))
        if must_go or path.suffix == FAILURES_SUFFIX:
            with contextlib.suppress(OSError):
                if not is_dry:
                    path.unlink()
                removed += [path.name] if must_go else []
    return removed


def cut_daily_log(places: Home, sessions: Sequence[str], *, is_dry: bool = False) -> list[Path]:
    """Remove the sections of sessions from the daily log. They are written again from the remaining turns."""
    marks = [f"<!-- session {session}{end}" for session in sessions for end in (" -->", "/")]
    return rewrite_notes(
        places,
        _files(places.daily_notes, ("*.md",)),
        lambda _, text: "".join(part for part in cut_sections(text) if not any(mark in part for mark in marks)),
        is_dry=is_dry,
    )


def clean_lines(
    places: Home, is_kept: Callable[[str], bool], is_kept_in_session: Callable[[str], bool], *, is_dry: bool = False
) -> list[Path]:
    """Remove lines from notes that refer to or repeat a forgotten memory.

    A session's section of the daily log repeats its stored turns, and is rewritten if forgetting changes them.
    Therefore, the same words are kept if they were said in another session.

    Args:
        is_kept_in_session: like ``is_kept``, for the lines of a session's section.
    """
    return rewrite_notes(
        places,
        all_notes(places),
        lambda _, text: "".join(
            line
            for part in cut_sections(text)
            for line in part.splitlines(keepends=True)
            if (is_kept_in_session if is_of_session(part) else is_kept)(line)
        ),
        is_dry=is_dry,
    )


def rewrite_notes(
    places: Home, paths: Iterable[Path], change: Callable[[Path, str], str], *, is_dry: bool = False
) -> list[Path]:
    """Rewrite notes under their folder's lock, preserving invalid UTF-8; return the changed files."""
    changed = []
    with notes_lock(places):
        for path in paths:
            text = (read_whole(path, _MAX_FILE_BYTES) or b"").decode("utf-8", "surrogateescape")
            after = change(path, text)
            if after != text:
                if not is_dry:
                    write_text(path, after)
                changed.append(path)
    return changed


def clean_exports(
    places: Home,
    ids: Collection[str],
    forgotten: Forgotten | None = None,
    is_kept: Callable[[str], bool] = lambda text: True,
    *,
    is_dry: bool = False,
) -> list[str]:
    """Remove memories, and their words in other memories, from the exports in the memory folder.

    From a JSON Lines export, the memory's line is removed; from a Markdown export, its file and files that quote it.

    Args:
        is_kept: returns False for text that quotes the memories.
    """
    changed = _clean_markdown_exports(places, ids, is_kept, is_dry=is_dry)
    for path in _files(places.root, ("**/*",)):
        if path.suffix.partition("-")[0] == places.memory_db.suffix:
            continue  # This process may have it open, and closing the file would drop all of SQLite's locks on it.
        # An export can have any name and be in any folder.
        if path.suffix != ".jsonl" and read_regular(path, len(_JSON_EXPORT)) != _JSON_EXPORT:
            continue

        def cleaned(line: bytes) -> bytes:
            text = line.decode("utf-8", "surrogateescape")
            kept = "" if _is_about(text, ids) else _cut_line(_cut_history(text, is_kept), forgotten)
            return kept.encode("utf-8", "surrogateescape")

        # Read line by line, because an export can be of any size, and as bytes, because reading text would also split
        # lines at U+2028, which a memory may contain.
        try:
            export = path.open("rb")
        except OSError:
            continue
        with export as file:
            if all(line == cleaned(line) for line in file):
                continue
            if not is_dry:
                file.seek(0)
                write_atomic(path, map(cleaned, file))
        changed.append(path.name)
    return changed


def _clean_markdown_exports(
    places: Home, ids: Collection[str], is_kept: Callable[[str], bool], *, is_dry: bool
) -> list[str]:
    changed = []
    notes = places.notes
    for path in _files(places.root, ("**/*.md",)):
        if notes in path.parents or (read_regular(path, len(MARKDOWN_EXPORT)) or b"") != MARKDOWN_EXPORT:
            continue
        text = (read_whole(path, _MAX_FILE_BYTES) or b"").decode("utf-8", "surrogateescape")
        about = _MARKDOWN_ID.search(text)
        if (about and about[1] in ids) or not is_kept(text):
            if not is_dry:
                path.unlink()
            changed.append(path.name)
    return changed


def _cut_history(line: str, is_kept: Callable[[str], bool]) -> str:
    """Return a memory's line without the steps of its history that quote forgotten words."""
    memory = None if '"history"' not in line or is_kept(line) else _memory_in(line)
    if memory is None or not isinstance(memory.get("history"), list):
        return line
    memory["history"] = [
        step for step in memory["history"] if all(map(is_kept, forget_memories.texts_in_json(json.dumps(step))))
    ]
    return json.dumps(memory, ensure_ascii=False) + "\n"


def _memory_in(line: str) -> dict[str, Any] | None:
    """Return the JSON object in a line of an export; None if the line is anything else."""
    with contextlib.suppress(ValueError, RecursionError):
        memory = json.loads(line)
        return memory if isinstance(memory, dict) else None
    return None


def copies_of_memory(places: Home, driver: str) -> list[Path]:
    """Return every backup and every database that has been set aside."""
    return [*_files(places.backups, ("*.db", "*.sqlite")), *set_aside_files(places.root, driver)]


def foreign_files_with(places: Home, driver: str, beginnings: Sequence[str]) -> list[str]:
    """Return the names of other programs' databases in the memory folder that contain a forgotten line.

    Only the bytes are searched: a line in another encoding, or one that is split at the end of a page, is not found.

    Args:
        beginnings: from ``line_beginnings``.
    """
    if not beginnings:
        return []
    pattern = lazy_regex(b"|".join(re.escape(line.encode("utf-8", "surrogateescape")) for line in beginnings))
    found = []
    for path in foreign_files(places.root, driver):
        if any(_has_match(part, pattern) for part in (path, path.with_name(f"{path.name}-wal"))):
            found.append(path.name)
    return found


def _has_match(path: Path, pattern: re.Pattern[bytes]) -> bool:
    """Return True if a file contains the pattern, which matches at most ``_MAX_LINE_CHARACTERS`` characters."""
    with contextlib.suppress(OSError), path.open("rb") as file:
        rest = b""
        while part := file.read(_PART_BYTES):
            if pattern.search(rest + part):
                return True
            rest = part[-4 * _MAX_LINE_CHARACTERS :]
    return False


def _is_about(line: str, ids: Collection[str]) -> bool:
    if not any(episode_id in line for episode_id in ids):
        return False
    memory = _memory_in(line)
    return memory is None or "id" not in memory or str(memory["id"]) in ids


def _cut_line(line: str, forgotten: Forgotten | None) -> str:
    """Return a memory's line without the words of a forgotten memory merged into it; any other line unchanged."""
    cut = forgotten.cut if forgotten else None
    if forgotten is None or cut is None or cut.episode_id not in line:
        return line
    memory = _memory_in(line)
    if memory is None or memory.get("id") != cut.episode_id:
        return line
    memory |= {"summary": cut.summary, "content": cut.content, "entities": list(cut.entities)}
    memory |= {name: empty for name, empty in (("questions", []), ("title", "")) if name in memory}
    memory["evidence"] = [uuid for uuid in memory.get("evidence") or [] if uuid not in forgotten.erased]
    if "rests_on" in memory:
        memory["rests_on"] = [entry for entry in memory["rests_on"] if entry.get("uuid") not in forgotten.erased]
    if "history" in memory:
        # The history quotes the previous text, so it is deleted, as in the database.
        memory["history"] = []
    return json.dumps(memory, ensure_ascii=False) + "\n"


def all_notes(places: Home) -> list[Path]:
    """Return every note in the memory folder, including those of the earlier Engram."""
    return [*_files(places.notes, ("**/*.md",)), *earlier_notes(places.root)]


def clean_copies(places: Home, driver: str, clean: Callable[[Tx], int]) -> tuple[int, int]:
    """Clean every backup and set-aside database; return how many were cleaned, and how many were deleted as damaged.

    Args:
        clean: deletes rows from an open copy, in a transaction, and returns how many it deleted.

    Raises:
        DiskFull: there is no room to clean a copy; it is kept.
    """
    cleaned = dropped = 0
    for path in copies_of_memory(places, driver):
        try:
            cleaned += bool(clean_copy(path, driver, clean))
        except DiskFull:
            raise
        except EngramError as error:
            logger.warning("action=forget copy=%s reason=%s", path.name, error)
            drop_database(path)
            dropped += 1
    for log in logs_without_database(places.root):
        log.unlink(missing_ok=True)  # it contains text, and can't be read without the database
        dropped += 1
    return cleaned, dropped


def _files(folder: Path, patterns: Sequence[str]) -> list[Path]:
    return sorted({p for pattern in patterns for p in folder.glob(pattern) if p.is_file() and not p.is_symlink()})
