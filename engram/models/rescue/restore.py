"""Replace memory.db with another database, and carry over what people did by hand."""

from __future__ import annotations

import contextlib
import dataclasses
import logging
import os
import shutil
from collections.abc import Callable, Sequence, Set
from dataclasses import dataclass
from pathlib import Path

import peewee
from peewee import ColumnBase

from engram.enums import Actor, Source
from engram.errors import BadRequest, BrokenDatabase, EngramError, StoreError
from engram.models import tables
from engram.models.engine.database import (
    UNCLEAN_NAME,
    free_name,
    has_own_tables,
    owning_database,
    preparing_replacement,
    swap_in,
)
from engram.models.engine.transaction import Reader, Store
from engram.models.forgetting.forget_memories import apply_tombstones, wipe_free_space
from engram.models.memories import memory_changes, memory_records
from engram.models.memories.judgements import standing_judgements
from engram.models.memories.memory_history import BY_HAND_ACTIONS, Change, history_of
from engram.models.memories.memory_records import IS_MANUAL, Evidence, Memory
from engram.models.projects import projects
from engram.models.projects.projects import carry_names
from engram.models.rescue.backup import drop_database
from engram.models.rescue.clean_copies import (
    Tombstone,
    carry_tombstones,
    delete_named_in_copy,
    is_named_by_tombstone,
    read_tombstones,
)
from engram.models.rescue.soundness import UNREADABLE, find_all_damage, opened_source
from engram.models.sessions import sessions
from engram.models.work.pauses import carry_pauses
from engram.system.atomic import explain_error, read_regular
from engram.system.failpoint import reach

# -- What people did to memories by hand, carried from a damaged or older memory.db into the one in use.

logger = logging.getLogger(__name__)

#: Saved, pinned, lowered or edited by a person or an agent: reading transcripts again would not bring that back.
_BY_HAND_IN_ROW = f"{IS_MANUAL} OR e.is_pinned OR e.is_lowered"
_ACTIONS = ", ".join(f"'{action}'" for action in BY_HAND_ACTIONS)
_BY_HAND = f"{_BY_HAND_IN_ROW} OR e.episode_id IN (SELECT episode_id FROM history WHERE action IN ({_ACTIONS}))"
#: Exceptions that reading damaged rows may raise, besides Engram's own.
_UNREADABLE = (*UNREADABLE, peewee.IntegrityError)
#: Maximum number of unreadable rows in a damaged table before the rest is abandoned.
MAX_UNREADABLE_ROWS = 5_000


@dataclass(frozen=True, slots=True)
class Recovered:
    """What was carried over."""

    memories: int = 0
    #: Number of tombstones.
    tombstones: int = 0
    #: Memories kept by hand that could not be read in any source.
    lost: int = 0
    #: False if the newest source could not be read to its end, so that data only it had may be missing.
    is_complete: bool = True


def recover_by_hand(store: Store, sources: Sequence[Path], *, actor: Actor) -> Recovered:
    """Carry over what was saved, pinned, lowered, edited or forgotten, each from the first source that has it.

    Sources, newest first, may be damaged: unreadable data is skipped, and counts as lost if no other
    source has it. Sources are only read. What was forgotten stays forgotten, and what was said in a pause stays unread.
    """
    memories = tombstones = 0
    is_complete = True
    unread: set[str] = set()
    for number, path in enumerate(sources):
        with opened_source(store, path) as source:
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
    unread = {name for name in unread if not _is_there(store, name)}
    unread -= _automatic(store, sources, unread)
    with store.transaction() as tx:
        apply_tombstones(tx, actor=Actor.TIDYING)
    return Recovered(memories=memories, tombstones=tombstones, lost=len(unread), is_complete=is_complete)


