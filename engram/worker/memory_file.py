"""Open memory.db in the worker: upgrade an older file, replace a damaged one (keeping manual changes), back it up."""

from __future__ import annotations

import contextlib
import logging
import os
import signal
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from engram.errors import BrokenDatabase, OlderSchema, StoreError
from engram.models.engine.database import check_missing, is_replaced, using_database
from engram.models.engine.transaction import Store
from engram.models.hub.carried_hubs import carry_hubs
from engram.models.open_memory import open_store
from engram.models.rescue.backup import (
    Backup,
    has_content,
    list_backups,
    make_backup,
    make_copy_before_upgrade,
    newest_backup_ms,
)
from engram.models.rescue.carry_over import Recovered
from engram.models.rescue.restore import clean_after_swap, note_rescue, rebuild_memory
from engram.models.rescue.soundness import find_all_damage, quick_damage, rebuild_all_indexes
from engram.models.work.task_runs import clear_old_news, list_stages, note_failure, note_success
from engram.models.work.work import is_overdue, release_lease, take_lease
from engram.paths import Home
from engram.reports.processes import OtherProcess, parent_of, processes_of_other_code
from engram.settings import Settings
from engram.system.atomic import drop_leftovers
from engram.system.clock import SYSTEM_CLOCK, Clock, day_of
from engram.trust.display import number_of

if TYPE_CHECKING:
    from engram.tasks.runtime import Runtime

logger = logging.getLogger(__name__)

#: Name given to a damaged memory.db; if it is taken, a time is appended.
BROKEN_NAME = "memory.broken.db"
#: Age at which a temporary file is deleted, in seconds; by then, the process that wrote it has exited.
LEFTOVER_SECONDS = 600
#: Size in bytes above which a file is checked once a day instead of at every start.
LARGE_BYTES = 100_000_000
#: Maximum time that an upgrade waits for a process of another version to exit, in seconds; it may already be stopping.
OTHERS_SECONDS = 20.0
_POLL_SECONDS = 0.1


def open_upgraded(
    home: Home, settings: Settings, *, clock: Clock = SYSTEM_CLOCK, wait_seconds: float = 0.0, is_service: bool = False
) -> Store:
    """Open memory.db, after backing up and upgrading a file from an earlier version.

    Args:
        settings: determine the SQLite driver.
        wait_seconds: how long to wait for a worker or watcher of another version to exit.
        is_service: whether to kill sibling processes of another version, which the service manager then restarts.
            Without this, a worker restarted after an update would wait forever for its watcher.

    Raises:
        OlderSchema: an earlier version wrote the file, and a worker or watcher of another version is running; the file
            is unchanged.
        BrokenDatabase: the file is damaged.
        StoreError: the file can't be opened or backed up.
    """
    driver = settings.sqlite_driver
    try:
        return open_store(home.memory_db, driver=driver, clock=clock, may_upgrade=False)
    except OlderSchema as error:
        version = error.version
    until = time.monotonic() + wait_seconds
    while others := processes_of_other_code(home, ("worker", "watcher")):
        if time.monotonic() >= until:
            raise OlderSchema(
                f"memory.db was written by an earlier version of Engram, and another version's {others[0].described} "
                "is still running: memory.db is left unchanged. Run `engram install`, which stops it; or stop it first",
                version,
            )
        if is_service:
            _end_siblings(others)
        time.sleep(_POLL_SECONDS)
    copy = make_copy_before_upgrade(home.memory_db, home.backups, version, driver=driver)
    logger.info("action=upgrade from=%d copy=%s", version, copy.path.name)
    return open_store(home.memory_db, driver=driver, clock=clock)


def _end_siblings(others: Sequence[OtherProcess]) -> None:
    """Kill the processes with the same parent as this one, because they would not be restarted after a clean exit."""
    for other in others:
        if other.pid is not None and parent_of(other.pid) == os.getppid():
            logger.warning("action=end_sibling process=%s pid=%d code=%s", other.name, other.pid, other.code)
            with contextlib.suppress(ProcessLookupError):
                os.kill(other.pid, signal.SIGKILL)


def upgrade_memory(home: Home, settings: Settings) -> Path | None:
    """Upgrade a memory.db from an earlier version; return the backup that was made first, if any.

    A damaged file is left to the worker.

    Raises:
        MissingDatabase: the file was deleted, but there are backups of it.
        OlderSchema, StoreError: as in ``open_upgraded``.
    """
    if not os.path.lexists(home.memory_db) and not is_replaced(home.memory_db):
        check_missing(home.memory_db)
        return None
    before = {backup.path for backup in list_backups(home.backups)}
    with contextlib.suppress(BrokenDatabase), using_database(home.memory_db):
        open_upgraded(home, settings).close()
    made = [backup.path for backup in list_backups(home.backups) if backup.path not in before]
    return made[0] if made else None


def open_or_set_aside(
    home: Home, settings: Settings, *, clock: Clock = SYSTEM_CLOCK, is_service: bool = False
) -> Store:
    """Open memory.db; if it is damaged, move it to ``memory.broken.db`` and create a new one. Hold the worker's lock.

    The transcripts are then read again. Memories that were saved, pinned, edited or forgotten by hand, and those whose
    transcripts are gone, are carried over from the backups and the readable part of the damaged file.

    Raises:
        OlderSchema: an earlier version wrote the file, and that version's watcher does not stop.
        StoreError: the file can't be opened for another reason.
    """
    drop_leftovers(home.root, LEFTOVER_SECONDS)
    try:
        store = open_upgraded(home, settings, clock=clock, wait_seconds=OTHERS_SECONDS, is_service=is_service)
        damage = _damage_of(store)
        if not damage:
            clean_after_swap(store)
            return store
        store.close()
    except BrokenDatabase as error:
        damage = str(error)
    backups = list_backups(home.backups)
    aside, _ = rebuild_memory(
        home.memory_db,
        BROKEN_NAME,
        [backup.path for backup in backups],
        partial(_note_rebuilt, backups),
        driver=settings.sqlite_driver,
        carry_more=carry_hubs,
    )
    logger.error("action=set_aside path=%s reason=%s", aside, damage)
    return open_store(home.memory_db, driver=settings.sqlite_driver, clock=clock)


