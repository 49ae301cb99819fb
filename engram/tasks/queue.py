"""Define the Huey object, ``engram.tasks.queue.huey``: producers enqueue tasks to it, and ``huey_consumer`` runs them.

This module is light to import, so that a hook that only enqueues loads no model, no model client and no memory
database. The consumer's modules are imported by ``create_consumer``, which only a consumer calls.
"""

from __future__ import annotations

import importlib
import json
import logging
import sys
import threading
from collections import Counter
from collections.abc import Callable
from datetime import datetime
from typing import TYPE_CHECKING, Any

from engram.errors import BadRequest, EngramError
from engram.paths import Home
from engram.system.failpoint import reach
from engram.tasks.queue_file import (
    BUSY_SECONDS,
    EmptyData,
    Huey,
    HueyException,
    Message,
    QueueFile,
    Registry,
    WakeListener,
    WakeSender,
)

if TYPE_CHECKING:
    from engram.tasks.consumer import EngramConsumer


# -- Serialise messages as JSON, so that people can read them and a forged message can't run code. A task of Engram has
# ids as arguments, and a priority. Huey's schedule, retries, expiry and pipelines are not used, because memory.db says
# what is due and when it is tried again.

#: Maximum size of a message, in bytes. Engram's messages contain only ids, so a larger one is not from Engram.
MAX_MESSAGE_BYTES = 16_384
#: Maximum length of a text argument, in characters.
MAX_ARGUMENT_CHARS = 512
_SCALARS = (str, int, float, bool, type(None))


class JsonSerializer:
    """Serializes messages as JSON: the id, name, arguments and priority of a task."""

    def serialize(self, message: Message) -> bytes:
        if message.kwargs or not all(isinstance(argument, _SCALARS) for argument in message.args):
            raise BadRequest("the arguments of a task can't be queued; tasks only take ids, by position")
        fields = {"id": message.id, "name": message.name, "args": message.args, "priority": message.priority}
        return json.dumps({"message": fields}, separators=(",", ":"), sort_keys=True).encode()

    def deserialize(self, data: bytes) -> Message:
        """Return a message. Raises BadRequest if the bytes are not a message, or one that Huey could not run."""
        data = bytes(data)
        if len(data) > MAX_MESSAGE_BYTES:
            raise BadRequest(f"a message of {len(data)} bytes is too long")
        try:
            fields = json.loads(data)["message"]
            task_id, name, args, priority = (fields[field] for field in ("id", "name", "args", "priority"))
        except (ValueError, TypeError, KeyError, RecursionError) as error:
            raise BadRequest(f"not a message: {type(error).__name__}: {str(error)[:100]}") from error
        is_named = isinstance(task_id, str) and isinstance(name, str)
        if not is_named or not isinstance(priority, int | float | None) or not isinstance(args, list):
            raise BadRequest("not a message: a field has another type")
        if not all(isinstance(argument, _SCALARS) and len(str(argument)) <= MAX_ARGUMENT_CHARS for argument in args):
            raise BadRequest("not a message: an argument is not an id")
        return Message(id=task_id, name=name, priority=priority, args=tuple(args), kwargs={})


def key_of(data: bytes) -> str | None:
    """Return a message's task name and arguments, which identify equal tasks; None for bytes that are not a message."""
    try:
        fields = json.loads(data)["message"]
        return json.dumps([fields["name"], fields["args"]], separators=(",", ":"))
    except (ValueError, TypeError, KeyError, RecursionError):
        return None


def name_of(data: bytes) -> str:
    """Return the name of a message's task; "" for bytes that are not a message."""
    key = key_of(data)
    return "" if key is None else str(json.loads(key)[0])


# -- Huey's storage for ``queue.db``: a datagram wakes the worker, and each key is queued only once. Huey's own
# ``SqliteHuey`` is too limited (``benchmarks/queue_storage.py`` compares the two): it polls, so an idle consumer takes
# seconds to pick up a task; it queues equal tasks repeatedly; every write waits for the disk (``synchronous`` FULL);
# and it fails for good once the file is deleted or overwritten.