def carry_forgotten(store: Store, sources: Sequence[Path]) -> None:
    """Carry over only what was forgotten, pauses and names of projects, from each source that can be read."""
    for number, path in enumerate(sources):
        with opened_source(store, path) as source:
            try:
                _carry_tombstones(store, source, is_newer=number == 0)
            except (EngramError, *_UNREADABLE) as error:
                logger.warning("action=carry_forgotten source=%s reason=%s", path.name, error)


def _carry_tombstones(store: Store, source: Store, *, is_newer: bool) -> int:
    """Add what was forgotten, pauses and names of projects; return how many tombstones are new."""
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
    """Return True if SQLite finds the memories sound. A misplaced page hides rows without an error."""
    return all(source.value(f"PRAGMA main.integrity_check({table})") == "ok" for table in ("episode", "history"))


def _carry_memories(store: Store, source: Store, older: Sequence[Path], actor: Actor) -> tuple[int, set[str]]:
    """Carry over memories kept by hand; return how many, and the ids (or row ids) of those that cannot be read."""
    memories = 0
    unread: set[str] = set()
    sound = _memories_of(store, older)
    for row_id, name in _rows_by_hand(source).items():
        try:
            for memory in memory_records.select_memories(source, tables.Memory.id == row_id):
                copy = sound.get((memory.episode_id, memory.revision))
                if copy is not None and not _says_the_same(copy, memory):
                    continue  # its text is damaged, but the older source has it
                memories += _carry(store, source, memory, actor)
        except (EngramError, *_UNREADABLE) as error:
            logger.warning("action=recover row=%s reason=%s", row_id, error)
            unread.add(name)
    return memories, unread


def _memories_of(store: Store, paths: Sequence[Path]) -> dict[tuple[str, int], Memory]:
    """(id, revision) → every memory kept by hand that is readable in one of the databases."""
    memories: dict[tuple[str, int], Memory] = {}
    for path in paths:
        with opened_source(store, path) as source:
            try:
                for memory in memory_records.select_memories(source, _is_by_hand()):
                    memories.setdefault((memory.episode_id, memory.revision), memory)
            except (EngramError, *_UNREADABLE) as error:
                logger.warning("action=recover source=%s part=comparison reason=%s", path.name, error)
    return memories


def _is_by_hand() -> ColumnBase:
    memory, history = tables.Memory, tables.History
    changed = history.select(history.episode_id).where(history.action.in_(BY_HAND_ACTIONS))
    is_saved = memory.source == Source.MANUAL.value
    condition: ColumnBase = is_saved | memory.is_pinned | memory.is_lowered | memory.episode_id.in_(changed)
    return condition


def _says_the_same(first: Memory, second: Memory) -> bool:
    return (first.kind, first.summary, first.content) == (second.kind, second.summary, second.content)


def _rows_by_hand(source: Store) -> dict[int, str]:
    """Return row id → memory id of what was kept by hand; if the table is damaged, of what may have been."""
    sql = f"SELECT e.id, e.episode_id FROM episode e WHERE {_BY_HAND} ORDER BY e.id"
    try:
        return {int(row_id): str(name) for row_id, name in source.rows(sql)}
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
    """Return row id → memory id of every memory, from the index only; if that fails too, all row ids that were ever
    assigned.
    """
    try:
        rows = source.rows("SELECT id, episode_id FROM episode ORDER BY episode_id")
        return {int(row_id): str(name) for row_id, name in sorted(rows)}
    except BrokenDatabase:
        last = int(source.value("SELECT seq FROM sqlite_sequence WHERE name = 'episode'") or 0)
        return {row_id: f"row {row_id}" for row_id in range(1, last + 1)}


def _is_there(store: Reader, name: str) -> bool:
    """Return True if another source had the memory, or it was forgotten and so isn't missing."""
    return memory_records.find_memory(store, name) is not None or is_named_by_tombstone(
        store, name, None, (), Source.MANUAL
    )


