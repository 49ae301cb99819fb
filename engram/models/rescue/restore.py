"""Replace memory.db with a backup or a new database, and carry over changes made by hand."""

from __future__ import annotations

import contextlib
import logging
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import peewee

from engram.enums import Actor
from engram.errors import BadRequest, BrokenDatabase, EngramError, StoreError
from engram.models import tables
from engram.models.engine.database import (
    REPLACED_NAME,
    UNCLEAN_NAME,
    copy_files,
    free_name,
    has_own_tables,
    owning_database,
    preparing_replacement,
    read_at_rest,
    swap_in,
)
from engram.models.engine.meta import metas_beginning_with, put_meta
from engram.models.engine.transaction import Reader, Store, Tx
from engram.models.forgetting.forget_memories import wipe_free_space
from engram.models.rescue.backup import drop_database
from engram.models.rescue.carry_over import RESCUE, CarryMore, Recovered, memories_to_carry, recover_by_hand
from engram.models.rescue.clean_copies import Tombstone, delete_named_in_copy, read_tombstones
from engram.models.rescue.soundness import UNREADABLE, find_unreadable, mend_indexes, opened_source
from engram.models.sessions.reading_progress import gone_turns
from engram.system.atomic import explain_error, read_regular
from engram.system.failpoint import reach

logger = logging.getLogger(__name__)

# -- Databases of Engram that have been set aside next to memory.db: list them, and delete forgotten data from them.

#: File names of databases of Engram that have been set aside, and of another program's.
SET_ASIDE_PATTERNS = ("memory.broken*.db", "memory.replaced*.db")
FOREIGN_PATTERN = "memory.v2*.db"


def set_aside_files(folder: Path, driver: str) -> list[Path]:
    """Return the databases of Engram that have been set aside in a folder, even if named like another program's."""
    found = {path for pattern in SET_ASIDE_PATTERNS for path in folder.glob(pattern) if is_file(path)}
    for path in folder.glob(FOREIGN_PATTERN):
        with contextlib.suppress(BrokenDatabase):
            if is_file(path) and has_own_tables(path, driver):
                found.add(path)
    return sorted(found)


def logs_without_database(folder: Path) -> list[Path]:
    """Return the write-ahead logs that were set aside without their database, because it had been moved away."""
    logs = (log for pattern in SET_ASIDE_PATTERNS for log in folder.glob(f"{pattern}-wal"))
    return sorted(log for log in logs if not os.path.lexists(log.with_name(log.name.removesuffix("-wal"))))


def foreign_files(folder: Path, driver: str) -> list[Path]:
    """Return other programs' databases that have been set aside in a folder, such as the earlier Engram's."""
    own = set_aside_files(folder, driver)
    return sorted(path for path in folder.glob(FOREIGN_PATTERN) if is_file(path) and path not in own)


def note_rescue(tx: Tx, aside: Path, text: str) -> None:
    """Record what happened when a damaged memory.db was set aside as ``aside``."""
    put_meta(tx, f"{RESCUE}{aside.name}", text)


def list_rescues(store: Reader) -> dict[Path, str]:
    """Return path → what happened, for the damaged databases that were set aside and still exist."""
    noted = metas_beginning_with(store, RESCUE).items()
    found = ((store.path.with_name(key.removeprefix(RESCUE)), text) for key, text in noted)
    return {path: text for path, text in found if os.path.lexists(path)}


def clean_set_aside(path: Path, driver: str, tombstones: Sequence[Tombstone]) -> None:
    """Delete what tombstones list from the databases set aside next to memory.db. Damaged ones are left unchanged."""
    for aside in set_aside_files(path.parent, driver):
        try:
            cleaned = delete_named_in_copy(aside, driver, tombstones)
        except (EngramError, *UNREADABLE, peewee.IntegrityError) as error:
            logger.warning("action=clean_set_aside path=%s reason=%s", aside.name, error)
        else:
            logger.info("action=clean_set_aside path=%s cleaned=%d", aside.name, cleaned)
    path.with_name(UNCLEAN_NAME).unlink(missing_ok=True)


def clean_after_swap(store: Reader) -> None:
    """Clean the databases that were set aside by a replacement that was then interrupted."""
    if store.path.with_name(UNCLEAN_NAME).exists():
        clean_set_aside(store.path, store.driver, read_tombstones(store))