#: Maximum wait for a datagram, in seconds. The queue is then read anyway, because datagrams can get lost.
MAX_WAIT_SECONDS = 5.0


class QueueStorage(QueueFile):
    """The queue of a memory folder. A worker listens; a producer wakes it after each enqueue."""

    def __init__(self, name: str = "engram") -> None:
        super().__init__(name)
        self._listener: WakeListener | None = None
        self._sender: WakeSender | None = None
        #: How many tasks of one kind may run at the same time; 0 for any number. A consumer limits this so that no
        #: kind of task can occupy all of its threads.
        self.most_of_a_kind = 0
        self._running: Counter[str] = Counter()
        self._taking = threading.Lock()

    @property
    def blocking(self) -> bool:
        """True if ``dequeue`` itself waits for a task."""
        return self._listener is not None

    def enqueue(self, data: bytes, priority: float | None = None) -> None:
        """Add a message and wake the worker. If an equal message is already waiting, at most its priority is raised."""
        self.sql(
            "insert into task (queue, data, priority, key) values (?, ?, ?, ?) on conflict (queue, key) "
            "where key is not null do update set priority = max(priority, excluded.priority)",
            (self.name, data, priority or 0, key_of(data)),
            commit=True,
        )
        reach("queue.enqueued")
        self.wake()

    def dequeue(self) -> bytes | None:
        """Remove and return the next message.

        Return None if there is none within ``MAX_WAIT_SECONDS``, or immediately without ``listen``. Messages of kinds
        that have reached ``most_of_a_kind`` are skipped until ``end_task``.
        """
        data = self._with_repair(self._take)
        listener = self._listener
        if data is None and listener is not None:
            listener.wait(MAX_WAIT_SECONDS)
            data = self._with_repair(self._take)
        return data

    def end_task(self, name: str) -> None:
        """Record the end of a task of this name that ``dequeue`` returned."""
        with self._taking:
            self._running[name] -= 1
            self._running += Counter()

    def _take(self) -> bytes | None:
        with self._taking:
            full = [name for name, count in self._running.items() if 0 < self.most_of_a_kind <= count]
            data = self._take_except(full)
            if data is not None and self.most_of_a_kind:
                self._running[name_of(data)] += 1
        return data

    def _take_except(self, full: list[str]) -> bytes | None:
        """Remove and return the next message whose kind is not in ``full``."""
        with self.db() as cursor:
            cursor.execute("select 1 from task where queue = ? limit 1", (self.name,))
            if cursor.fetchone() is None:
                return None
        with self.db(commit=True) as cursor:
            cursor.execute(
                "select id, data from task where queue = ? and (key is null or json_extract(key, '$[0]') not in "
                "(select value from json_each(?))) order by priority desc, id limit 2",
                (self.name, json.dumps(full)),
            )
            rows = cursor.fetchall()
            if not rows:
                return None
            row_id, data = rows[0]
            cursor.execute("delete from task where id = ?", (row_id,))
        if len(rows) > 1:
            # This thread may have read the datagram of a thread that is about to wait, so wake the next one.
            self.wake()
        reach("queue.dequeued")
        return bytes(data)

    def read_schedule(self, ts: datetime) -> list[bytes]:
        """Return no messages, because Engram schedules none."""
        return []

    def pop_data(self, key: str) -> Any:
        """Return no value, because Engram stores neither results nor revoked tasks."""
        return EmptyData

    def waiting(self) -> list[bytes]:
        """Return all waiting messages, starting with the next one."""
        return [bytes(data) for data in self.enqueued_items()]

    # -- waking the worker

    def listen(self) -> None:
        """Bind ``wake.sock``, so that ``dequeue`` waits from now on. The caller holds the worker's lock."""
        home = self.placed_home
        if self._listener is None:
            self._listener = WakeListener(home.wake_socket)
        else:
            self._listener.rebind()

    def wake(self) -> None:
        """Wake the worker if there is one. Never blocks or fails."""
        if self.home is None:
            return
        if self._sender is None or self._sender.path != self.home.wake_socket:
            self._sender = WakeSender(self.home.wake_socket)
        self._sender.send()

    def stop_waiting(self) -> None:
        """Make ``dequeue`` return immediately in every thread from now on."""
        if self._listener is not None:
            self._listener.release()

    def stop_listening(self) -> None:
        """Remove ``wake.sock``, so that ``dequeue`` no longer waits."""
        listener, self._listener = self._listener, None
        if listener is not None:
            listener.close()


