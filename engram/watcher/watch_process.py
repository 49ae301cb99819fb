"""Run the watcher as a process (``engram service run watcher``), one for each memory folder."""

from __future__ import annotations

import logging
import os
import signal
import sys
import time

from engram.errors import AlreadyRunning, BrokenDatabase, MissingDatabase, OlderSchema
from engram.log import start_logging
from engram.models.engine.database import using_database
from engram.models.engine.transaction import Store
from engram.models.open_memory import open_store
from engram.models.work.task_runs import note_lost_writes
from engram.paths import Home
from engram.redaction import redact
from engram.settings import Settings
from engram.system.process_lock import EXIT_RESTART, Heartbeat, ProcessLock, end_now
from engram.tasks.queue import huey
from engram.version import code_version
from engram.watcher.watch import Watcher

logger = logging.getLogger(__name__)

#: Maximum time that an enqueue waits for another writer of the queue, in seconds.
QUEUE_SECONDS = 1.0
#: Size of the page cache for memory.db, in KB; it is small, because storing new lines needs few lookups.
CACHE_KB = 512
#: How often a memory.db from an earlier version is checked again, in seconds.
UPGRADE_POLL_SECONDS = 0.5


def run_watcher(settings: Settings, *, has_parent: bool = False) -> int:
    """Run until SIGTERM or SIGINT; must be called in its own process, from the main thread.

    Args:
        has_parent: True if a supervisor started the watcher, in which case a missing memory folder is not recreated.

    Returns:
        0 after a clean stop, if the memory folder is gone, or immediately if another watcher is running; 75 if the
        watcher must be restarted.

    Raises:
        HomeError: the memory folder can't be used.
        StoreError: memory.db can't be opened.
    """
    os.umask(0o077)
    home = settings.places.prepare(must_exist=has_parent)
    try:
        lock = ProcessLock(home.watcher_lock, code_version())
    except AlreadyRunning:
        sys.stderr.write(f"a watcher is already running for {home.root}; this one exits\n")
        return 0
    start_logging(home.logs, "watcher", settings.log_level, redact)
    with using_database(home.memory_db) as log_damage:
        return _watch(settings, home, lock, log_damage)


def _open_when_upgraded(settings: Settings, home: Home, lock: ProcessLock) -> Store:
    """Open memory.db; if an earlier version wrote it, wait until the worker has brought it up to date.

    A signal ends the process even while it waits. Raises StoreError.
    """
    has_said = False
    while True:
        try:
            return open_store(home.memory_db, driver=settings.sqlite_driver, cache_kb=CACHE_KB, may_upgrade=False)
        except OlderSchema as error:
            if not has_said:
                logger.warning("action=wait reason=%s", error)
                has_said = True
        lock.touch()
        time.sleep(UPGRADE_POLL_SECONDS)


def _watch(settings: Settings, home: Home, lock: ProcessLock, log_damage: str) -> int:
    """Open the memory and watch until a signal arrives or memory.db is damaged."""
    try:
        store = _open_when_upgraded(settings, home, lock)
    except MissingDatabase as error:
        # Exit with 0, so that a service manager does not restart this process again and again.
        logger.error("action=open failed=%s", error)
        sys.stderr.write(f"{error}\n")
        return 0
    except BrokenDatabase as error:
        logger.error("action=open failed=%s", error)
        return EXIT_RESTART
    if log_damage:
        note_lost_writes(store, log_damage)
    huey.bind(home, settings.sqlite_driver, busy_seconds=QUEUE_SECONDS)
    heartbeat = Heartbeat(lock)
    watcher = Watcher(settings, store, beat=heartbeat.beat)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: watcher.stop())
    logger.info("action=start pid=%d folder=%s", os.getpid(), settings.projects_folder)
    heartbeat.announce_ready()
    try:
        return watcher.run()
    finally:
        heartbeat.announce_stop()
        watcher.close()
        if watcher.is_log_displaced:
            end_now(EXIT_RESTART)
        huey.storage.close()
        store.close()
        lock.release()
        logger.info("action=end")
