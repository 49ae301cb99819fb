"""What people did to memories by hand, carried from a damaged or older memory.db into the one in use."""

from __future__ import annotations

import contextlib
import dataclasses
import logging
import os
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import peewee
from peewee import ColumnBase

from engram.atomic import read_regular
from engram.causes import explain_error
from engram.enums import Actor, Source
from engram.errors import BadRequest, BrokenDatabase, EngramError, StoreError
from engram.failpoint import reach
from engram.models import episode_changes, episodes, projects, sessions, tables
from engram.models.conditions import IS_MANUAL
from engram.models.episode_history import BY_HAND_ACTIONS
from engram.models.episodes import Episode, Evidence
from engram.models.forgetting import apply_tombstones, wipe_free_space
from engram.models.pauses import carry_pauses
from engram.models.project_names import carry_names
from engram.models.replacement import UNCLEAN_NAME, free_name, owning_database, preparing_replacement, swap_in
from engram.models.soundness import UNREADABLE, find_all_damage
from engram.models.store import Store, has_own_tables
from engram.models.tombstone_transfer import (
    Tombstone,
    carry_tombstones,
    clean_copy,
    is_named_by_tombstone,
    read_tombstones,
)
from engram.models.transaction import Reader

logger = logging.getLogger(__name__)

#: Saved, pinned, lowered or edited by a person or an agent: no reading of transcripts brings that back.
_BY_HAND_IN_ROW = f"{IS_MANUAL} OR e.is_pinned OR e.is_lowered"
_ACTIONS = ", ".join(f"'{action}'" for action in BY_HAND_ACTIONS)
_BY_HAND = f"{_BY_HAND_IN_ROW} OR e.episode_id IN (SELECT episode_id FROM history WHERE action IN ({_ACTIONS}))"
#: What reading damaged rows may raise, beside errors of Engram.
_UNREADABLE = (*UNREADABLE, peewee.IntegrityError)
#: Rows of a damaged table that are tried in vain before the rest is given up.
MAX_UNREADABLE_ROWS = 5_000
#: Names of databases of Engram that were set aside, and the name of another program's.
SET_ASIDE_PATTERNS = ("memory.broken*.db", "memory.replaced*.db")
FOREIGN_PATTERN = "memory.v2*.db"


@dataclass(frozen=True, slots=True)
class Recovered:
    """What was carried over."""

    memories: int = 0
    #: Marks of what was forgotten.
    tombstones: int = 0
    #: Memories kept by hand that could not be read in any source.
    lost: int = 0
    #: False where the newest source could not be read to its end: what only it had may be missing.
    is_complete: bool = True


@dataclass(frozen=True, slots=True)
class Restored:
    """What a restore did."""

    #: The backup that memory.db is now a copy of.
    source: Path
    #: Where the memory.db of before went; None where there was none.
    aside: Path | None
    memories: int
    turns: int
    #: What was carried over from the memory.db of before.
    carried: Recovered


def recover_by_hand(store: Store, sources: Sequence[Path], *, actor: Actor) -> Recovered:
    """Carry over what was saved, pinned, lowered, edited or forgotten, from the first source that has it.

    Sources, the newest first, may be damaged: what cannot be read is passed over, and counts as lost where no other
    source has it. They are only read. What was forgotten stays so, and what was said in a pause stays unread.
    """
    memories = tombstones = 0
    is_complete = True
    unread: set[str] = set()
    for number, path in enumerate(sources):
        source = Store(path, driver=store.driver, clock=store.clock, is_damaged=True)
        try:
            tombstones += _carry_tombstones(store, source, is_newer=number == 0)
        except (EngramError, *_UNREADABLE) as error:
            logger.warning("action=recover source=%s part=tombstones reason=%s", path.name, error)
        try:
            carried, unreadable = _carry_memories(store, source, sources[number + 1 :], actor)
            memories += carried
            unread |= unreadable
            is_complete = is_complete and (number > 0 or _is_whole(source))
        except (EngramError, *_UNREADABLE) as error:
            logger.warning("action=recover source=%s part=memories reason=%s", path.name, error)
            is_complete = is_complete and number > 0
        finally:
            source.close()
    unread = {name for name in unread if not _is_there(store, name) and not _is_automatic(store, sources, name)}
    with store.transaction() as tx:
        apply_tombstones(tx, actor=Actor.TIDYING)
    return Recovered(memories=memories, tombstones=tombstones, lost=len(unread), is_complete=is_complete)


