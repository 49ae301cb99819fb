"""The watcher: reads what is new in the agents' sessions and enqueues work for the worker. One per memory folder."""

from __future__ import annotations

import contextlib
import logging
import os
import select
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from engram.errors import BrokenDatabase, EngramError, StoreError
from engram.failpoint import reach
from engram.ingest.result import IngestResult
from engram.ingest.service import in_order_of_change, ingest_path, ingest_source
from engram.models.pauses import paused_scopes
from engram.models.stages import note_damage, note_failure, note_success
from engram.models.store import Store
from engram.models.transcripts import Seen, all_seen, note_gone
from engram.process_limits import give_back_memory
from engram.process_lock import EXIT_RESTART
from engram.redaction import redact
from engram.settings import Settings
from engram.tasks.enqueue import enqueue_consolidation_if_overdue, enqueue_due
from engram.tasks.recollect import recollect
from engram.transcripts import registry
from engram.transcripts.source import Place, Source
from engram.watcher.changes import Changes
from engram.watcher.events import Events

logger = logging.getLogger(__name__)

#: Longest wait between two looks at the folder, in seconds.
LOOK_SECONDS = 5.0
#: Bytes of a source that are read at one time: keeps this process small.
PORTION_BYTES = 256 * 1024
#: Reading this many bytes of a source leaves unused memory behind, which is then returned to the system.
LARGE_BYTES = 64 * 1024

#: How much of what was read before is compared with the files in one sweep, in bytes and in files.
SWEEP_CHECK_BYTES, SWEEP_CHECK_FILES = 4 * 1024 * 1024, 20
#: A source that changed within so many seconds is compared: seven days.
LIVE_SECONDS = 604_800

#: Reasons of the ingest for which reading again would change nothing.
MUST_NOT_BE_READ = frozenset({"excluded", "paused"})


