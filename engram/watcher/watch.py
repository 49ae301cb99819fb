"""The watcher: reads what transcripts grow by and rings at the worker; one a memory folder."""

from __future__ import annotations

import contextlib
import logging
import os
import select
import signal
import sys
import time
from pathlib import Path

from engram.errors import AlreadyRunning, BrokenDatabase, EngramError, StoreError
from engram.failpoint import reach
from engram.ingest.service import IngestResult, ingest_file
from engram.log import start_logging
from engram.models.leases import is_overdue
from engram.models.replacement import using_database
from engram.models.sessions import paused_scopes
from engram.models.stages import note_damage, note_failure, note_success
from engram.models.store import Store, open_store
from engram.models.transcripts import all_cursors, note_gone
from engram.paths import Home
from engram.process_lock import EXIT_RESTART, ProcessLock
from engram.redaction import redact
from engram.settings import Settings
from engram.tasks.consolidate import consolidate
from engram.tasks.enqueue import enqueue_due
from engram.tasks.queue import huey
from engram.tasks.recollect import recollect
from engram.transcripts.agent import CLAUDE_CODE, Agent
from engram.transcripts.claude_code.discover import TranscriptFile, projects_folder
from engram.watcher.events import Events

logger = logging.getLogger(__name__)

#: Longest wait between two looks at the folder, in seconds.
LOOK_SECONDS = 5.0
#: Bytes of a transcript that are read at one time: keeps this process small.
CHUNK_BYTES = 256 * 1024
#: Longest wait of an enqueue for another writer of the queue, in seconds.
QUEUE_SECONDS = 1.0

#: Reasons of the ingest for which reading again would change nothing.
MUST_NOT_BE_READ = frozenset({"excluded", "paused", "not a transcript"})