def _carry_tombstones(store: Store, source: Store, *, is_newer: bool) -> int:
    """Take over what was forgotten, pauses and names of projects; returns how many tombstones are new."""
    with store.transaction() as tx:
        added = carry_tombstones(tx, read_tombstones(source))
    with store.transaction() as tx:
        for scope, until_ms in source.rows("SELECT scope, until_ms FROM pause"):
            tx.run("INSERT OR IGNORE INTO pause VALUES (?, ?)", (str(scope), int(until_ms)))
        carry_pauses(tx, source, is_newer=is_newer)
    with store.transaction() as tx:
        carry_names(tx, source)
    return added


def _is_whole(source: Store) -> bool:
    """True where SQLite finds the memories sound: a page in the place of another one hides rows, and none fails."""
    return all(source.value(f"PRAGMA integrity_check({table})") == "ok" for table in ("episode", "history"))


def _carry_memories(store: Store, source: Store, older: Sequence[Path], actor: Actor) -> tuple[int, set[str]]:
    """Carry over memories kept by hand; returns how many, and the ids (or row ids) of those that cannot be read."""
    memories = 0
    unread: set[str] = set()
    sound = _memories_of(store, older)
    for row_id, name in _rows_by_hand(source).items():
        try:
            for memory in episodes.select_episodes(source, tables.Episode.id == row_id):
                copy = sound.get((memory.episode_id, memory.revision))
                if copy is not None and not _says_the_same(copy, memory):
                    continue  # its words are damaged; the older source brings them
                memories += _carry(store, source, memory, actor)
        except (EngramError, *_UNREADABLE) as error:
            logger.warning("action=recover row=%s reason=%s", row_id, error)
            unread.add(name)
    return memories, unread


def _memories_of(store: Reader, paths: Sequence[Path]) -> dict[tuple[str, int], Episode]:
    """(id, revision) → each memory kept by hand that can be read in some databases."""
    memories: dict[tuple[str, int], Episode] = {}
    for path in paths:
        source = Store(path, driver=store.driver, clock=store.clock, is_damaged=True)
        try:
            for memory in episodes.select_episodes(source, _is_by_hand()):
                memories.setdefault((memory.episode_id, memory.revision), memory)
        except (EngramError, *_UNREADABLE) as error:
            logger.warning("action=recover source=%s part=comparison reason=%s", path.name, error)
        finally:
            source.close()
    return memories


def _is_by_hand() -> ColumnBase:
    episode, history = tables.Episode, tables.History
    changed = history.select(history.episode_id).where(history.action.in_(BY_HAND_ACTIONS))
    is_saved = episode.source == Source.MANUAL.value
    condition: ColumnBase = is_saved | episode.is_pinned | episode.is_lowered | episode.episode_id.in_(changed)
    return condition


def _says_the_same(first: Episode, second: Episode) -> bool:
    return (first.kind, first.summary, first.content) == (second.kind, second.summary, second.content)


def _rows_by_hand(source: Store) -> dict[int, str]:
    """Row id → memory id of what was kept by hand; where the table is damaged, of what may have been."""
    sql = f"SELECT e.id, e.episode_id FROM episode e WHERE {_BY_HAND} ORDER BY e.id"
    try:
        return {int(row[0]): str(row[1]) for row in source.rows(sql)}
    except BrokenDatabase as error:
        logger.warning("action=recover source=%s reason=%s", source.path.name, error)
    found: dict[int, str] = {}
    failures = 0
    for row_id, name in _indexed_rows(source).items():
        if failures > MAX_UNREADABLE_ROWS:
            raise BrokenDatabase(f"{source.path} cannot be read")
        try:
            is_by_hand = source.row(f"SELECT 1 FROM episode e WHERE e.id = ? AND ({_BY_HAND_IN_ROW})", (row_id,))
        except BrokenDatabase:
            failures += 1
        else:
            if is_by_hand is None:
                continue
        found[row_id] = name
    return found


def _indexed_rows(source: Store) -> dict[int, str]:
    """Row id → memory id of every memory, from the index alone; the numbers that were given out where that fails too."""
    try:
        rows = source.rows("SELECT id, episode_id FROM episode ORDER BY episode_id")
        return {int(row[0]): str(row[1]) for row in sorted(rows)}
    except BrokenDatabase:
        last = int(source.value("SELECT seq FROM sqlite_sequence WHERE name = 'episode'") or 0)
        return {row_id: f"row {row_id}" for row_id in range(1, last + 1)}


