"""Forgetting: the one thing that deletes, and it deletes everywhere, so that nothing brings the text back."""

from __future__ import annotations

import contextlib
import json
import logging
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from engram.atomic import drop_leftovers, read_regular, read_whole, write_atomic
from engram.consolidation.forget_plan import ForgetPlan, NeededEntry, forgotten_texts, plan_forget
from engram.errors import BrokenDatabase, EngramError
from engram.models import forgetting
from engram.models.backup import drop_database, holding_backups
from engram.models.episodes import Episode
from engram.models.erasing import turn_of_source
from engram.models.recovery import set_aside_files
from engram.models.store import Store
from engram.models.tombstones import Forgotten
from engram.notes.daily import log_session, move_saved_notes
from engram.notes.day_files import cut_sections, notes_lock, write_text
from engram.paths import Home
from engram.redaction.display import fence_safe

logger = logging.getLogger(__name__)

#: A note or export larger than this is neither searched nor rewritten, in bytes.
_FILE_LIMIT_BYTES = 200_000_000
#: Shortest text that is looked for in notes, in characters: shorter ones stand there by chance.
_LEAST_TEXT = 24
#: So much of a line is looked for, in characters: notes and bites hold the beginning of a long one.
_MAX_TOLD = 60


@dataclass(frozen=True, slots=True)
class ForgetReport:
    """What was forgotten, and what stays."""

    #: Ids of the memories, the one that was asked for first.
    episode_ids: tuple[str, ...]
    #: What the memory that was asked for said.
    summary: str
    #: Turns that went whole.
    turns: int
    #: Entries whose words went while their turns stay.
    entries: int
    #: Entries that stay, with the memories that need them.
    needed: tuple[NeededEntry, ...]
    #: Memories that came back into force.
    restored: tuple[str, ...]
    #: Files in the memory folder that were removed or rewritten.
    files: tuple[str, ...]
    #: Backups and set-aside databases from which it was removed.
    backups: int
    #: Those that could not be changed and were therefore deleted.
    dropped_backups: int = 0

    def describe(self, may_tell: Callable[[Episode], bool] = lambda _: True) -> str:
        """A few lines for a person or a model: what went and what stays; of what may not be told only that it is there."""
        gone = [_plural(len(self.episode_ids), "memory", "memories") + f" ({', '.join(self.episode_ids)})"]
        gone += [_plural(self.turns, "turn")] if self.turns else []
        gone += [f"the words of {_plural(self.entries, 'entry', 'entries')}"] if self.entries else []
        lines = [
            f"“{self.summary}”: {', '.join(gone)}; {_plural(len(self.files), 'file')} changed, "
            f"{_plural(self.backups + self.dropped_backups, 'backup')} cleaned."
        ]
        lines += [_stays(one, may_tell) for one in self.needed]
        lines += [f"In force again, since what replaced it is gone: {episode_id}." for episode_id in self.restored]
        return "\n".join(lines)


def _stays(needed: NeededEntry, may_tell: Callable[[Episode], bool]) -> str:
    told = [f"{one.episode_id} “{one.summary[:120]}”" for one in needed.needed_by if may_tell(one)]
    needers = "; ".join(told if len(told) == len(needed.needed_by) else [*told, "a memory of another project"])
    return f"Entry {needed.entry} stays, needed by {needers}."


