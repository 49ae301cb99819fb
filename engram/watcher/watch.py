"""The watcher reads new content from the agents' sessions and enqueues work for the worker.

It is a process (``engram service run watcher``), one per memory folder.
"""

from __future__ import annotations

import contextlib
import errno
import logging
import os
import select
import signal
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from watchdog.events import (
    FileCreatedEvent,
    FileDeletedEvent,
    FileModifiedEvent,
    FileMovedEvent,
    FileSystemEvent,
    FileSystemEventHandler,
)
from watchdog.observers import Observer

from engram.errors import AlreadyRunning, BrokenDatabase, EngramError, MissingDatabase, OlderSchema, StoreError
from engram.ingest.read_sources import in_order_of_change, ingest_path, ingest_source
from engram.ingest.write_portion import IngestResult
from engram.log import start_logging
from engram.models.engine.database import using_database
from engram.models.engine.transaction import Store
from engram.models.forgetting.forget_memories import drop_forgotten_texts
from engram.models.open_memory import open_store
from engram.models.sessions.reading_progress import Seen, all_seen, is_changed, note_gone
from engram.models.work.task_runs import note_damage, note_failure, note_lost_writes, note_success
from engram.models.work.work import move_to_now, paused_scopes
from engram.paths import Home
from engram.redaction import redact
from engram.settings import Settings
from engram.system.atomic import identity_of, is_missing
from engram.system.failpoint import reach
from engram.system.process_limits import give_back_memory
from engram.system.process_lock import EXIT_RESTART, Heartbeat, ProcessLock, end_now
from engram.tasks.enqueue_due import enqueue_consolidation_if_overdue, enqueue_due
from engram.tasks.queue import huey
from engram.tasks.session_tasks import recollect
from engram.transcripts import registry
from engram.transcripts.agents import Agent, Place, Source
from engram.version import code_version

# -- Collect the sources that may have changed, because an event reported them or a sweep found them changed.


class Changes:
    """Collects sources to read. Only ``add_path`` may be called from other threads."""

    def __init__(self) -> None:
        """Start empty."""
        self._paths: set[Path] = set()
        self._sources: dict[Place, Source] = {}
        #: Sources that must not be read, each with its stamp and the pauses that were in effect when this was
        #: determined.
        self._passed_over: dict[Place, tuple[str, frozenset[str]]] = {}

    def __bool__(self) -> bool:
        """True if there is something to read."""
        return bool(self._paths or self._sources)

    def add_path(self, path: Path) -> None:
        """Add a file that an event reported."""
        self._paths.add(path)

    def add_source(self, source: Source) -> None:
        self._sources[source.place] = source

    def take(self, settings: Settings, load_seen: Callable[[], Mapping[Place, Seen]]) -> Source | Path | None:
        """Remove and return the next source to read, or a path if it contains no source.

        Return None if there is nothing to read. A file that is a single session is read whenever an event reports it.
        In a file that contains several sessions, only the sessions with a stamp that has changed are read again.
        """
        while self._paths and not self._sources:
            path = self._paths.pop()
            sources = registry.sources_at(path, settings)
            if not sources:
                return path
            seen = load_seen() if any(source.part for source in sources) else {}
            for source in sources:
                if not source.part or is_changed(source, seen.get(source.place)):
                    self.add_source(source)
        if not self._sources:
            return None
        return self._sources.pop(next(iter(self._sources)))

    def pass_over(self, source: Source, paused: frozenset[str]) -> None:
        """Skip a source until it changes or a pause ends."""
        self._passed_over[source.place] = (source.stamp, paused)

    def compare(self, sources: Iterable[Source], seen: Mapping[Place, Seen], paused: frozenset[str]) -> int:
        """Add every source that has changed since it was read, and return how many there are."""
        count = 0
        for source in sources:
            if is_changed(source, seen.get(source.place)) and self._passed_over.get(source.place) != (
                source.stamp,
                paused,
            ):
                self.add_source(source)
                count += 1
        return count


# -- Get hints from the file system that a source may have changed. Hints may be lost, because the sweep finds every
# change.

logger = logging.getLogger(__name__)

#: Only these events count, because reading a file itself causes events (opened, closed).
_WANTED = [FileModifiedEvent, FileCreatedEvent, FileMovedEvent, FileDeletedEvent]
#: Maximum time for stopping the observer's threads, in seconds.
_JOIN_SECONDS = 2.0
#: inotify error → the Linux limit that was reached; editors often exhaust these limits.
_LIMITS = {errno.EMFILE: "fs.inotify.max_user_instances", errno.ENOSPC: "fs.inotify.max_user_watches"}


