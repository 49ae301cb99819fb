"""The worker's consumer, based on Huey's, with hooks that run once per process and a clean stop on any signal."""

from __future__ import annotations

import logging
import signal
import sys
from collections.abc import Callable, Mapping
from typing import Any

from engram.errors import AlreadyRunning, EngramError, MissingDatabase, SettingsError
from engram.models.engine.transaction import Store
from engram.settings import Settings, load
from engram.system.process_lock import EXIT_RESTART
from engram.tasks.queue_file import WORKER_THREAD, Consumer, ConsumerStopped, Huey, Worker
from engram.tasks.runtime import Runtime, make_runtime

logger = logging.getLogger(__name__)

#: Number of threads that run tasks; at most one of them runs a heavy task at any time.
WORKERS = 4
#: Interval between checks whether the periodic scan is due, in seconds.
SCHEDULER_SECONDS = 5
#: Interval at which the main thread checks for signals, in seconds.
SIGNAL_SECONDS = 0.25
#: Signals that stop the worker once its running tasks have finished: SIGTERM from launchd or systemd, SIGINT, and
#: SIGHUP from a terminal.
STOP_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


class TaskThread(Worker):
    """A thread that runs tasks. Huey would run the hooks in each thread; ``EngramConsumer`` runs them once."""

    def initialize(self) -> None:
        """Do nothing: the consumer has run the startup hooks."""

    def shutdown(self) -> None:
        """Do nothing: the consumer will run the shutdown hooks."""


class EngramConsumer(Consumer):
    """The consumer that ``huey_consumer engram.tasks.queue.huey`` and ``engram service run worker`` run.

    The startup hooks run in the main thread before the first task, so that a signal aborts startup immediately and a
    failing hook ends the process. The shutdown hooks run after the last task.
    """

    worker_class = TaskThread

    def __init__(
        self,
        queue: Huey,
        *,
        settings: Settings | None = None,
        make_runtime: Callable[[Settings, Store], Runtime] = make_runtime,
        has_parent: bool = False,
        worker_type: str = WORKER_THREAD,
        shutdown_timeout: float | None = None,
        **options: Any,
    ) -> None:
        """
        Args:
            settings: by default, read from the environment and config.toml.
            has_parent: True if a supervisor started this process; the memory folder must then exist.
            worker_type: must be ``thread``, since all tasks share one model and one memory.
            shutdown_timeout: how long to wait for running tasks when stopping; ``drain_seconds`` by default.

        Raises:
            SettingsError: a setting or the worker type can't be used.
        """
        if worker_type != WORKER_THREAD:
            raise SettingsError(f"the worker can't run tasks in workers of type {worker_type!r}; use `-k thread`")
        self.settings = load().settings if settings is None else settings
        queue.bind(self.settings.places, self.settings.sqlite_driver)
        if shutdown_timeout is None:
            shutdown_timeout = self.settings.drain_seconds
        super().__init__(queue, worker_type=worker_type, shutdown_timeout=shutdown_timeout, **options)
        # One thread is left for tasks of other kinds, however many tasks of one kind are waiting.
        queue.storage.most_of_a_kind = self.workers - 1
        self._stop_flag_timeout = SIGNAL_SECONDS
        # Signal -> (restart, graceful); see Huey.
        self._signal_actions = dict.fromkeys(STOP_SIGNALS, (False, True))
        self.make_runtime = make_runtime
        self.has_parent = has_parent
        #: Called when a stop begins, before waiting for running tasks.
        self.on_stop: Callable[[], None] = lambda: None
        #: False if a running task did not finish in time.
        self.has_drained = True
        self.exit_code = 0

    def run(self) -> None:
        """Serve, then exit the process with a message or the exit code; ``huey_consumer`` calls this."""
        try:
            code = self.serve()
        except EngramError as error:
            sys.exit(f"Error: {error}")
        if code:
            sys.exit(code)

    def serve(self) -> int:
        """Run tasks until a signal or ``request_restart``; call it from the main thread.

        Returns:
            0 after a clean stop, or if the memory folder is gone; also 0, immediately, if another worker is running or
            memory.db has been deleted; 75 if the worker must be restarted.

        Raises:
            EngramError: raised by a startup hook.
        """
        for number in STOP_SIGNALS:
            signal.signal(number, _end_while_starting)
        try:
            _run_hooks(self.huey._startup)
        except (AlreadyRunning, MissingDatabase) as error:
            # With exit code 0, a service manager does not restart this process again and again.
            sys.stderr.write(f"{error}\n")
            return 0
        self._set_signal_handlers()
        try:
            if not self.stop_flag.is_set():
                super().run()
        finally:
            _run_hooks(self.huey._shutdown)
        return self.exit_code

    def request_restart(self, reason: str) -> None:
        """Stop, and request a restart through the exit code. Any thread may call this."""
        if not self.exit_code:
            logger.warning("action=stop reason=%s", reason)
            self.exit_code = EXIT_RESTART
            self.stop_flag.set()

    def request_end(self, reason: str) -> None:
        """Stop for good, with an exit code that does not request a restart. Any thread may call this."""
        if not self.stop_flag.is_set():
            logger.warning("action=stop reason=%s", reason)
            self.stop_flag.set()

    def stop(self, graceful: bool = False) -> None:
        """Stop; see Huey. Threads that wait for a task return immediately."""
        self.stop_flag.set()
        self.on_stop()
        self.huey.storage.stop_waiting()
        super().stop(graceful)
        self.has_drained = not any(self.environment.is_alive(thread) for _, thread in self.worker_threads)

    def loop(self, health_check_ts: float | None = None) -> Any:
        """Check once for signals; see Huey. A stop requested by a thread also waits for running tasks."""
        try:
            return super().loop(health_check_ts)
        except ConsumerStopped:
            if self._signum is None:
                self.stop(graceful=True)
            raise


def _run_hooks(hooks: Mapping[str, Callable[[], object]]) -> None:
    for hook in hooks.values():
        hook()


def _end_while_starting(*_: object) -> None:
    """Exit immediately on a signal during startup, when no task is running yet."""
    raise SystemExit(0)