def forget_episode(store: Store, places: Home, episode_id: str, *, also_source: bool = False) -> ForgetReport:
    """Delete a memory and the words that it alone rests on, everywhere in the memory folder.

    Rows, text indexes, vectors, history, runs, recollections, notes, exports, backups and set-aside databases;
    tombstones keep it from coming back by another reading, extraction, import or restore. The transcript itself is
    Claude Code's and stays. Files are cleaned before the database, so that what was cut short can be asked for again.

    Args:
        store: the open memory.
        places: the memory folder.
        episode_id: the memory.
        also_source: delete the turns that it rests on whole, with every memory that rests on them.

    Raises:
        NotFound: there is no such memory.
        StoreError: the database cannot be written; ask again.
    """
    plan = plan_forget(store, episode_id, also_source=also_source)
    forgotten = plan.forgotten(store)
    sessions = _sessions(store, plan)
    told = _told(forgotten_texts(store, plan))
    is_kept = _line_filter(forgotten.episode_ids, told)
    with holding_backups(places.backups):
        with notes_lock(places):
            drop_leftovers(places.root, 0)
        move_saved_notes(places)
        backups, dropped = _clean_copies(places, store.driver, forgotten, is_kept)
        changed = [forgotten.cut.episode_id] if forgotten.cut else []
        cleaned = _clean_recollections(places, _line_filter([*forgotten.episode_ids, *changed], told))
        cleaned += _clean_exports(places, forgotten)
        notes = list(dict.fromkeys([*_cut_daily_log(places, sessions), *_clean_lines(places, is_kept)]))
        with store.writing():
            plan = plan_forget(store, episode_id, also_source=also_source)
            forgetting.delete_forgotten(store, plan.forgotten(store))
            forgetting.clean_runs(store, is_kept)
            forgetting.clean_reasons(store, is_kept)
            forgetting.drop_notes(store, [str(path) for path in notes])
    for session_id in sessions:
        log_session(store, places, session_id)
    forgetting.wipe_free_space(store)
    logger.info(
        "action=forget episodes=%d turns=%d entries=%d files=%d",
        len(plan.memories), len(plan.turn_ids), len(plan.erased), len(cleaned) + len(notes),
    )  # fmt: skip
    return ForgetReport(
        episode_ids=tuple(episode.episode_id for episode in plan.memories),
        summary=plan.memories[0].summary,
        turns=len(plan.turn_ids),
        entries=0 if plan.turn_ids else len(plan.erased),
        needed=plan.needed,
        restored=tuple(episode.episode_id for episode in plan.restored),
        files=(*cleaned, *(path.name for path in notes)),
        backups=backups,
        dropped_backups=dropped,
    )


def _sessions(store: Store, plan: ForgetPlan) -> list[str]:
    """The sessions whose section of the daily log is written anew."""
    of_entries = [turn_id for one in plan.erased if (turn_id := turn_of_source(store, one)) is not None]
    of_memories = [episode.session_id for episode in plan.memories if episode.session_id]
    of_turns = forgetting.sessions_of_turns(store, [*plan.turn_ids, *of_entries])
    return list(dict.fromkeys([*of_turns, *of_memories]))


def _line_filter(episode_ids: Sequence[str], told: Sequence[str]) -> Callable[[str], bool]:
    def is_kept(line: str) -> bool:
        words = _plain(line)
        return not any(one in line for one in episode_ids) and not any(one in words for one in told)

    return is_kept


def _clean_recollections(places: Home, is_kept: Callable[[str], bool]) -> list[str]:
    """Remove recollection files that hold one of the memories; the worker makes them anew."""
    removed = []
    for path in _files(places.recollections, ("*",)):
        data = (read_regular(path, _FILE_LIMIT_BYTES) or b"").decode("utf-8", "replace")
        if not is_kept(data) or not all(map(is_kept, forgetting.texts_in_json(data))):
            with contextlib.suppress(OSError):
                path.unlink()
                removed.append(path.name)
    return removed


def _cut_daily_log(places: Home, sessions: Sequence[str]) -> list[Path]:
    """Take the sections of the sessions out of the daily log; they are written anew from the turns that are left."""
    marks = [f"<!-- session {session} -->" for session in sessions]
    return _rewrite_notes(
        places,
        _files(places.daily_notes, ("*.md",)),
        lambda text: "".join(part for part in cut_sections(text) if not any(mark in part for mark in marks)),
    )


def _clean_lines(places: Home, is_kept: Callable[[str], bool]) -> list[Path]:
    """Take the lines out of notes that name one of the memories or say the same."""
    return _rewrite_notes(places, _notes(places), lambda text: "".join(filter(is_kept, text.splitlines(keepends=True))))