class Watcher:
    """Reads sources that an event named (``step``) or that are not as they were when they were read (``sweep``)."""

    def __init__(self, settings: Settings, store: Store, *, beat: Callable[[], None] = lambda: None) -> None:
        """Make a watcher over an open memory; the queue must be bound. ``beat`` is called after each piece of work."""
        self._beat = beat
        self.settings = settings
        self.store = store
        self.events = Events(registry.all_agents(), settings, self.hint)
        self._changes = Changes()
        self._gone: set[Place] = set()
        #: Sources whose beginnings are to be compared with what was read; None before the first sweep.
        self._doubtful: list[Source] | None = None
        self._next_sweep = 0.0
        self._opened = store.file_identity()
        self._is_stopping = False
        self._pipe = os.pipe()
        os.set_blocking(self._pipe[0], False)
        os.set_blocking(self._pipe[1], False)

    # -- one step

    def hint(self, path: Path) -> None:
        """Take note that a file may have changed; may be called from any thread."""
        self._changes.add_path(path)
        self._wake()

    def step(self) -> list[IngestResult]:
        """Read every source that may have changed, and enqueue the work that is due then.

        Raises:
            BrokenDatabase: memory.db is damaged. Any other error is noted, and the sweep tries again.
        """
        results = []
        while not self._is_stopping and (item := self._changes.take(self.settings, self._seen)) is not None:
            for result in self._read(item):
                results.append(result)
                self._enqueue(result)
                self._beat()
        return results

    def _read(self, item: Source | Path) -> list[IngestResult]:
        """Read a source; for a path that holds none, note what became of it."""
        try:
            if isinstance(item, Path):
                return ingest_path(self.store, item, settings=self.settings, redact=redact)
            result = ingest_source(self.store, item, settings=self.settings, redact=redact, max_bytes=PORTION_BYTES)
        except BrokenDatabase:
            raise
        except Exception as error:
            path = item if isinstance(item, Path) else item.path
            is_expected = isinstance(error, EngramError)
            logger.warning("action=ingest path=%s failed=%s", path, error, exc_info=None if is_expected else error)
            self._note_failure("ingest", f"{path.name}: {error}")
            return []
        if result.skipped in MUST_NOT_BE_READ:
            with contextlib.suppress(StoreError):
                self._changes.pass_over(item, paused_scopes(self.store))
        if result.has_read:
            self._note_success(result)
        if result.bytes_read >= LARGE_BYTES:
            give_back_memory()
        return [result]

    def _enqueue(self, result: IngestResult) -> None:
        """Enqueue the work that a read makes due; if the queue cannot be written, the next sweep does it."""
        if not result.session_id or not result.has_read:
            return
        reach("watch.enqueue")
        try:
            enqueue_due(self.store, self.settings, result.session_id)
            if result.calls and self.settings.inject and self._is_live(result.path):
                recollect(result.session_id)
        except BrokenDatabase:
            raise
        except Exception as error:  # noqa: BLE001 - the edge of the watcher's loop
            logger.warning("action=enqueue session=%s failed=%s", result.session_id, error)
            self._note_failure("queue", str(error))

    def _is_live(self, path: Path) -> bool:
        with contextlib.suppress(OSError):
            return time.time() - path.stat().st_mtime < self.settings.stale_seconds
        return False

    # -- the sweep

    def sweep(self) -> int:
        """Find every source that is not as it was when it was read, of any age; ``step`` reads them.

        Returns how many there are.
        """
        if not self.settings.capture:
            return 0
        seen = self._seen()
        sources = in_order_of_change(registry.discover(self.settings))
        count = self._changes.compare(sources, seen, paused_scopes(self.store))
        self._note_gone(seen, {source.place for source in sources})
        self._doubt(sources)
        return count

    def _doubt(self, sources: list[Source]) -> None:
        """Have some live sources compared whole with what was read, all of them one sweep after the other.

        A change that left size, time and end of a file plausible is noticed in no other way.
        """
        since_ns = time.time_ns() - LIVE_SECONDS * 10**9
        if not self._doubtful:
            # At the start there is enough to do.
            is_start = self._doubtful is None
            self._doubtful = [source for source in sources if source.changed_at_ns > since_ns]
            if is_start:
                return
        left_bytes, left_files = SWEEP_CHECK_BYTES, SWEEP_CHECK_FILES
        while self._doubtful and left_bytes > 0 and left_files > 0:
            source = self._doubtful.pop()
            self._changes.add_source(replace(source, is_doubtful=True))
            left_bytes, left_files = left_bytes - (source.size or 0), left_files - 1

    def _seen(self) -> dict[Place, Seen]:
        return all_seen(self.store)

    def _note_gone(self, seen: dict[Place, Seen], present: set[Place]) -> None:
        self._gone -= present
        for place in seen.keys() - present - self._gone:
            if not place.path.exists():
                note_gone(self.store, place.path, is_gone=True)
            self._gone.add(place)

    def enqueue_due(self) -> None:
        """Enqueue all work that is due by now, such as sessions that fell silent, and an overdue consolidation."""
        enqueue_due(self.store, self.settings)
        enqueue_consolidation_if_overdue(self.store, self.settings)

    # -- the loop

    def run(self) -> int:
        """Follow the transcripts until ``stop``, or until the memory folder is gone; returns the exit code."""
        while not self._is_stopping:
            try:
                if not self.settings.home.is_dir():
                    logger.warning("action=stop reason=the memory folder is gone")
                    break
                if self.store.file_identity() != self._opened:
                    raise BrokenDatabase("memory.db was replaced")
                self._turn()
                self._beat()
            except BrokenDatabase as error:
                logger.error("action=watch failed=%s", error)
                if self.store.file_identity() == self._opened:
                    note_damage(self.store)
                return EXIT_RESTART
            except Exception as error:
                logger.warning("action=watch failed=%s", error, exc_info=error)
                self._note_failure("watch", str(error))
            if not self._is_stopping and not self._changes:
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
            self.enqueue_due()
        else:
            self.step()

    def _note_events(self) -> None:
        error = self.events.error_of_present_folders
        if error:
            self._note_failure("watch", f"no events, a sweep every {self.settings.sweep_seconds} s: {error}")
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
        """End the loop after the current transcript; may be called from a signal handler."""
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
            note_failure(self.store, stage, redact(error))
