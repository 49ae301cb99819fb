"""Check memory use, sockets, damage, vectors, due work and the backup every few seconds."""

from __future__ import annotations

import contextlib
import logging
import os
import sys
import threading
from collections.abc import Callable
from pathlib import Path

from engram.errors import BrokenDatabase, EngramError, HomeError, StoreError
from engram.models.forgetting.forget_memories import drop_forgotten_texts
from engram.models.hub.spaces import Server, count_outgoing, list_servers, list_spaces, server_by_id
from engram.models.shown.usage import count_sessions
from engram.models.work.task_runs import is_damage_noted, note_damage
from engram.paths import Home
from engram.recollection.hook_files import RecollectionFiles
from engram.reports.health import take_vitals
from engram.settings import DEFAULT_LIMIT_RSS_MB
from engram.system.atomic import identity_of
from engram.system.process_limits import give_back_memory, rss_mb
from engram.tasks.enqueue_due import enqueue_due
from engram.tasks.queue import EngramQueue
from engram.tasks.runtime import Runtime
from engram.tasks.upkeep_tasks import sync
from engram.worker.hook_answers import Vaults
from engram.worker.memory_file import DailyBackup
from engram.worker.socket_server import RecallServer

# -- Write the figures for the status line of each session that displays one.

#: Maximum number of sessions with figures that are kept up to date; the latest sessions take precedence.
MAX_SESSIONS = 50


class StatusLines:
    """Writes the files that ``statusline.sh`` reads: process id, memories shown and kept, and any problem."""

    def __init__(self, runtime: Runtime, vaults: Vaults) -> None:
        self._runtime = runtime
        self._vaults = vaults
        self._files = RecollectionFiles(runtime.settings.places.recollections)

    def write(self, *, has_changed: bool) -> int:
        """Write the figures that sessions request; return the number of files written.

        Args:
            has_changed: True if the memory has changed since the last call. Otherwise, only empty files are filled.
        """
        files = self._files.status_lines()[:MAX_SESSIONS]
        due = [file.session_id for file in files if has_changed or file.is_empty]
        if not due:
            return 0
        store = self._runtime.store
        totals = {**count_sessions(store, due), **self._vaults.count_sessions(due)}
        troubles = take_vitals(store, self._runtime.settings, with_files=False).troubles()
        problem = next((trouble.about for trouble in troubles if trouble.is_broken), "")
        for session_id in due:
            found = totals.get(session_id)
            shown, kept = (0, 0) if found is None else (found.shown, found.memories)
            self._files.put_status_line(session_id, f"{os.getpid()} {shown} {kept} {problem}".rstrip())
        return len(due)


# -- Watch for new local statements and for changes on hubs, and enqueue a sync for them.

logger = logging.getLogger(__name__)

#: How often to check for local changes, and how long to wait after a sync is enqueued, in seconds.
LOOK_SECONDS, QUIET_SECONDS = 0.1, 1.0
#: How often to poll a hub if the setting ``hub_wait`` prevents requests from being kept open, in seconds.
ASK_SECONDS = 3.0
#: How long to wait after enqueueing a sync before polling the hub again, in seconds. The wait doubles, up to
#: ``REST_SECONDS``, while no cursor moves, so that a hub that always reports changes is rarely polled.
SETTLE_SECONDS = 0.5
#: How often to check a folder for changes, and how long to gather local changes for a single file, in seconds.
FOLDER_SECONDS = 10.0
GATHER_SECONDS = 15.0
#: How long to wait after failing to reach a hub, in seconds.
REST_SECONDS = 30.0


def _gathers_for(server: Server, now_ms: int) -> float:
    """Return how much longer to gather changes before writing them to a folder, in seconds; 0 for a service."""
    from engram.hub.client.folder_files import is_folder

    since_ms = now_ms - server.synced_at_ms
    return GATHER_SECONDS - since_ms / 1000 if is_folder(server.url) and 0 <= since_ms < GATHER_SECONDS * 1000 else 0.0


