"""Forgetting: the one thing that deletes, and it deletes everywhere, so that nothing brings the text back."""

from __future__ import annotations

import contextlib
import json
import logging
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from engram.atomic import drop_leftovers, read_regular, write_atomic
from engram.errors import BrokenDatabase, EngramError, NotFound
from engram.models import episodes, forgetting
from engram.models.backup import drop_database, holding_backups
from engram.models.episodes import Episode
from engram.models.recovery import set_aside_files
from engram.models.store import Store
from engram.notes.daily import log_session
from engram.paths import Home

logger = logging.getLogger(__name__)

#: A note or export larger than this is not searched, in bytes.
_FILE_LIMIT_BYTES = 200_000_000
#: Shortest text that is looked for in notes, in characters: shorter ones stand there by chance.
_LEAST_TEXT = 24


@dataclass(frozen=True, slots=True)
class ForgetReport:
    """What was forgotten."""

    #: Ids of the memories: the one that was asked for and those that rested on the same turns.
    episode_ids: tuple[str, ...]
    turns: int
    #: Files in the memory folder that were removed or rewritten.
    files: tuple[str, ...]
    #: Backups and set-aside databases from which it was removed.
    backups: int
    #: Those that could not be changed and were therefore deleted.
    dropped_backups: int = 0

    def describe(self) -> str:
        """One line for a person."""
        return (
            f"{_plural(len(self.episode_ids), 'memory', 'memories')} ({', '.join(self.episode_ids)}), "
            f"{_plural(self.turns, 'turn')}, {_plural(len(self.files), 'file')} changed, "
            f"{_plural(self.backups + self.dropped_backups, 'backup')} cleaned."
        )


def plan_forget(store: Store, episode_id: str, *, keep_turns: bool) -> tuple[list[Episode], list[int]]:
    """The memories and the row ids of turns that forgetting would delete.

    With the turns go all memories that rest on them: they tell the same.

    Raises:
        NotFound: there is no such memory.
    """
    found = episodes.find_episode(store, episode_id)
    if found is None:
        raise NotFound(f"there is no memory {episode_id[:40]!r}")
    if keep_turns:
        return [found], []
    turn_ids = forgetting.turn_ids_of(store, found)
    beside = [one for one in forgetting.episodes_resting_on(store, turn_ids) if one.id != found.id]
    return [found, *beside], turn_ids


def forget_episode(store: Store, places: Home, episode_id: str, *, keep_turns: bool) -> ForgetReport:
    """Delete a memory and (unless ``keep_turns``) the turns it rests on, everywhere in the memory folder.

    Rows, text indexes, vectors, history, runs, recollections, notes, exports, backups and set-aside databases;
    tombstones keep it from coming back by another reading or an import. The transcript itself is Claude Code's and
    stays. Files are cleaned before the database, so that what was cut short can be asked for again.

    Raises:
        NotFound: there is no such memory.
        StoreError: the database cannot be written; ask again.
    """
    memories, turn_ids = plan_forget(store, episode_id, keep_turns=keep_turns)
    texts = [*_texts_of(memories), *forgetting.turn_texts(store, turn_ids)]
    keys = forgetting.turn_keys(store, turn_ids)
    ids = [one.episode_id for one in memories]
    sessions = list(dict.fromkeys(forgetting.sessions_of_turns(store, turn_ids)))
    told = _told(texts)

    def is_kept(line: str) -> bool:
        return not any(one in line for one in ids) and not any(one in line for one in told)

    with holding_backups(places.backups):
        drop_leftovers(places.root, 0)
        backups, dropped = _clean_copies(places, store.driver, ids, keys, is_kept)
        cleaned = [*_clean_recollections(places, is_kept), *_clean_exports(places, ids)]
        notes = list(dict.fromkeys([*_cut_daily_log(places, sessions), *_clean_lines(_notes(places), is_kept)]))
        with store.writing():
            memories, turn_ids = plan_forget(store, episode_id, keep_turns=keep_turns)
            forgetting.delete_memories(store, memories, turn_ids)
            forgetting.clean_runs(store, is_kept)
            forgetting.drop_notes(store, [str(path) for path in notes])
    for session_id in sessions:
        log_session(store, places, session_id)
    forgetting.wipe_free_space(store)
    logger.info("action=forget episodes=%d turns=%d files=%d", len(ids), len(turn_ids), len(cleaned) + len(notes))
    files = (*cleaned, *(path.name for path in notes))
    return ForgetReport(tuple(one.episode_id for one in memories), len(turn_ids), files, backups, dropped)


def _texts_of(memories: Sequence[Episode]) -> list[str]:
    return [text for one in memories for text in (one.summary, one.content, *one.facts)]