def is_file(path: Path) -> bool:
    """Return True for a regular file that is not a link."""
    return path.is_file() and not path.is_symlink()


# -- Replace memory.db: with a backup, or a damaged one with a new one.


@dataclass(frozen=True, slots=True)
class Restored:
    #: The backup from which memory.db was restored.
    source: Path
    #: Path of the previous memory.db; None if there was none.
    aside: Path | None
    memories: int
    turns: int
    #: What was carried over from the previous memory.db.
    carried: Recovered


@dataclass(frozen=True, slots=True)
class Missing:
    """What memory.db has and a backup lacks."""

    turns: int
    #: How many of these turns can't be read again, because their transcripts no longer exist.
    gone_turns: int
    #: Memories that were saved or changed by hand, whose project the backup lacks, or whose transcripts are gone. They
    #: are carried over.
    carried_memories: int
    #: All other memories. They will be made again from the turns.
    other_memories: int
    #: Records of what was shown to agents, which are not stored anywhere else.
    shown: int


def find_missing(store: Store, backup: Path) -> Missing:
    """Return what would be undone by restoring a backup.

    Rows are compared, not times: a backup made today lacks what has come out of a vault or was read for the first time
    since, however old it is.

    Raises:
        StoreError: a database can't be read.
    """

    def in_backup(columns: str, table: str) -> set[tuple[object, ...]]:
        return set(read_at_rest(backup, store.driver, f"SELECT {columns} FROM {table}"))

    turn, memory, shown = tables.Turn, tables.Memory, tables.Injection
    known, turns, gone = in_backup("key", "turn"), 0, 0
    exists: dict[bytes, bool] = {}
    for row in store.fetch(turn.select(turn.key, tables.Transcript.path).join(tables.Transcript)):
        if (row.key,) not in known:
            path = bytes(row.path)
            turns += 1
            gone += not exists.setdefault(path, os.path.exists(path))
    known = in_backup("episode_id", "episode")
    memories = {name for name in store.fetch_values(memory.select(memory.episode_id)) if (name,) not in known}
    identities = in_backup("identity", "project") | in_backup("identity", "project_folder")
    carried = memories & memories_to_carry(store, {str(identity) for (identity,) in identities})
    shown_there = in_backup("session_id, episode_id, at_ms", "injection")
    shown_here = store.fetch(shown.select(shown.session_id, shown.episode_id, shown.at_ms))
    return Missing(
        turns=turns,
        gone_turns=gone,
        carried_memories=len(carried),
        other_memories=len(memories - carried),
        shown=sum((row.session_id, row.episode_id, row.at_ms) not in shown_there for row in shown_here),
    )


def restore_backup(
    path: Path,
    backup: Path,
    *,
    driver: str,
    carry_more: CarryMore,
    check: Callable[[Reader], None] = lambda copy: None,
) -> Restored:
    """Replace the memory.db at ``path`` with a copy of ``backup``. Neither the watcher nor the worker may be running.

    Everything that has since been saved, changed, decided or forgotten by hand is carried over into the copy, as far as
    it can be read, and forgotten data is deleted from it. Then the copy takes the place of memory.db, which is set
    aside as ``REPLACED_NAME``. If the process is killed, the old memory.db is still there, or the swap is finished
    when memory.db is next opened. Transcripts are then read from the point at which the backup ends.

    Args:
        check: raises BadRequest for a copy that must not take the place of memory.db.

    Raises:
        BadRequest: the file is not a sound backup, or ``check`` refuses it; nothing was changed.
        AlreadyRunning: another command has memory.db open.
        StoreError: the disk is full, or SQLite fails; the old memory.db is still in place.
    """
    if os.path.lexists(path) and os.path.lexists(backup) and os.path.samefile(path, backup):
        raise BadRequest(f"{backup} is memory.db itself")
    try:
        with owning_database(path), preparing_replacement(path) as new:
            _copy_file(backup, new, driver)
            reach("restore.copied")
            with Store(new, driver=driver) as store:
                check(store)
                carried = recover_by_hand(
                    store,
                    [path] if is_file(path) else [],
                    actor=Actor.USER,
                    with_new_projects=True,
                    carry_more=carry_more,
                )
                reach("restore.carried")
                wipe_free_space(store)
                memories = int(store.value("SELECT count(*) FROM episode"))
                turns = int(store.value("SELECT count(*) FROM turn"))
                tombstones = read_tombstones(store)
            _drop_side_files(new)
            aside = free_name(path, REPLACED_NAME) if os.path.lexists(path) else None
            swap_in(path, aside or free_name(path, REPLACED_NAME))
    except OSError as error:
        raise StoreError(f"nothing was restored: {explain_error(error)}") from error
    clean_set_aside(path, driver, tombstones)
    return Restored(source=backup, aside=aside, memories=memories, turns=turns, carried=carried)


