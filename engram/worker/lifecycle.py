"""Start and stop the worker's services in Huey's startup and shutdown hooks, which work for every way to start it."""

from __future__ import annotations

import contextlib
import logging
import os
import sys
import threading
from collections.abc import Callable

from engram.errors import AlreadyRunning, BrokenDatabase
from engram.log import start_logging
from engram.models.engine.database import using_database
from engram.models.engine.transaction import Store
from engram.models.work.task_runs import note_damage, note_failure, note_lost_writes
from engram.paths import Home
from engram.redaction import redact
from engram.settings import Settings
from engram.system.process_limits import give_back_memory, limit_arenas, limit_matrix_threads
from engram.system.process_lock import EXIT_RESTART, Heartbeat, ProcessLock, end_now
from engram.tasks.consumer import SCHEDULER_SECONDS, WORKERS, EngramConsumer
from engram.tasks.queue import huey
from engram.tasks.runtime import Runtime, make_runtime, recover_from_crash, run_guarded, set_runtime
from engram.version import code_version
from engram.worker.housekeeping import Housekeeper, link_python
from engram.worker.memory_file import open_or_set_aside
from engram.worker.socket_server import RecallServer
from engram.worker.worker_client import announce_worker

logger = logging.getLogger(__name__)

#: How long a thread may hold the interpreter, in seconds; this is short, so that no recall waits for an import.
SWITCH_SECONDS = 0.0005
#: How long a sync may take to reach its next step and stop, in seconds.
HUB_DRAIN_SECONDS = 1.0


class WorkerServices:
    """All parts of a worker except the threads that run tasks: lock, log, memory, model, sockets, housekeeping."""

    def __init__(self, consumer: EngramConsumer) -> None:
        self._consumer = consumer
        self._settings = consumer.settings
        self._runtime: Runtime | None = None
        self._opened = contextlib.ExitStack()

    def start(self) -> None:
        """Open everything, starting with the lock; close everything again on failure or interruption.

        Raises:
            AlreadyRunning: another worker is running for this memory folder.
            HomeError: the memory folder can't be used.
            StoreError: memory.db can't be opened, or is newer than this program.
        """
        with contextlib.ExitStack() as opened:
            self._open(opened)
            self._opened = opened.pop_all()

    def _open(self, opened: contextlib.ExitStack) -> None:
        os.umask(0o077)
        home = self._settings.places.prepare(must_exist=self._consumer.has_parent)
        lock = _take_lock(home)
        opened.callback(lock.release)
        self._heartbeat = Heartbeat(lock)
        _start_log(home, self._settings.log_level)
        sys.setswitchinterval(SWITCH_SECONDS)
        limit_arenas()
        limit_matrix_threads()
        link_python(home)
        log_damage = opened.enter_context(using_database(home.memory_db))
        store = open_or_set_aside(home, self._settings, is_service=self._consumer.has_parent or _is_service())
        opened.callback(store.close)
        if log_damage:
            note_lost_writes(store, log_damage)
        try:
            recover_from_crash(store)
            _move_saved_notes(home)
            runtime = self._consumer.make_runtime(self._settings, store)
        except BrokenDatabase as error:
            note_damage(store)
            self._consumer.request_restart(f"memory.db is damaged: {error}")
            return
        self._offer(runtime, store, opened)

    def _offer(self, runtime: Runtime, store: Store, opened: contextlib.ExitStack) -> None:
        """Make the services available to tasks and clients."""
        set_runtime(runtime)
        opened.callback(set_runtime, None)
        huey.on_reject = lambda reason: note_failure(store, "queue", reason)
        opened.callback(huey.storage.close)
        huey.storage.listen()
        opened.callback(huey.storage.stop_listening)
        self._consumer.on_stop = runtime.stop_executors
        self._server = RecallServer(runtime).start()
        opened.callback(self._server.close)
        self._loader = threading.Thread(
            target=runtime.executor.run, args=("load", lambda: _load_vectors(runtime)), name="loader", daemon=True
        )
        self._loader.start()
        self._housekeeper = Housekeeper(
            runtime,
            huey,
            self._server,
            stop=self._consumer.request_restart,
            end=self._consumer.request_end,
            beat=self._heartbeat.beat,
        ).start()
        opened.callback(self._housekeeper.close)
        self._runtime = runtime
        self._heartbeat.announce_ready()
        model_id = runtime.embedder.model_id if runtime.embedder else ""
        logger.info("action=start pid=%d model=%s", os.getpid(), model_id)

    def stop(self) -> None:
        """Close everything; exit the process immediately if a thread is still busy in the model or a task.

        The same if the log of memory.db was deleted: closing the last connection would delete the log that another
        process has begun since.
        """
        self._heartbeat.announce_stop()
        is_quiet = self._runtime is None or self._end_threads(self._runtime)
        logger.info("action=end exit=%d", self._consumer.exit_code)
        if self._consumer.exit_code == EXIT_RESTART:
            announce_worker(self._settings.places)
        if is_quiet and (self._runtime is None or not self._housekeeper.is_log_displaced):
            self._opened.close()
        else:
            huey.storage.stop_listening()
            end_now(self._consumer.exit_code)

    def _end_threads(self, runtime: Runtime) -> bool:
        """Wait a limited time for every thread; return False if one is still running."""
        consumer = self._consumer
        self._loader.join(self._settings.drain_seconds)
        has_drained = runtime.model_executor.wait(self._settings.drain_seconds) and consumer.has_drained
        self._housekeeper.close()
        has_answered = self._server.close()
        if not has_drained:
            consumer.exit_code = EXIT_RESTART
        # A sync can be interrupted at any point, so a sync that is waiting for its hub ends with the process.
        has_answered = runtime.hub_executor.wait(HUB_DRAIN_SECONDS) and has_answered
        return has_answered and consumer.has_drained and not self._loader.is_alive()