def _clean_recollections(places: Home, is_kept: Callable[[str], bool]) -> list[str]:
    """Remove recollection files that hold one of the memories; the worker makes them anew."""
    removed = []
    for path in _files(places.recollections, ("*",)):
        data = (read_regular(path, _FILE_LIMIT_BYTES) or b"").decode("utf-8", "replace")
        if not is_kept(data):
            with contextlib.suppress(OSError):
                path.unlink()
                removed.append(path.name)
    return removed


def _cut_daily_log(places: Home, sessions: Sequence[str]) -> list[Path]:
    """Take the sections of the sessions out of the daily log; they are written anew from the turns that are left."""
    changed = []
    for path in _files(places.daily_notes, ("*.md",)):
        parts = _sections((read_regular(path, _FILE_LIMIT_BYTES) or b"").decode("utf-8", "replace"))
        kept = [part for part in parts if not any(f"<!-- session {one} -->" in part for one in sessions)]
        if len(kept) < len(parts):
            write_atomic(path, "".join(kept).encode())
            changed.append(path)
    return changed


def _sections(text: str) -> list[str]:
    """A note cut before each heading of the second level."""
    parts: list[str] = [""]
    for line in text.splitlines(keepends=True):
        if line.startswith("## "):
            parts.append("")
        parts[-1] += line
    return parts


def _clean_lines(paths: Iterable[Path], is_kept: Callable[[str], bool]) -> list[Path]:
    """Take the lines out of notes that name one of the memories or say the same."""
    changed = []
    for path in paths:
        lines = (read_regular(path, _FILE_LIMIT_BYTES) or b"").decode("utf-8", "replace").splitlines(keepends=True)
        kept = [line for line in lines if is_kept(line)]
        if len(kept) < len(lines):
            write_atomic(path, "".join(kept).encode())
            changed.append(path)
    return changed


def _told(texts: Sequence[str]) -> list[str]:
    """Lines of the forgotten texts that are long enough to be theirs alone."""
    found = {line.strip() for text in texts for line in text.splitlines()}
    return sorted(line for line in found if len(line) >= _LEAST_TEXT)


def _clean_exports(places: Home, ids: Sequence[str]) -> list[str]:
    """Take the memories out of exports (JSON lines) that lie in the memory folder."""
    changed = []
    for path in _files(places.root, ("*.jsonl", "*/*.jsonl")):
        data = read_regular(path, _FILE_LIMIT_BYTES) or b""
        lines = data.decode("utf-8", "replace").splitlines(keepends=True)
        kept = [line for line in lines if not _is_about(line, ids)]
        if len(kept) < len(lines):
            write_atomic(path, "".join(kept).encode())
            changed.append(path.name)
    return changed


def _is_about(line: str, ids: Sequence[str]) -> bool:
    if not any(one in line for one in ids):
        return False
    with contextlib.suppress(ValueError, RecursionError):
        found = json.loads(line)
        return not isinstance(found, dict) or "id" not in found or str(found["id"]) in ids
    return True


def _notes(places: Home) -> list[Path]:
    return _files(places.notes, ("**/*.md",))


def _clean_copies(
    places: Home, driver: str, ids: Sequence[str], keys: Sequence[str], is_kept: Callable[[str], bool]
) -> tuple[int, int]:
    """Delete the same rows in every backup and set-aside memory; a damaged one is deleted. (cleaned, deleted)"""
    cleaned = dropped = 0
    for path in [*_files(places.backups, ("*.db", "*.sqlite")), *set_aside_files(places.root, driver)]:
        try:
            cleaned += _clean_copy(path, driver, ids, keys, is_kept)
        except EngramError as error:
            logger.warning("action=forget copy=%s reason=%s", path.name, error)
            drop_database(path)
            dropped += 1
    return cleaned, dropped


def _clean_copy(
    path: Path, driver: str, ids: Sequence[str], keys: Sequence[str], is_kept: Callable[[str], bool]
) -> bool:
    """Delete the rows in one copy; True where there were any. Raises StoreError where the copy is damaged."""
    copy = Store(path, driver=driver)
    try:
        copy.open()
        if damage := copy.find_damage():
            raise BrokenDatabase(damage)
        with copy.writing():
            found = forgetting.forget_in_copy(copy, ids, keys, is_kept)
        forgetting.wipe_free_space(copy)
    finally:
        copy.close()
    return bool(found)


def _files(folder: Path, patterns: Sequence[str]) -> list[Path]:
    return sorted({p for pattern in patterns for p in folder.glob(pattern) if p.is_file() and not p.is_symlink()})


def _plural(number: int, one: str, many: str = "") -> str:
    return f"{number} {one if number == 1 else many or one + 's'}"