def _is_there(store: Reader, name: str) -> bool:
    """True where a memory came from another source, or is not missed: it was forgotten."""
    return episodes.find_episode(store, name) is not None or is_named_by_tombstone(store, name, None, (), Source.MANUAL)


def _is_automatic(store: Reader, sources: Sequence[Path], name: str) -> bool:
    """True where one of the sources says that no person kept this memory: it is made of the transcripts again."""
    for path in sources:
        source = Store(path, driver=store.driver, clock=store.clock, is_damaged=True)
        try:
            if source.row(f"SELECT 1 FROM episode e WHERE e.episode_id = ? AND NOT ({_BY_HAND})", (name,)) is not None:
                return True
        except (EngramError, *_UNREADABLE):
            continue
        finally:
            source.close()
    return False


def _carry(store: Store, source: Store, one: Episode, actor: Actor) -> bool:
    """Add one memory, unless it is there or was forgotten; True where it was added."""
    if not episodes.is_episode_id(one.episode_id):
        raise BrokenDatabase(f"{one.episode_id[:40]!r} is no id of a memory")
    project = None if one.project_id is None else projects.project_by_id(source, one.project_id)
    session = sessions.find_session(source, one.session_id) if one.session_id else None
    evidence = [dataclasses.replace(e, turn_id=None) for e in episodes.evidence_of(source, one.id)]
    if _is_known(store, one, evidence):
        return False
    with store.transaction() as tx:
        place = None if project is None else projects.ensure_project(tx, project.identity, project.name, project.root)
        if session is not None:
            sessions.ensure_session(
                tx, session.session_id, agent=session.agent, project_id=None if place is None else place.id,
                is_global=session.is_global, cwd=session.cwd, at_ms=session.first_at_ms,
            )  # fmt: skip
        made = dataclasses.replace(one, id=0, project_id=None if place is None else place.id)
        episode_changes.add_episode(tx, made, evidence, action="recover", reason="by hand", actor=actor)
    return True


def _is_known(store: Reader, memory: Episode, evidence: Sequence[Evidence]) -> bool:
    if is_named_by_tombstone(store, memory.episode_id, memory.slot, [one.uuid for one in evidence], memory.source):
        return True
    if episodes.find_episode(store, memory.episode_id) is not None:
        return True
    return memory.slot is not None and episodes.episode_by_slot(store, memory.slot) is not None


def restore_backup(path: Path, backup: Path, *, driver: str) -> Restored:
    """Put a copy of ``backup`` in the place of the memory.db at ``path``; call it while neither watcher nor worker runs.

    What was saved, pinned, edited or forgotten since is carried over into the copy as far as it can be read, and what
    was forgotten is deleted from it; then the copy takes the place of memory.db, which is set aside as
    ``memory.replaced.db``. A kill at any instant leaves the old memory.db, or a swap that is finished when memory.db
    is opened next. Transcripts are read on from where the backup stood.

    Raises:
        BadRequest: the file is no sound backup; nothing was changed.
        AlreadyRunning: another command has memory.db open for longer than a moment.
        StoreError: the disk is full, or SQLite fails; memory.db is the old one.
    """
    if os.path.lexists(path) and os.path.lexists(backup) and os.path.samefile(path, backup):
        raise BadRequest(f"{backup} is memory.db itself")
    try:
        with owning_database(path), preparing_replacement(path) as new:
            _copy_file(backup, new, driver)
            reach("restore.copied")
            with Store(new, driver=driver) as store:
                carried = recover_by_hand(store, [path] if is_file(path) else [], actor=Actor.USER)
                reach("restore.carried")
                wipe_free_space(store)
                memories = int(store.value("SELECT count(*) FROM episode"))
                turns = int(store.value("SELECT count(*) FROM turn"))
                tombstones = read_tombstones(store)
            _drop_side_files(new)
            aside = free_name(path, "memory.replaced.db") if os.path.lexists(path) else None
            swap_in(path, aside or free_name(path, "memory.replaced.db"))
    except OSError as error:
        raise StoreError(f"nothing was restored: {explain_error(error)}") from error
    clean_set_aside(path, driver, tombstones)
    return Restored(source=backup, aside=aside, memories=memories, turns=turns, carried=carried)