class Watcher:
    """Reads transcripts that were hinted at (``step``) or have another size than when they were read (``sweep``)."""

    def __init__(self, settings: Settings, store: Store, *, agent: Agent = CLAUDE_CODE) -> None:
        """A watcher over an open memory; the queue must be bound."""
        self.settings = settings
        self.store = store
        self._agent = agent
        self._folder = projects_folder(settings.claude_folder)
        self.events = Events(self._folder, self.hint)
        self._hints: set[Path] = set()
        self._gone: set[Path] = set()
        #: Transcripts that must not be read: their size and the pauses then.
        self._passed_over: dict[Path, tuple[int, frozenset[str]]] = {}
        self._next_sweep = 0.0
        self._opened = store.file_identity()
        self._is_stopping = False
        self._pipe = os.pipe()
        os.set_blocking(self._pipe[0], False)
        os.set_blocking(self._pipe[1], False)

    # -- one step

    def hint(self, path: Path) -> None:
        """A transcript may have changed; may be called from any thread."""
        self._hints.add(path)
        self._wake()

    def step(self) -> list[IngestResult]:
        """Read every transcript that was hinted at, and ring for what that makes due.

        Raises:
            BrokenDatabase: memory.db is damaged. Any other error is noted, and the sweep tries again.
        """
        results = []
        while self._hints and not self._is_stopping:
            result = self._read(self._hints.pop())
            if result is not None:
                results.append(result)
                self._ring(result)
        return results

    def _read(self, path: Path) -> IngestResult | None:
        try:
            result = ingest_file(
                self.store, path, settings=self.settings, redact=redact, agent=self._agent, chunk_bytes=CHUNK_BYTES
            )
        except BrokenDatabase:
            raise
        except Exception as error:
            is_expected = isinstance(error, EngramError)
            logger.warning("action=ingest path=%s failed=%s", path, error, exc_info=None if is_expected else error)
            self._note_failure("ingest", f"{path.name}: {error}")
            return None
        if result.skipped in MUST_NOT_BE_READ:
            self._pass_over(path)
        if result.bytes_read:
            self._note_success(result)
        return result

    def _pass_over(self, path: Path) -> None:
        """Leave a transcript alone until it grows or a pause ends."""
        with contextlib.suppress(OSError, StoreError):
            self._passed_over[path] = (path.stat().st_size, paused_scopes(self.store))

    def _ring(self, result: IngestResult) -> None:
        """Enqueue what a read makes due; a queue that cannot be written is found behind by the next sweep."""
        if not result.session_id or not result.bytes_read:
            return
        reach("watch.enqueue")
        try:
            enqueue_due(self.store, self.settings, result.session_id)
            if result.calls and self.settings.inject and self._is_live(result.path):
                recollect(result.session_id)
        except BrokenDatabase:
            raise
        except Exception as error:  # noqa: BLE001 - the edge of the watcher's loop
            logger.warning("action=ring session=%s failed=%s", result.session_id, error)
            self._note_failure("queue", str(error))

    def _is_live(self, path: Path) -> bool:
        with contextlib.suppress(OSError):
            return time.time() - path.stat().st_mtime < self.settings.stale_seconds
        return False

    # -- the sweep

    def sweep(self) -> int:
        """Hint at every transcript whose size is not what was read, of any age; ring for all due work.

        Returns how many files were hinted at; ``step`` reads them. Opens no file.
        """
        if not self.settings.capture:
            return 0
        cursors = all_cursors(self.store)
        paused = paused_scopes(self.store)
        found: set[Path] = set()
        count = 0
        for file in sorted(self._find(), key=lambda one: one.changed_at_ns):
            found.add(file.path)
            if self._has_grown(file, cursors, paused):
                self._hints.add(file.path)
                count += 1
        self._note_gone(cursors, found)
        return count

    def _find(self) -> list[TranscriptFile]:
        return list(self._agent.find(self.settings.claude_folder, with_subagents=self.settings.subagents))

    def _has_grown(self, file: TranscriptFile, cursors: dict[Path, tuple[int, int]], paused: frozenset[str]) -> bool:
        known = cursors.get(file.path)
        if known is not None and known[1] == file.size:
            return False
        if known is None and not file.size:
            return False
        return self._passed_over.get(file.path) != (file.size, paused)

    def _note_gone(self, cursors: dict[Path, tuple[int, int]], found: set[Path]) -> None:
        self._gone -= found
        for path in cursors.keys() - found - self._gone:
            if not path.exists():
                note_gone(self.store, path, is_gone=True)
            self._gone.add(path)

    def ring(self) -> None:
        """Enqueue all work that is due by now, such as sessions that fell silent, and an overdue consolidation."""
        enqueue_due(self.store, self.settings)
        if is_overdue(self.store, "consolidate", self.settings.consolidate_seconds):
            consolidate()

    # -- the loop

    def run(self) -> int:
        """Follow the transcripts until ``stop``; returns the exit code."""
        while not self._is_stopping:
            try:
                if self.store.file_identity() != self._opened:
                    raise BrokenDatabase("memory.db was replaced")
                self._turn()
            except BrokenDatabase as error:
                logger.error("action=watch failed=%s", error)
                if self.store.file_identity() == self._opened:
                    note_damage(self.store)
                return EXIT_RESTART
            except Exception as error:
                logger.warning("action=watch failed=%s", error, exc_info=error)
                self._note_failure("watch", str(error))
            if not self._is_stopping and not self._hints:
                self._wait()
        self.events.stop()
        return 0

    def _turn(self) -> None:
        """One turn of the loop: keep the events coming, sweep when it is time, read."""
        if self.events.keep_up():
            self._next_sweep = 0.0
        now = time.monotonic()
        if now >= self._next_sweep:
            self._next_sweep = now + self.settings.sweep_seconds
            self.sweep()
            self._note_events()
            self.step()
            self.ring()
        else:
            self.step()

    def _note_events(self) -> None:
        if self.events.error and self._folder.is_dir():
            self._note_failure(
                "watch", f"no events, a sweep every {self.settings.sweep_seconds} s: {self.events.error}"
            )
        else:
            with contextlib.suppress(StoreError):
                note_success(self.store, "watch", seen=1, done=1)

    def _wait(self) -> None:
        left = max(0.0, min(LOOK_SECONDS, self._next_sweep - time.monotonic()))
        poller = select.poll()
        poller.register(self._pipe[0], select.POLLIN)
        poller.poll(left * 1000)
        with contextlib.suppress(OSError):
            os.read(self._pipe[0], 4096)

    def _wake(self) -> None:
        with contextlib.suppress(OSError):
            os.write(self._pipe[1], b"!")

    def stop(self) -> None:
        """End the loop after the transcript at hand; may be called from a signal handler."""
        self._is_stopping = True
        self._wake()

    def close(self) -> None:
        """Give back the observer and the pipe."""
        self.events.stop()
        for descriptor in self._pipe:
            os.close(descriptor)

    def _note_success(self, result: IngestResult) -> None:
        with contextlib.suppress(StoreError):
            note_success(self.store, "ingest", seen=result.entries, done=result.new_turns + result.grown_turns)

    def _note_failure(self, stage: str, error: str) -> None:
        with contextlib.suppress(StoreError):
            note_failure(self.store, stage, error)


def run_watcher(settings: Settings) -> int:
    """Run until SIGTERM or SIGINT; call it in a process of its own, from the main thread.

    Returns:
        0 after a clean stop, or at once where another watcher runs; 75 where it is to be started again.

    Raises:
        HomeError: the memory folder cannot be used.
        StoreError: memory.db cannot be opened.
    """
    os.umask(0o077)
    home = settings.places.prepare()
    try:
        lock = ProcessLock(home.watcher_lock)
    except AlreadyRunning:
        sys.stderr.write("a watcher is already running; this one ends\n")
        return 0
    start_logging(home.logs, "watcher", settings.log_level, redact)
    with using_database(home.memory_db) as log_damage:
        return _watch(settings, home, lock, log_damage)


def _watch(settings: Settings, home: Home, lock: ProcessLock, log_damage: str) -> int:
    """Open the memory and watch until something says stop."""
    try:
        store = open_store(home.memory_db, driver=settings.sqlite_driver)
    except BrokenDatabase as error:
        logger.error("action=open failed=%s", error)
        return EXIT_RESTART
    if log_damage:
        note_failure(store, "memory", log_damage)
    huey.bind(home, settings.sqlite_driver, busy_seconds=QUEUE_SECONDS)
    watcher = Watcher(settings, store)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: watcher.stop())
    logger.info("action=start pid=%d folder=%s", os.getpid(), settings.projects_folder)
    try:
        return watcher.run()
    finally:
        watcher.close()
        huey.storage.close()
        store.close()
        lock.release()
        logger.info("action=end")