def _note_rebuilt(backups: list[Backup], store: Store, aside: Path, carried: Recovered) -> None:
    """Record in the new memory what happened to the old one and what may be missing from it."""
    logger.info("action=recover memories=%d tombstones=%d lost=%d", carried.memories, carried.tombstones, carried.lost)
    missing = f"; {number_of(carried.lost, 'memory')} could not be read" if carried.lost else ""
    if not carried.is_complete:
        missing += (
            "; the damaged file could not be read to its end, so that what you kept since the backup may be missing"
        )
    if carried.gone_turns:
        turns = number_of(carried.gone_turns, "turn")
        missing += f"; {turns}, whose transcripts are gone, can't be read again"
    backup = "there is no backup"
    if backups:
        newest = backups[0]
        backup = f"`engram restore {newest.path.name}` restores the whole backup of {day_of(newest.made_at_ms)}"
    kept = number_of(carried.memories, "memory")
    with store.transaction() as tx:
        note_rescue(
            tx,
            aside,
            f"memory.db was damaged and is now {aside.name}; the transcripts are read again, {kept} came back "
            f"that were kept by hand or whose transcripts are gone{missing}; {backup}",
        )


def _is_large(path: Path) -> bool:
    with contextlib.suppress(OSError):
        return os.lstat(path).st_size > LARGE_BYTES
    return False


def _damage_of(store: Store) -> str:
    """Return what is wrong with the file; "" if nothing is. Rebuild damaged indexes.

    Unless damage is already suspected, only a quick check is made. It is skipped for a large file, because it takes 5 s
    per GB; the daily backup checks such a file.
    """
    suspected = "".join(stage.last_error for stage in list_stages(store) if stage.name == "memory")
    if not suspected and _is_large(store.path):
        return ""
    damage = _quick_damage(store)
    if not damage and not suspected:
        return ""
    if damage and not _is_of_index(damage):
        return damage
    if damage or find_all_damage(store):
        logger.warning("action=rebuild_indexes reason=%s", damage or "an index does not match its rows")
        with contextlib.suppress(StoreError):
            rebuild_all_indexes(store)
        damage = find_all_damage(store)
        if not damage:
            note_success(store, "memory")
    else:
        note_success(store, "memory")
    return damage


def _quick_damage(store: Store) -> str:
    try:
        return quick_damage(store)
    except BrokenDatabase as error:
        return str(error)


def _is_of_index(damage: str) -> bool:
    return "fts5" in damage.lower() or "vtable" in damage.lower()


# -- The daily backup.

#: Seconds between two backups.
BACKUP_EVERY_SECONDS = 86_400
#: How long a backup may hold its lease, in seconds.
BACKUP_LEASE_SECONDS = 1800
#: Seconds until a failed backup is retried.
BACKUP_AGAIN_SECONDS = 900


class DailyBackup:
    """Backs up a memory once a day; ``run_if_due`` is cheap while nothing is due."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._not_before_seconds = 0.0

    def run_if_due(self) -> bool:
        """Make a backup if the last one is a day old and the memory is not empty; return True if one was made.

        A failure is recorded and retried. A damaged memory.db is reported to the runtime, so that the worker stops and
        the next start sets the file aside. Raises StoreError if memory.db can't be read.
        """
        store = self._runtime.store
        steady = store.clock.steady_seconds()
        if (
            steady < self._not_before_seconds
            or not is_overdue(store, "backup", self._every_seconds())
            or not has_content(store)
        ):
            return False
        since_ms = store.now_ms() - newest_backup_ms(store, self._runtime.settings.places.backups)
        if 0 <= since_ms < BACKUP_EVERY_SECONDS * 1000:
            # A restored memory.db doesn't know of backups that were made after it. Another backup would displace an
            # older one.
            self._not_before_seconds = steady + BACKUP_AGAIN_SECONDS
            return False
        owner = f"{os.getpid()}-{id(self)}"
        if not take_lease(store, "backup", owner, BACKUP_LEASE_SECONDS, every_seconds=self._every_seconds()):
            return False
        self._not_before_seconds = steady + BACKUP_AGAIN_SECONDS
        has_run = False
        try:
            made = make_backup(store, self._runtime.settings.places.backups)
            has_run = True
            note_success(store, "backup", seen=1, done=1)
            clear_old_news(store, BACKUP_EVERY_SECONDS)
            logger.info("action=backup path=%s bytes=%d", made.path.name, made.size)
        except BrokenDatabase as error:
            logger.error("action=backup failed=%s", error)
            self._runtime.is_damaged.set()
        except StoreError as error:
            logger.warning("action=backup failed=%s", error)
            note_failure(store, "backup", str(error))
        finally:
            release_lease(store, "backup", owner, has_run=has_run)
        return has_run

    def _every_seconds(self) -> int:
        """Return the interval between backups, in seconds: a day, or 0 if there is no backup yet."""
        return BACKUP_EVERY_SECONDS if list_backups(self._runtime.settings.places.backups) else 0