#: Handles the events of a folder that is watched only to try it.
_IGNORED = FileSystemEventHandler()


def _explain(error: OSError | RuntimeError) -> str:
    limit = _LIMITS.get(error.errno or 0) if isinstance(error, OSError) else None
    return f"{error}; raise the limit {limit} (sysctl)" if limit else str(error)


class Events:
    """Watches the folders of all agents. ``keep_up`` starts watching, and restarts it if it failed."""

    def __init__(self, agents: Iterable[Agent], settings: Settings, hint: Callable[[Path], None]) -> None:
        """``hint`` is called from another thread with the path of a file that may have changed."""
        self._folders = [
            FolderEvents(folder, agent.suffixes, hint) for agent in agents for folder in agent.folders(settings)
        ]

    def keep_up(self) -> bool:
        """Watch every folder that exists; return True if watching had to be started for any of them."""
        started = [folder.keep_up() for folder in self._folders]
        return any(started)

    @property
    def error(self) -> str:
        """Why events are missing; "" if all folders are watched."""
        return "; ".join(folder.error for folder in self._folders if folder.error)

    @property
    def error_of_present_folders(self) -> str:
        """Why events are missing from folders that exist; an agent that is not installed has no folder."""
        return "; ".join(folder.error for folder in self._folders if folder.error and not is_missing(folder.folder))

    def find_limit(self, spare: Path) -> str:
        """Return the limit that keeps further folders from being watched; "" if there is none.

        The library ignores it for every folder but the topmost, so changes in the others would go unnoticed.

        Args:
            spare: an existing folder that is not watched.
        """
        return next((folder.find_limit(spare) for folder in self._folders if not folder.error), "")

    def stop(self) -> None:
        for folder in self._folders:
            folder.stop()


class FolderEvents(FileSystemEventHandler):
    def __init__(self, folder: Path, suffixes: tuple[str, ...], hint: Callable[[Path], None]) -> None:
        """Only files with one of ``suffixes`` count."""
        self.folder = folder
        self._suffixes = suffixes
        self._real = ""
        self._hint = hint
        self._observer: Any = None
        self._watched: tuple[int, int] | None = None
        #: Why there are no events; "" if there are events.
        self.error = "not started"

    def on_any_event(self, event: FileSystemEvent) -> None:
        """Handle a file system event, for its path and for the path that the file moved to."""
        for name in (event.src_path, event.dest_path):
            path = os.fsdecode(name) if name else ""
            if path.endswith(self._suffixes):
                self._hint(self._as_configured(path))

    def _as_configured(self, path: str) -> Path:
        """Return the path as it is below the configured folder, because some systems report it with links resolved."""
        if self._real and path.startswith(self._real + os.sep):
            return self.folder / path[len(self._real) + 1 :]
        return Path(path)

    def keep_up(self) -> bool:
        """Watch the folder if it exists and is not watched yet; return True if watching had to be started."""
        identity = identity_of(self.folder)
        if identity is None:
            self.stop()
            self.error = f"there is no folder {self.folder} yet"
            return False
        if identity == self._watched and self._is_alive():
            return False
        self.stop()
        return self._start(identity)

    def _is_alive(self) -> bool:
        """Return True while events can arrive.

        A folder that was recreated may have the same inode, but its emitter is dead.
        """
        observer = self._observer
        return observer is not None and observer.is_alive() and all(emitter.is_alive() for emitter in observer.emitters)

    def _start(self, identity: tuple[int, int]) -> bool:
        self._real = os.path.realpath(self.folder)
        observer = None
        try:
            observer = Observer()
            observer.schedule(self, str(self.folder), recursive=True, event_filter=_WANTED)
            observer.start()
        except (OSError, RuntimeError) as error:
            with contextlib.suppress(OSError, RuntimeError):
                if observer is not None:
                    observer.stop()
            refused = _explain(error)
            if self.error != refused:
                logger.warning("action=watch folder=%s error=%s", self.folder, refused)
            self.error = refused
            return False
        self._observer, self._watched, self.error = observer, identity, ""
        return True

    def find_limit(self, spare: Path) -> str:
        """Watch a spare folder for a moment; return why that is refused, or ""."""
        try:
            watch = self._observer.schedule(_IGNORED, str(spare), event_filter=[FileMovedEvent])
            self._observer.unschedule(watch)
        except (OSError, RuntimeError) as error:
            return _explain(error)
        return ""

    def stop(self) -> None:
        observer, self._observer, self._watched = self._observer, None, None
        if observer is not None:
            with contextlib.suppress(OSError, RuntimeError, KeyError):
                observer.stop()
                observer.join(_JOIN_SECONDS)