def rebuild_memory(path: Path, aside_name: str, sources: Sequence[Path], note: Callable[[Store, Path, Recovered], None],
                   *, driver: str) -> tuple[Path, Recovered]:  # fmt: skip
    """Put a new memory.db in the place of a damaged one, with what people did by hand to it and to the sources.

    Like ``restore_backup``, a kill at any instant leaves the damaged file in its place, or a swap to finish.

    Args:
        path: the damaged memory.db.
        aside_name: what it is called from then on; a name that is taken gets a time behind it.
        sources: further databases that may hold what it lost, the newest first.
        note: writes into the new memory what happened, given where the damaged one goes.
        driver: of SQLite.

    Returns:
        Where the damaged file went, and what was carried over.

    Raises:
        StoreError: the disk is full, or SQLite fails; the damaged file is where it was.
    """
    try:
        with preparing_replacement(path) as new:
            with Store(new, driver=driver) as store:
                carried = recover_by_hand(store, [*([path] if is_file(path) else []), *sources], actor=Actor.TIDYING)
                reach("restore.carried")
                aside = free_name(path, aside_name)
                note(store, aside, carried)
                tombstones = read_tombstones(store)
                store.checkpoint("TRUNCATE")
            _drop_side_files(new)
            swap_in(path, aside)
    except OSError as error:
        raise StoreError(f"the damaged memory.db was not set aside: {explain_error(error)}") from error
    clean_set_aside(path, driver, tombstones)
    return aside, carried


def set_aside_files(folder: Path, driver: str) -> list[Path]:
    """Databases of Engram that were set aside in a folder; one named as another program's counts if it is Engram's."""
    found = {path for pattern in SET_ASIDE_PATTERNS for path in folder.glob(pattern) if is_file(path)}
    for path in folder.glob(FOREIGN_PATTERN):
        with contextlib.suppress(BrokenDatabase):
            if is_file(path) and has_own_tables(path, driver):
                found.add(path)
    return sorted(found)


def clean_set_aside(path: Path, driver: str, tombstones: Sequence[Tombstone]) -> None:
    """Delete what tombstones name from the databases beside memory.db; a damaged one stays as it is."""
    for aside in set_aside_files(path.parent, driver):
        try:
            cleaned = clean_copy(aside, driver, tombstones)
        except (EngramError, *_UNREADABLE) as error:
            logger.warning("action=clean_set_aside path=%s reason=%s", aside.name, error)
        else:
            logger.info("action=clean_set_aside path=%s cleaned=%d", aside.name, cleaned)
    path.with_name(UNCLEAN_NAME).unlink(missing_ok=True)


def clean_after_swap(store: Reader) -> None:
    """Clean what was set aside by a swap that was killed before it came to that."""
    if store.path.with_name(UNCLEAN_NAME).exists():
        clean_set_aside(store.path, store.driver, read_tombstones(store))


def is_file(path: Path) -> bool:
    """True for a regular file that is no link."""
    return path.is_file() and not path.is_symlink()


def _copy_file(backup: Path, new: Path, driver: str) -> None:
    """Copy a backup, with a log that lies beside it, and check the copy. Raises BadRequest."""
    if not (read_regular(backup, 16) or b"").startswith(b"SQLite format 3\0"):
        raise BadRequest(f"{backup} is no backup of memory.db")
    try:
        for suffix in ("", "-wal"):
            source, target = backup.with_name(backup.name + suffix), new.with_name(new.name + suffix)
            if not suffix or is_file(source):
                shutil.copyfile(source, target, follow_symlinks=False)
                os.chmod(target, 0o600)
    except OSError as error:
        raise BadRequest(f"{backup} cannot be copied: {explain_error(error, new)}") from error
    copy = Store(new, driver=driver)
    try:
        copy.open()
        damage = find_all_damage(copy)
    except EngramError as error:
        damage = str(error)
    finally:
        copy.close()
    if damage:
        raise BadRequest(f"{backup} is no sound backup of memory.db: {damage}")


def _drop_side_files(new: Path) -> None:
    """A closed database has no log; SQLite may leave an empty one."""
    for suffix in ("-wal", "-shm"):
        new.with_name(new.name + suffix).unlink(missing_ok=True)