def _automatic(store: Store, sources: Sequence[Path], names: Set[str]) -> set[str]:
    """Return the memories that, according to a source, no person kept; reading the transcripts restores them."""
    sql = f"SELECT 1 FROM episode e WHERE e.episode_id = ? AND NOT ({_BY_HAND})"
    found: set[str] = set()
    for path in sources if names else ():
        with opened_source(store, path) as source:
            for name in names - found:
                with contextlib.suppress(EngramError, *_UNREADABLE):
                    if source.row(sql, (name,)) is not None:
                        found.add(name)
    return found


def _carry(store: Store, source: Store, one: Memory, actor: Actor) -> bool:
    """Add one memory, unless it exists or was forgotten; True if it was added."""
    if not memory_records.is_memory_id(one.episode_id):
        raise BrokenDatabase(f"{one.episode_id[:40]!r} is not the id of a memory")
    project = None if one.project_id is None else projects.project_by_id(source, one.project_id)
    session = sessions.find_session(source, one.session_id) if one.session_id else None
    evidence = [dataclasses.replace(e, turn_id=None) for e in memory_records.evidence_of(source, one.id)]
    if _is_known(store, one, evidence):
        return False
    standing = _judgements_of(source, one.episode_id)
    with store.transaction() as tx:
        place = None if project is None else projects.ensure_project(tx, project.identity, project.name, project.root)
        if session is not None:
            sessions.ensure_session(
                tx,
                session.session_id,
                agent=session.agent,
                project_id=None if place is None else place.id,
                is_global=session.is_global,
                cwd=session.cwd,
                at_ms=session.first_at_ms,
            )
        made = dataclasses.replace(one, id=0, project_id=None if place is None else place.id)
        memory_changes.add_memory(tx, made, evidence, action="recover", reason="by hand", actor=actor)
        for judgement in standing:
            memory_changes.carry_judgement(tx, made, judgement)
    return True


def _judgements_of(source: Store, episode_id: str) -> list[Change]:
    """Return the current judgements on a memory; none if its history cannot be read."""
    try:
        return standing_judgements(history_of(source, episode_id))
    except (EngramError, *_UNREADABLE) as error:
        logger.warning("action=recover memory=%s part=judgements reason=%s", episode_id, error)
        return []


def _is_known(store: Reader, memory: Memory, evidence: Sequence[Evidence]) -> bool:
    if is_named_by_tombstone(store, memory.episode_id, memory.slot, [one.uuid for one in evidence], memory.source):
        return True
    if memory_records.find_memory(store, memory.episode_id) is not None:
        return True
    return memory.slot is not None and memory_records.memory_by_slot(store, memory.slot) is not None


# -- Databases of Engram that were set aside next to memory.db: which ones exist, and what must not stay in them.

#: Names of databases of Engram that were set aside, and the name of another program's.
SET_ASIDE_PATTERNS = ("memory.broken*.db", "memory.replaced*.db")
FOREIGN_PATTERN = "memory.v2*.db"


def set_aside_files(folder: Path, driver: str) -> list[Path]:
    """Databases of Engram that were set aside in a folder; a file named as another program's counts if it is
    Engram's.
    """
    found = {path for pattern in SET_ASIDE_PATTERNS for path in folder.glob(pattern) if is_file(path)}
    for path in folder.glob(FOREIGN_PATTERN):
        with contextlib.suppress(BrokenDatabase):
            if is_file(path) and has_own_tables(path, driver):
                found.add(path)
    return sorted(found)


def foreign_files(folder: Path, driver: str) -> list[Path]:
    """Databases of other programs, such as the earlier Engram, that were set aside in a folder. They must only be
    read.
    """
    own = set_aside_files(folder, driver)
    return sorted(path for path in folder.glob(FOREIGN_PATTERN) if is_file(path) and path not in own)