#: Maximum time between two checks of the memory folder, in seconds.
LOOK_SECONDS = 5.0
#: Number of bytes to read from a source at a time; small, to keep this process small.
PORTION_BYTES = 256 * 1024
#: After this many bytes have been read from a source, unused memory is returned to the system.
LARGE_BYTES = 64 * 1024

#: Maximum amount of earlier content to compare with the files in one sweep, in bytes and in files.
SWEEP_CHECK_BYTES, SWEEP_CHECK_FILES = 4 * 1024 * 1024, 20
#: A source that changed within this many seconds (seven days) is compared.
LIVE_SECONDS = 604_800

#: Reasons returned by ingest that make it pointless to read the source again.
MUST_NOT_BE_READ = frozenset({"excluded", "paused"})


class Watcher:
    """Reads sources that an event reported (``step``) or that have changed since they were read (``sweep``)."""

    def __init__(self, settings: Settings, store: Store, *, beat: Callable[[], None] = lambda: None) -> None:
        """Create a watcher for an open memory; the queue must be bound. ``beat`` is called after each portion."""
        self._beat = beat
        self.settings = settings
        self.store = store
        self.events = Events(registry.all_agents(), settings, self.hint)
        self._changes = Changes()
        #: Sources for which the content already read must be compared with the file; None before the first sweep.
        self._doubtful: list[Source] | None = None
        self._next_sweep = 0.0
        #: True if the log of memory.db was deleted while this process had it open.
        self.is_log_displaced = False
        self._opened, self._folder = store.file_identity(), identity_of(settings.home)
        self._is_stopping = False
        self._pipe = os.pipe()
        os.set_blocking(self._pipe[0], False)
        os.set_blocking(self._pipe[1], False)

    # -- one step

    def hint(self, path: Path) -> None:
        """Record that a file may have changed; may be called from any thread."""
        self._changes.add_path(path)
        self._wake()

    def step(self) -> list[IngestResult]:
        """Read every source that may have changed, and enqueue the work that results.

        Raises:
            BrokenDatabase: memory.db is damaged. Any other error is recorded, and the sweep will try again.
        """
        results = []
        while not self._is_stopping and (item := self._changes.take(self.settings, self._seen)) is not None:
            for result in self._read(item):
                results.append(result)
                self._enqueue(result)
                self._beat()
        return results

    def _read(self, item: Source | Path) -> list[IngestResult]:
        """Read a source; for a path that contains no source, record why."""
        result = None
        with self._edge("ingest", item if isinstance(item, Path) else item.path):
            if isinstance(item, Path):
                return ingest_path(self.store, item, settings=self.settings, redact=redact)
            result = ingest_source(
                self.store,
                item,
                settings=self.settings,
                redact=redact,
                max_bytes=PORTION_BYTES,
                goes_on=self._goes_on,
            )
        if result is None or isinstance(item, Path):
            return []
        if result.skipped in MUST_NOT_BE_READ:
            with contextlib.suppress(StoreError):
                self._changes.pass_over(item, paused_scopes(self.store))
        if result.has_read:
            self._note_success(result)
        if result.bytes_read >= LARGE_BYTES:
            give_back_memory()
        return [result]

    def _goes_on(self) -> bool:
        """Record that a portion was read, as a large source takes minutes; return False if the loop must stop."""
        self._beat()
        return not self._is_stopping

    def _enqueue(self, result: IngestResult) -> None:
        """Enqueue the work that results from a read; if the queue cannot be written, the next sweep enqueues it."""
        if not result.session_id or not result.has_read:
            return
        reach("watch.enqueue")
        with self._edge("queue"):
            enqueue_due(self.store, self.settings, result.session_id)
            if result.calls and self.settings.inject and self._is_live(result.path):
                recollect(result.session_id)

    def _is_live(self, path: Path) -> bool:
        with contextlib.suppress(OSError):
            return time.time() - path.stat().st_mtime < self.settings.stale_seconds
        return False

    # -- the sweep

    def sweep(self) -> int:
        """Find every source, however old, that has changed since it was read; return how many. ``step`` reads them."""
        drop_forgotten_texts(self.store)
        if not self.settings.capture:
            return 0
        seen = self._seen()
        sources = in_order_of_change(registry.discover(self.settings))
        move_to_now(self.store)
        count = self._changes.compare(sources, seen, paused_scopes(self.store))
        self._note_gone(seen, {source.place for source in sources})
        self._doubt(sources)
        return count

    def _doubt(self, sources: list[Source]) -> None:
        """Mark some live sources for a full comparison with what was read; sweeps cover all of them in turn.

        Only this comparison notices a change that left the size, the time and the end of a file plausible.
        """
        since_ns = time.time_ns() - LIVE_SECONDS * 10**9
        if not self._doubtful:
            # At startup, there is enough other work to do.
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

    def _note_gone(self, seen: Mapping[Place, Seen], present: set[Place]) -> None:
        for place, known in seen.items():
            is_gone = place not in present and (known.is_gone or is_missing(place.path))
            if is_gone != known.is_gone:
                note_gone(self.store, place.path, is_gone=is_gone)

    def enqueue_due(self) -> None:
        """Enqueue all work that is due, such as for sessions that have fallen silent, and an overdue consolidation."""
        enqueue_due(self.store, self.settings)
        enqueue_consolidation_if_overdue(self.store, self.settings)

    # -- the loop

    def run(self) -> int:
        """Follow the transcripts until ``stop`` is called or the memory folder is gone; return the exit code."""
        while not self._is_stopping:
            has_failed = True
            try:
                with self._edge("watch"):
                    if not self.settings.places.is_still(self._folder):
                        logger.warning("action=stop reason=the memory folder is gone")
                        break
                    if self.store.file_identity() != self._opened:
                        raise BrokenDatabase("memory.db was replaced")
                    if self.store.is_displaced():
                        self.is_log_displaced = True
                        logger.warning("action=stop reason=the log of memory.db was deleted or replaced")
                        return EXIT_RESTART
                    self._turn()
                    self._beat()
                    has_failed = False
            except BrokenDatabase as error:
                logger.error("action=watch failed=%s", error)
                if self.store.file_identity() == self._opened:
                    note_damage(self.store)
                return EXIT_RESTART
            if has_failed:
                # Without a pause, a failure would be repeated in a busy loop.
                self._wait(LOOK_SECONDS)
            elif not self._changes:
                self._wait(min(LOOK_SECONDS, self._next_sweep - time.monotonic()))
        self.events.stop()
        return 0

    def _turn(self) -> None:
        """Run the loop once: keep watching for events, sweep if that is due, and read."""
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
        error, lack = self.events.error_of_present_folders, "no events"
        if not error:
            error, lack = self.events.find_limit(self.settings.home), "no events from new folders"
        if error:
            self._note_failure("watch", f"{lack}, a sweep every {self.settings.sweep_seconds} s: {error}")
        else:
            with contextlib.suppress(StoreError):
                note_success(self.store, "watch", seen=1, done=1)

    def _wait(self, seconds: float) -> None:
        """Wait until a file may have changed or the loop must stop, but at most ``seconds``."""
        poller = select.poll()
        poller.register(self._pipe[0], select.POLLIN)
        poller.poll(max(0.0, seconds) * 1000)
        with contextlib.suppress(OSError):
            os.read(self._pipe[0], 4096)

    def _wake(self) -> None:
        with contextlib.suppress(OSError):
            os.write(self._pipe[1], b"!")

    def stop(self) -> None:
        """Stop the loop after the current portion; may be called from a signal handler."""
        self._is_stopping = True
        self._wake()

    def close(self) -> None:
        """Release the observer and the pipe."""
        self.events.stop()
        for descriptor in self._pipe:
            os.close(descriptor)

    def _note_success(self, result: IngestResult) -> None:
        with contextlib.suppress(StoreError):
            note_success(self.store, "ingest", seen=result.entries, done=result.new_turns + result.grown_turns)

    @contextlib.contextmanager
    def _edge(self, stage: str, path: Path | None = None) -> Iterator[None]:
        """Guard a piece of work: an error ends only this piece and is recorded, and the next sweep retries it.

        Raises:
            BrokenDatabase: memory.db is damaged.
        """
        try:
            yield
        except BrokenDatabase:
            raise
        except Exception as error:
            is_expected = isinstance(error, EngramError)
            logger.warning("action=%s path=%s failed=%s", stage, path, error, exc_info=None if is_expected else error)
            self._note_failure(stage, f"{path.name}: {error}" if path else str(error))

    def _note_failure(self, stage: str, error: str) -> None:
        with contextlib.suppress(StoreError):
            note_failure(self.store, stage, redact(error))


# -- The process: ``engram service run watcher``.

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