logger = logging.getLogger(__name__)

#: Every module with a task.
TASK_MODULES = ("engram.tasks.upkeep_tasks", "engram.tasks.session_tasks")
#: The module with the worker's startup and shutdown hooks; not imported here, since it depends on the queue.
HOOKS_MODULE = "engram.worker.lifecycle"


def import_tasks() -> None:
    for name in TASK_MODULES:
        importlib.import_module(name)


class _TaskRegistry(Registry):
    """Finds tasks by their explicit names, without module names."""

    def task_to_string(self, task_class: type) -> str:
        return task_class.__name__

    def string_to_task(self, task_str: str) -> Any:
        """Return the task with this name, importing all tasks if it is unknown. Raises HueyException."""
        if task_str not in self._registry:
            import_tasks()
        return super().string_to_task(task_str)


class EngramQueue(Huey):
    """Huey on Engram's storage. A message that can't be run is reported and dropped; the scan enqueues it again."""

    def __init__(self) -> None:
        super().__init__("engram", results=False, serializer=JsonSerializer(), storage_class=QueueStorage)
        self._registry = _TaskRegistry()
        #: Called with the reason when a message is dropped.
        self.on_reject: Callable[[str], None] | None = None
        #: This process's consumer, for the startup and shutdown hooks; None outside a worker.
        self.consumer: EngramConsumer | None = None

    def bind(self, home: Home, driver: str = "auto", *, busy_seconds: float = BUSY_SECONDS) -> EngramQueue:
        self.storage.place(home, driver, busy_seconds)
        return self

    def enqueue_by_name(self, name: str, *args: str) -> None:
        """Enqueue a task by its name, for modules that the tasks import. Raises HueyException for an unknown name."""
        self.enqueue(self._registry.string_to_task(name)(args))

    def create_consumer(self, **options: Any) -> EngramConsumer:
        """Create the consumer with its tasks and hooks; called by ``huey_consumer`` and the worker.

        Raises:
            SettingsError: an option or a setting can't be used.
        """
        from engram.tasks.consumer import EngramConsumer

        import_tasks()
        importlib.import_module(HOOKS_MODULE)
        try:
            self.consumer = EngramConsumer(self, **options)
        except EngramError as error:
            if "settings" in options:
                raise
            # Exit here, because huey_consumer would print a traceback.
            sys.exit(f"Error: {error}")
        return self.consumer

    def dequeue(self) -> Any:
        """Return the next task that can be run; overrides Huey's method."""
        while (data := self.storage.dequeue()) is not None:
            try:
                return self.deserialize_task(data)
            except (BadRequest, HueyException, TypeError, ValueError) as error:
                self.storage.end_task(name_of(data))
                self._reject(data, error)
        return None

    def execute(self, task: Any, timestamp: Any = None) -> Any:
        """Run a task, then release its slot among the tasks of its kind; see Huey."""
        try:
            return super().execute(task, timestamp)
        finally:
            self.storage.end_task(task.name)

    def _reject(self, data: bytes, error: Exception) -> None:
        logger.warning("action=reject_message bytes=%d reason=%s", len(data), error)
        if self.on_reject is not None:
            self.on_reject(f"a message in the queue can't be run: {error}")


huey = EngramQueue()