def put_copy_back(path: Path, copy: Path) -> Path:
    """Replace the memory.db at ``path`` with the copy from before an upgrade, and delete the copy.

    Nothing is carried over. Call this right after an upgrade, to roll it back because something else has failed.

    Returns:
        The path to which the upgraded memory.db was moved.

    Raises:
        AlreadyRunning: another command has memory.db open.
        StoreError: the disk is full; the upgraded memory.db is still in place.
    """
    try:
        with owning_database(path), preparing_replacement(path) as new:
            copy_files(copy, new)
            aside = free_name(path, REPLACED_NAME)
            swap_in(path, aside)
    except OSError as error:
        raise StoreError(f"memory.db was not restored: {explain_error(error)}") from error
    drop_database(copy)
    return aside


def rebuild_memory(
    path: Path,
    aside_name: str,
    sources: Sequence[Path],
    note: Callable[[Store, Path, Recovered], None],
    *,
    driver: str,
    carry_more: CarryMore,
) -> tuple[Path, Recovered]:
    """Replace a damaged memory.db with a new one, and carry over changes made by hand from it and the sources.

    If the process is killed, the damaged file is still in place, or the swap is finished when memory.db is next opened.

    Args:
        aside_name: new name of the damaged file; if the name is taken, a timestamp is appended.
        sources: other databases that may contain what the damaged file has lost, newest first.
        note: records what happened in the new memory.db; it also gets the path to which the damaged file is moved, and
            what was carried over.

    Returns:
        The path to which the damaged file was moved, and what was carried over.

    Raises:
        StoreError: the disk is full, or SQLite fails; the damaged file is still in place.
    """
    try:
        with preparing_replacement(path) as new:
            with Store(new, driver=driver) as store:
                former = [path] if is_file(path) else []
                carried = recover_by_hand(store, [*former, *sources], actor=Actor.TIDYING, carry_more=carry_more)
                carried = replace(carried, gone_turns=_count_gone_turns(store, former))
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


def _count_gone_turns(store: Store, former: Sequence[Path]) -> int:
    """Return how many turns of a damaged file can't be read again; 0 if the file does not say."""
    for path in former:
        with opened_source(store, path) as source, contextlib.suppress(EngramError, *UNREADABLE):
            return len(gone_turns(source))
    return 0


def require_database(backup: Path) -> None:
    """Raise BadRequest for a file that is not an SQLite database."""
    if not (read_regular(backup, 16) or b"").startswith(b"SQLite format 3\0"):
        raise BadRequest(f"{backup} is not a backup of memory.db")


def _copy_file(backup: Path, new: Path, driver: str) -> None:
    """Copy a backup, with its write-ahead log if there is one, and check the copy. Raises BadRequest."""
    require_database(backup)
    try:
        copy_files(backup, new)
    except OSError as error:
        raise BadRequest(f"{backup} can't be copied: {explain_error(error, new)}") from error
    copy = Store(new, driver=driver)
    try:
        copy.open()
        damage = mend_indexes(copy) or find_unreadable(copy)
    except EngramError as error:
        damage = str(error)
    finally:
        copy.close()
    if damage:
        raise BadRequest(f"{backup} is not a sound backup of memory.db: {damage}")


def _drop_side_files(new: Path) -> None:
    """Delete the side files of a closed database. SQLite may leave an empty log behind."""
    for suffix in ("-wal", "-shm"):
        new.with_name(new.name + suffix).unlink(missing_ok=True)