def _rewrite_notes(places: Home, paths: Iterable[Path], change: Callable[[str], str]) -> list[Path]:
    """Change notes under the lock of their folder; bytes that are not UTF-8 stay. Returns the files that changed."""
    changed = []
    with notes_lock(places):
        for path in paths:
            text = (read_whole(path, _FILE_LIMIT_BYTES) or b"").decode("utf-8", "surrogateescape")
            after = change(text)
            if after != text:
                write_text(path, after)
                changed.append(path)
    return changed


def _told(texts: Sequence[str]) -> list[str]:
    """How the lines of the forgotten texts begin, where they are long enough to be theirs alone."""
    found = {_plain(line)[:_MAX_TOLD] for text in texts for line in text.splitlines()}
    return sorted(line for line in found if len(line) >= _LEAST_TEXT)


def _plain(text: str) -> str:
    """A text as it stands in a line of a note: without breaks, and marks of the fence read as blanks."""
    return " ".join(fence_safe(text).split())


def _clean_exports(places: Home, forgotten: Forgotten) -> list[str]:
    """Take the memories out of exports (JSON lines) that lie in the memory folder."""
    changed = []
    for path in _files(places.root, ("*.jsonl", "*/*.jsonl")):
        data = read_whole(path, _FILE_LIMIT_BYTES) or b""
        lines = data.decode("utf-8", "surrogateescape").splitlines(keepends=True)
        kept = [left for line in lines if (left := _without_forgotten(line, forgotten))]
        if kept != lines:
            write_atomic(path, "".join(kept).encode("utf-8", "surrogateescape"))
            changed.append(path.name)
    return changed


def _without_forgotten(line: str, forgotten: Forgotten) -> str:
    """A line of an export without what was forgotten; "" where nothing is left of it."""
    cut = forgotten.cut
    if not any(one in line for one in [*forgotten.episode_ids, *([cut.episode_id] if cut else [])]):
        return line
    with contextlib.suppress(ValueError, RecursionError):
        found = json.loads(line)
        if isinstance(found, dict) and "id" in found and str(found["id"]) not in forgotten.episode_ids:
            if cut is None or found["id"] != cut.episode_id:
                return line
            found |= {"summary": cut.summary, "content": cut.content, "entities": list(cut.entities)}
            found["evidence"] = [uuid for uuid in found.get("evidence") or [] if uuid not in forgotten.erased]
            return json.dumps(found, ensure_ascii=False) + "\n"
    return ""


def _notes(places: Home) -> list[Path]:
    return _files(places.notes, ("**/*.md",))


def _clean_copies(places: Home, driver: str, forgotten: Forgotten, is_kept: Callable[[str], bool]) -> tuple[int, int]:
    """Delete the same rows in every backup and set-aside memory; a damaged one is deleted. (cleaned, deleted)"""
    cleaned = dropped = 0
    for path in [*_files(places.backups, ("*.db", "*.sqlite")), *set_aside_files(places.root, driver)]:
        try:
            cleaned += _clean_copy(path, driver, forgotten, is_kept)
        except EngramError as error:
            logger.warning("action=forget copy=%s reason=%s", path.name, error)
            drop_database(path)
            dropped += 1
    return cleaned, dropped


def _clean_copy(path: Path, driver: str, forgotten: Forgotten, is_kept: Callable[[str], bool]) -> bool:
    """Delete the rows in one copy; True where there were any. Raises StoreError where the copy is damaged."""
    copy = Store(path, driver=driver)
    try:
        copy.open()
        if damage := copy.find_damage():
            raise BrokenDatabase(damage)
        with copy.writing():
            found = forgetting.forget_in_copy(copy, forgotten, is_kept)
        forgetting.wipe_free_space(copy)
    finally:
        copy.close()
    return bool(found)


def _files(folder: Path, patterns: Sequence[str]) -> list[Path]:
    return sorted({p for pattern in patterns for p in folder.glob(pattern) if p.is_file() and not p.is_symlink()})


def _plural(number: int, one: str, many: str = "") -> str:
    return f"{number} {one if number == 1 else many or one + 's'}"