def clean_set_aside(path: Path, driver: str, tombstones: Sequence[Tombstone]) -> None:
    """Delete what tombstones name from the databases next to memory.db; a damaged one stays as it is."""
    for aside in set_aside_files(path.parent, driver):
        try:
            cleaned = delete_named_in_copy(aside, driver, tombstones)
        except (EngramError, *UNREADABLE, peewee.IntegrityError) as error:
            logger.warning("action=clean_set_aside path=%s reason=%s", aside.name, error)
        else:
            logger.info("action=clean_set_aside path=%s cleaned=%d", aside.name, cleaned)
    path.with_name(UNCLEAN_NAME).unlink(missing_ok=True)


def clean_after_swap(store: Reader) -> None:
    """Clean what a swap set aside before it was killed."""
    if store.path.with_name(UNCLEAN_NAME).exists():
        clean_set_aside(store.path, store.driver, read_tombstones(store))


def is_file(path: Path) -> bool:
    """Return True for a regular file that is not a link."""
    return path.is_file() and not path.is_symlink()


# -- Replace memory.db: with a backup, or a damaged one with a new one.


@dataclass(frozen=True, slots=True)
class Restored:
    #: The backup that memory.db is now a copy of.
    source: Path
    #: Where the former memory.db is now; None if there was none.
    aside: Path | None
    memories: int
    turns: int
    #: What was carried over from the former memory.db.
    carried: Recovered


def restore_backup(path: Path, backup: Path, *, driver: str) -> Restored:
    """Replace the memory.db at ``path`` with a copy of ``backup``; call it while neither watcher nor worker
    runs.

    What was saved, pinned, edited or forgotten since is carried over into the copy as far as it can be read, and what
    was forgotten is deleted from it; then the copy takes the place of memory.db, which is set aside as
    ``memory.replaced.db``. A kill at any instant leaves the old memory.db, or a swap that is finished when memory.db
    is opened next. Transcripts are then read from the point where the backup ends.

    Raises:
        BadRequest: the file is not a sound backup; nothing was changed.
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


def put_copy_back(path: Path, copy: Path) -> Path:
    """Replace the memory.db at ``path`` with the copy from before an upgrade, unchanged; the copy is deleted.

    Nothing is carried over: call it right after the upgrade, to roll it back because something else failed.

    Returns:
        Where the upgraded memory.db was moved.

    Raises:
        AlreadyRunning: another command has memory.db open for longer than a moment.
        StoreError: the disk is full; memory.db is the upgraded one.
    """
    try:
        with owning_database(path), preparing_replacement(path) as new:
            shutil.copyfile(copy, new, follow_symlinks=False)
            os.chmod(new, 0o600)
            aside = free_name(path, "memory.replaced.db")
            swap_in(path, aside)
    except OSError as error:
        raise StoreError(f"memory.db was not put back: {explain_error(error)}") from error
    drop_database(copy)
    return aside


def rebuild_memory(
    path: Path, aside_name: str, sources: Sequence[Path], note: Callable[[Store, Path, Recovered], None], *, driver: str
) -> tuple[Path, Recovered]:
    """Replace a damaged memory.db with a new one, carrying over what people did by hand in it and in the sources.

    Like ``restore_backup``, a kill at any instant leaves the damaged file in its place, or a swap to finish.

    Args:
        aside_name: its new name; if the name is taken, a time is appended.
        sources: other databases that may hold what it lost, newest first.
        note: records in the new memory.db what happened; called with the path that the damaged one is moved to.

    Returns:
        Where the damaged file was moved, and what was carried over.

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


def _copy_file(backup: Path, new: Path, driver: str) -> None:
    """Copy a backup with any log next to it, and check the copy. Raises BadRequest."""
    if not (read_regular(backup, 16) or b"").startswith(b"SQLite format 3\0"):
        raise BadRequest(f"{backup} is not a backup of memory.db")
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
        raise BadRequest(f"{backup} is not a sound backup of memory.db: {damage}")


def _drop_side_files(new: Path) -> None:
    """Delete the side files of a closed database: it has no log, but SQLite may leave an empty one."""
    for suffix in ("-wal", "-shm"):
        new.with_name(new.name + suffix).unlink(missing_ok=True)