class HubWatch:
    """Runs one thread that watches memory.db, and one for each hub that keeps a request open there."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._closing = threading.Event()
        self._threads: dict[str, threading.Thread] = {}

    def start_threads(self) -> None:
        """Start the threads that the joined hubs need. Fast."""
        servers = list_servers(self._runtime.store)
        if not servers or self._closing.is_set():
            return
        self._start("outgoing", self._watch_outgoing)
        for server in servers:
            self._start(server.url, self._watch_hub, server)

    def close(self) -> None:
        """Signal the threads to stop. A thread that is waiting for a hub ends only with the process."""
        self._closing.set()
        outgoing = self._threads.get("outgoing")
        if outgoing is not None:
            outgoing.join(2)

    def _start(self, name: str, target: object, *arguments: object) -> None:
        thread = self._threads.get(name)
        if thread is None or not thread.is_alive():
            assert callable(target)
            thread = threading.Thread(target=target, args=arguments, name="hub-watch", daemon=True)
            self._threads[name] = thread
            thread.start()

    def _watch_outgoing(self) -> None:
        """Enqueue a sync whenever there is something to send, until no hub is left."""
        store = self._runtime.store
        version, pause = -1, LOOK_SECONDS
        try:
            while not self._closing.wait(pause):
                pause = LOOK_SECONDS
                now = store.data_version()
                if now == version:
                    continue
                version = now
                servers = list_servers(store)
                if not servers:
                    return
                # A space that fails on its own, for example because its key is missing, would fail again immediately.
                spaces = [space for space in list_spaces(store) if space.role != "reader" and not space.last_error]
                is_due = not any(server.retry_at_ms > store.now_ms() for server in servers)
                due = {space.server_id for space in spaces if count_outgoing(store, space.id)} if is_due else set()
                if due:
                    pause = min(_gathers_for(server, store.now_ms()) for server in servers if server.id in due)
                    if pause:
                        version = -1
                        continue
                    sync()
                    pause = QUIET_SECONDS
        except StoreError as error:
            logger.warning("action=hub_watch failed=%s", error)
        finally:
            store.close()

    def _watch_hub(self, server: Server) -> None:
        """Keep a request open at a hub, or poll it, and enqueue a sync when something has changed there."""
        from engram.hub.client.connection import WAIT_SECONDS
        from engram.hub.client.folder_files import is_folder
        from engram.hub.client.membership import Keyring, connect

        store, settings = self._runtime.store, self._runtime.settings
        pause, seconds = (0.0, WAIT_SECONDS) if settings.hub_wait else (ASK_SECONDS, 0.0)
        if is_folder(server.url):
            pause, seconds = FOLDER_SECONDS, 0.0
        settle = SETTLE_SECONDS
        former: dict[int, int] = {}
        try:
            while not self._closing.wait(pause):
                known = server_by_id(store, server.id)
                if known is None:
                    return
                # The sync that runs every minute retries failed spaces.
                spaces = [space for space in list_spaces(store, server.id) if not space.last_error]
                if not spaces or known.retry_at_ms > store.now_ms():
                    self._closing.wait(REST_SECONDS)
                    continue
                try:
                    with connect(store, Keyring(settings.places.hub_keys), known) as connection:
                        cursors = {space.ns_id: space.cursor for space in spaces}
                        has_changed = connection.wait(cursors, seconds)
                except EngramError:
                    self._closing.wait(REST_SECONDS)
                    continue
                if has_changed and not self._closing.is_set():
                    sync()
                    settle = min(REST_SECONDS, 2 * settle) if cursors == former else SETTLE_SECONDS
                    former = cursors
                    self._closing.wait(settle)
        except StoreError as error:
            logger.warning("action=hub_watch failed=%s", error)
        finally:
            store.close()


#: Seconds between two checks.
EVERY_SECONDS = 5.0
#: Memory that the default limit allows in addition to the vectors, in MB. A worker with three million vectors used 290
#: MB.
ABOVE_INDEX_MB = 400.0
#: Run time, in seconds, after which a heavy task counts as hung. The limits on language models stop a healthy task
#: sooner.
MAX_ACTION_SECONDS = 7200.0
#: How long a request may wait for a thread, in seconds, before all threads count as hung.
MAX_REQUEST_WAIT_SECONDS = 60.0
#: Growth, in MB, after which unused memory is returned to the system even without a heavy task, since questions also
#: leave some behind.
GROWN_MB = 8.0


class Housekeeper:
    """Runs a thread that checks everything every few seconds; ``step`` is one check."""

    def __init__(
        self,
        runtime: Runtime,
        queue: EngramQueue,
        server: RecallServer,
        *,
        stop: Callable[[str], None],
        end: Callable[[str], None],
        beat: Callable[[], None],
    ) -> None:
        """
        Args:
            queue, server: reopened if their sockets disappear.
            stop: called with a reason if the worker must be restarted.
            end: called with a reason if the worker must exit for good.
            beat: called after each check if no thread is hung.
        """
        self._runtime = runtime
        self._queue = queue
        self._server = server
        self._stop = stop
        self._end = end
        self._beat = beat
        self._has_warned = False
        #: Why deleted folders could not be created again; "" if they could.
        self._unprepared = ""
        #: True if the log of memory.db was deleted while this process had it open.
        self.is_log_displaced = False
        self._data_version = -1
        self._quiet_checks = 0
        self._opened = runtime.store.file_identity()
        self._folder = identity_of(runtime.settings.home)
        self._backup = DailyBackup(runtime)
        self._status_lines = StatusLines(runtime, server.vaults)
        self._hub_watch = HubWatch(runtime)
        self._was_busy = False
        #: Resident memory when unused memory was last returned, in MB.
        self._given_back_mb = 0.0
        #: Resident memory after loading a torch model, in MB; the default limit allows this in addition.
        self._torch_mb = rss_mb() if runtime.embedder is not None and runtime.embedder.runtime == "torch" else 0.0
        self._is_closing = threading.Event()
        self._thread = threading.Thread(target=self._run, name="housekeeping", daemon=True)

    def start(self) -> Housekeeper:
        self._thread.start()
        return self

    def close(self) -> None:
        """Stop the thread; wait up to 5 s for a check in progress."""
        self._is_closing.set()
        self._hub_watch.close()
        self._thread.join(5)

    def _run(self) -> None:
        while not self._is_closing.is_set():
            try:
                self.step()
            except Exception as error:
                logger.warning("action=housekeeping failed=%s", error, exc_info=error)
            self._is_closing.wait(EVERY_SECONDS)

    def step(self) -> None:
        """Check everything once."""
        home = self._runtime.settings.places
        if not home.is_still(self._folder):
            # This is checked first, because a restarted worker would create an empty memory in its place.
            self._end("the memory folder is gone")
            return
        self._restore_places(home)
        self._check_memory()
        if self._runtime.is_damaged.is_set():
            note_damage(self._runtime.store)
            self._stop("memory.db is damaged")
        with contextlib.suppress(OSError):
            self._server.renew()
            if not home.wake_socket.is_socket():
                self._queue.storage.listen()
        with contextlib.suppress(StoreError):
            try:
                if self._is_in_place():
                    self._check_work()
                    self._check_vaults()
                    self._backup.run_if_due()
                    self._hub_watch.start_threads()
            except BrokenDatabase as error:
                logger.error("action=check failed=%s", error)
                self._runtime.is_damaged.set()
        if self._makes_progress():
            self._beat()

    def _restore_places(self, home: Home) -> None:
        """Recreate the files and folders that hooks and tasks need, if they were deleted.

        A link to a volume that is not mounted is left alone, and so is an empty mount point.
        """
        reason = ""
        if not all(map(os.path.lexists, (home.recollections, home.notes, home.logs))):
            try:
                home.prepare(must_exist=True)
            except HomeError as error:
                reason = str(error)
        if reason and reason != self._unprepared:
            logger.warning("action=prepare failed=%s", reason)
        self._unprepared = reason
        link_python(home)

    def _is_in_place(self) -> bool:
        """Restart the worker, and return False, if memory.db or its log, or a vault's log, was deleted or replaced.

        Nothing may be done with them then: copying from a deleted log would damage the file for those with a new one.
        """
        store = self._runtime.store
        if store.file_identity() != self._opened:
            self._stop("memory.db was replaced")
            return False
        displaced = [*([store] if store.is_displaced() else ()), *self._server.vaults.displaced()]
        for database in displaced:
            if not database.path.with_name(f"{database.path.name}-wal").exists():
                # No other process has begun a new log yet, so this process's last writes can still be saved.
                database.checkpoint()
        if displaced:
            self.is_log_displaced = True
            self._stop("the log of memory.db was deleted or replaced")
        return not displaced

    def _makes_progress(self) -> bool:
        """Return False if a heavy task, or every thread for requests, is hung."""
        longest_seconds = max(
            executor.running_seconds for executor in (self._runtime.executor, self._runtime.model_executor)
        )
        return longest_seconds < MAX_ACTION_SECONDS and self._server.longest_wait_seconds < MAX_REQUEST_WAIT_SECONDS

    def _check_vaults(self) -> None:
        try:
            self._server.vaults.check()
        except EngramError as error:
            logger.warning("action=check_vaults failed=%s", error)

    def _check_memory(self) -> None:
        is_busy, used_mb = self._runtime.is_busy, rss_mb()
        if is_busy or self._was_busy or used_mb > self._given_back_mb + GROWN_MB:
            give_back_memory()
            used_mb = self._given_back_mb = rss_mb()
        self._was_busy = is_busy
        settings = self._runtime.settings
        limit_mb = float(settings.limit_rss_mb)
        # Do not raise a limit that the user has set.
        if used_mb > limit_mb and settings.limit_rss_mb == DEFAULT_LIMIT_RSS_MB:
            limit_mb = max(limit_mb, self._runtime.index_mb() + ABOVE_INDEX_MB) + self._torch_mb
        if used_mb > limit_mb:
            index_mb = round(self._runtime.index_mb())
            self._stop(
                f"memory is {used_mb} MB, above limit_rss_mb = {limit_mb:.0f}; the vectors alone take {index_mb} MB"
            )
        elif used_mb > settings.warn_rss_mb and not self._has_warned:
            self._has_warned = True
            logger.warning("action=memory rss_mb=%s warn_mb=%d", used_mb, settings.warn_rss_mb)

    def _check_work(self) -> None:
        """Enqueue due work; follow changes of the database; truncate its log after six checks without one.

        Changes are copied from the log into the file soon, so that a power failure, a deleted log, or a copy of the
        file alone loses only the last seconds.
        """
        store = self._runtime.store
        version = store.data_version()
        with contextlib.suppress(OSError):
            self._status_lines.write(has_changed=version != self._data_version)
        if version == self._data_version:
            self._quiet_checks += 1
            if self._quiet_checks == 6:
                store.checkpoint("TRUNCATE")
        else:
            self._data_version, self._quiet_checks = version, 0
            store.checkpoint()
            if is_damage_noted(store):
                self._runtime.is_damaged.set()
            self._runtime.refresh_index()
            drop_forgotten_texts(store)
        enqueue_due(store, self._runtime.settings)


#: This process's interpreter outside any environment, found while the environment is still in its place.
_INTERPRETER = Path(os.path.realpath(sys.executable))


def link_python(home: Home, target: Path = _INTERPRETER) -> None:
    """Point the link ``python`` in the memory folder to this interpreter, for the hooks; never to a missing one."""
    with contextlib.suppress(OSError):
        if not target.exists() or (home.python_link.is_symlink() and os.readlink(home.python_link) == str(target)):
            return
        temporary = home.root / f".python.{os.getpid()}.tmp"
        temporary.unlink(missing_ok=True)
        temporary.symlink_to(target)
        os.replace(temporary, home.python_link)
