"""The supervisor in the background: one for each memory folder; it keeps the worker and the watcher running."""

from __future__ import annotations

import logging
import os
import signal
import threading
from collections.abc import Sequence
from pathlib import Path

from engram.errors import AlreadyRunning
from engram.log import start_logging
from engram.models.file_checks import is_deleted
from engram.process_lock import ProcessLock
from engram.redaction import redact
from engram.services.definition import engram_command
from engram.services.supervisor import Child, Supervisor
from engram.settings import Settings
from engram.version import code_version

logger = logging.getLogger(__name__)

#: Time between two looks at the children, in seconds.
LOOK_SECONDS = 1.0


def run_supervisor(settings: Settings, arguments: Sequence[str] = ()) -> int:
    """Run until SIGTERM, SIGINT or SIGHUP, or until the memory folder is gone; call it from the main thread.

    Args:
        settings: whose memory folder counts.
        arguments: global flags for both children.

    Returns:
        0 after a clean stop, 1 if a child had to be killed.

    Raises:
        AlreadyRunning: a supervisor runs for this memory folder.
        HomeError: the memory folder can't be used.
    """
    os.umask(0o077)
    home = settings.places.prepare()
    try:
        lock = ProcessLock(home.supervisor_lock, code_version())
    except AlreadyRunning as error:
        raise AlreadyRunning(f"a supervisor is already running for {home.root}; this one ends") from error
    start_logging(home.logs, "supervisor", settings.log_level, redact)
    stopping = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, lambda *_: stopping.set())
    locks = {"watch": home.watcher_lock, "work": home.worker_lock}
    supervisor = Supervisor(
        [Child(name, engram_command(arguments, name), is_kept=True, lock=path) for name, path in locks.items()]
    )
    logger.info("action=start pid=%d", os.getpid())
    try:
        _keep_running(supervisor, lock, stopping, home.memory_db)
    finally:
        was_clean = supervisor.stop()
        # The lock is held until the process is gone: whoever waits for it waits for all three.
        logger.info("action=end clean=%s", was_clean)
    return 0 if was_clean else 1


def _keep_running(supervisor: Supervisor, lock: ProcessLock, stopping: threading.Event, memory_db: Path) -> None:
    """Look after the children every second. Without its lock file the memory folder is gone: nothing is made anew.

    Nor is a memory.db that was deleted beside its backups: the children end, and would be started again for ever.
    """
    supervisor.start()
    starts = dict.fromkeys((child.name for child in supervisor.children), 1)
    while not stopping.wait(LOOK_SECONDS) and lock.is_in_place() and not is_deleted(memory_db):
        lock.touch()
        try:
            supervisor.look()
        except OSError as error:
            # No process or file left on this machine: try again.
            logger.warning("action=look failed=%s", error)
        for child in supervisor.children:
            if child.starts != starts[child.name]:
                starts[child.name] = child.starts
                logger.warning(
                    "action=restart process=%s starts=%d said=%s", child.name, child.starts, child.last_words
                )
