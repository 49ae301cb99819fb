"""The worker: Huey's consumer in threads, the model loaded once, engram.sock; one a memory folder."""

from __future__ import annotations

import contextlib
import logging
import os
import signal
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

from engram.errors import AlreadyRunning, BrokenDatabase
from engram.log import start_logging
from engram.models.replacement import using_database
from engram.models.stages import note_damage, note_failure
from engram.models.store import Store
from engram.paths import Home
from engram.process_lock import ProcessLock
from engram.redaction import redact
from engram.settings import Settings
from engram.tasks.boundary import run_guarded
from engram.tasks.consumer import EngramConsumer
from engram.tasks.in_progress import clear_dead_leases
from engram.tasks.queue import EngramQueue, huey
from engram.tasks.runtime import Runtime, make_runtime, set_runtime
from engram.worker.housekeeping import Housekeeper
from engram.worker.memory_file import open_or_set_aside
from engram.worker.rss import give_back_memory, limit_arenas, limit_matrix_threads
from engram.worker.server import RecallServer

logger = logging.getLogger(__name__)

#: What a worker returns that wants to be started again (EX_TEMPFAIL).
EXIT_AGAIN = 75
#: How long a thread may hold the interpreter, in seconds: short, so that a recall never waits for an import.
SWITCH_SECONDS = 0.0005


def run_worker(settings: Settings, *, make: Callable[[Settings, Store], Runtime] = make_runtime) -> int:
    """Run until SIGTERM or SIGINT; call it in a process of its own, from the main thread.

    Args:
        make: lays on the services; compiles the model first where that was not done yet.

    Returns:
        0 after a clean stop, or at once where another worker runs; 75 where it is to be started again: its memory
        passed the limit, memory.db proved damaged, or a task did not finish within ``drain_seconds``.

    Raises:
        HomeError: the memory folder cannot be used.
        StoreError: memory.db cannot be opened, or is newer than this program.
    """
    os.umask(0o077)
    home = settings.places.prepare()
    try:
        lock = ProcessLock(home.worker_lock)
    except AlreadyRunning:
        sys.stderr.write("a worker is already running; this one ends\n")
        return 0
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, _end_while_starting)
    start_logging(home.logs, "worker", settings.log_level, redact)
    # Huey tells each step of each task; one line a task is enough.
    logging.getLogger("huey").setLevel(logging.WARNING)
    sys.setswitchinterval(SWITCH_SECONDS)
    limit_arenas()
    limit_matrix_threads()
    link_python(home)
    with using_database(home.memory_db) as log_damage:
        store = open_or_set_aside(home, settings)
        if log_damage:
            note_failure(store, "memory", log_damage)
        try:
            clear_dead_leases(store)
            _move_saved_notes(home)
            runtime = make(settings, store)
        except BrokenDatabase as error:
            logger.error("action=start failed=%s", error)
            note_damage(store)
            return EXIT_AGAIN
        code, is_quiet = EXIT_AGAIN, False
        try:
            code, is_quiet = _serve(runtime)
        finally:
            if is_quiet:
                store.close()
            lock.release()
        if not is_quiet:
            _end_now(code)
    return code


def _end_now(code: int) -> NoReturn:
    """End the process without ending its interpreter: a thread that comes back from the model would abort it.

    Everything that counts is committed; SQLite's log is read by the next process.
    """
    logging.shutdown()
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):
            stream.flush()
    os._exit(code)


def _move_saved_notes(home: Home) -> None:
    """Give notes that an earlier version saved inside the daily log files of their own."""
    from engram.notes.daily import move_saved_notes

    try:
        moved = move_saved_notes(home)
    except OSError as error:
        logger.warning("action=move_saved_notes failed=%s", error)
    else:
        if moved:
            logger.info("action=move_saved_notes files=%d", moved)


def _end_while_starting(*_: object) -> None:
    """A signal before the consumer listens: nothing runs yet, so end at once. The consumer replaces this."""
    raise SystemExit(0)


def _serve(runtime: Runtime) -> tuple[int, bool]:
    """Answer and work until something says stop; returns the exit code, and False where a thread is still at work."""
    settings = runtime.settings
    queue = bind_queue(settings)
    queue.on_reject = lambda reason: note_failure(runtime.store, "queue", reason)
    set_runtime(runtime)
    queue.storage.listen()
    loader = threading.Thread(target=runtime.executor.run, args=("load", lambda: _load_vectors(runtime)), daemon=True)
    loader.start()
    server = RecallServer(runtime).start()
    consumer = EngramConsumer(queue, settings.drain_seconds)
    reasons: list[str] = []

    def stop(reason: str) -> None:
        if not reasons:
            logger.warning("action=stop reason=%s", reason)
            reasons.append(reason)
            consumer.stop_flag.set()

    housekeeper = Housekeeper(runtime, queue, server, stop).start()
    closer = threading.Thread(target=_close_lane_on_stop, args=(runtime, consumer), daemon=True)
    closer.start()
    logger.info("action=start pid=%d model=%s", os.getpid(), runtime.embedder.model_id if runtime.embedder else "")
    consumer.run()
    loader.join(settings.drain_seconds)
    has_drained = runtime.model_executor.wait(settings.drain_seconds) and consumer.has_drained
    housekeeper.close()
    has_answered = server.close()
    queue.storage.stop_listening()
    queue.storage.close()
    set_runtime(None)
    code = EXIT_AGAIN if reasons or not has_drained else 0
    logger.info("action=end exit=%d", code)
    return code, has_answered and consumer.has_drained and not loader.is_alive()


def _load_vectors(runtime: Runtime) -> None:
    """Read the vectors while questions are answered already, by text and what has been read; heavy tasks stand in line."""
    run_guarded(runtime, "search", "", runtime.refresh_index)
    give_back_memory()


def _close_lane_on_stop(runtime: Runtime, consumer: EngramConsumer) -> None:
    """When the consumer stops, let a long heavy task end at its next step."""
    consumer.stop_flag.wait()
    runtime.stop_executors()


def bind_queue(settings: Settings) -> EngramQueue:
    """The queue of the settings' memory folder, with every task known to it."""
    from engram.tasks import consolidate, embed, extract, flush, index_notes, ingest, recollect, refresh, scan

    del consolidate, embed, extract, flush, index_notes, ingest, recollect, refresh, scan
    return huey.bind(settings.places, settings.sqlite_driver)


def link_python(home: Home) -> None:
    """Keep ``python`` in the memory folder a link to the interpreter that runs this, for the hooks."""
    target = Path(os.path.realpath(sys.executable))
    with contextlib.suppress(OSError):
        if home.python_link.is_symlink() and os.readlink(home.python_link) == str(target):
            return
        temporary = home.root / f".python.{os.getpid()}.tmp"
        temporary.unlink(missing_ok=True)
        temporary.symlink_to(target)
        os.replace(temporary, home.python_link)