_services: WorkerServices | None = None


@huey.on_startup()
def start_services() -> None:
    """Start this worker's services once, before the first task."""
    global _services
    if huey.consumer is not None:
        services = WorkerServices(huey.consumer)
        services.start()
        _services = services


@huey.on_shutdown()
def stop_services() -> None:
    """Stop this worker's services after the last task."""
    global _services
    services, _services = _services, None
    if services is not None:
        services.stop()


def _take_lock(home: Home) -> ProcessLock:
    """Take the worker's lock. Raises AlreadyRunning with a message for the user."""
    try:
        return ProcessLock(home.worker_lock, code_version())
    except AlreadyRunning as error:
        raise AlreadyRunning(f"a worker is already running for {home.root}; this one exits") from error


def _is_service() -> bool:
    """Return True if systemd or launchd itself started this process."""
    by_launchd = os.environ.get("XPC_SERVICE_NAME", "").startswith("recall.engram")
    return by_launchd or os.environ.get("SYSTEMD_EXEC_PID") == str(os.getpid())


def _start_log(home: Home, level: str) -> None:
    start_logging(home.logs, "worker", level, redact)
    for handler in logging.getLogger().handlers:
        # Huey logs each step of each task; worker.log has one line per task.
        handler.addFilter(lambda record: record.levelno >= logging.WARNING or not record.name.startswith("huey"))


def _load_vectors(runtime: Runtime) -> None:
    """Load the vectors. Meanwhile, questions use the text index and the vectors loaded so far, and heavy tasks wait."""
    run_guarded(runtime, "load_vectors", "", runtime.refresh_index, stage="search")
    give_back_memory()


def _move_saved_notes(home: Home) -> None:
    """Move notes that an earlier version saved inside the daily log to separate files."""
    from engram.notes.daily_log import move_saved_notes

    try:
        moved = move_saved_notes(home)
    except OSError as error:
        logger.warning("action=move_saved_notes failed=%s", error)
    else:
        if moved:
            logger.info("action=move_saved_notes files=%d", moved)


# -- ``engram service run worker``: like ``huey_consumer engram.tasks.queue.huey``, with Engram's defaults.


def run_worker(
    settings: Settings, *, make: Callable[[Settings, Store], Runtime] = make_runtime, has_parent: bool = False
) -> int:
    """Run until SIGTERM or SIGINT; must be called in its own process, from the main thread.

    Args:
        has_parent: True if a supervisor started this process, in which case a missing memory folder is not recreated.

    Returns:
        0 after a clean stop, or if the memory folder is gone; also 0, immediately, if another worker is running; 75 if
        the worker must be restarted because it exceeded its memory limit, memory.db is damaged, or a task did not
        finish within ``drain_seconds``.

    Raises:
        HomeError: the memory folder can't be used.
        StoreError: memory.db can't be opened, or is newer than this program.
    """
    logging.getLogger("huey").setLevel(logging.WARNING)
    consumer = huey.create_consumer(
        settings=settings,
        make_runtime=make,
        has_parent=has_parent,
        workers=WORKERS,
        scheduler_interval=SCHEDULER_SECONDS,
    )
    return consumer.serve()
