"""The Huey object, ``engram.tasks.queue.huey``: what producers enqueue to, and what ``huey_consumer`` is started with.

Importing it is light: a hook that only enqueues loads no model, no client of one and no database of memories. The
consumer's modules are imported by ``create_consumer``, which only a consumer calls.
"""

from __future__ import annotations

import importlib
import logging
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from engram.errors import BadRequest, EngramError
from engram.paths import Home
from engram.tasks.library import Huey, HueyException, Message, Registry
from engram.tasks.message import JsonSerializer, name_of
from engram.tasks.queue_file import BUSY_SECONDS
from engram.tasks.storage import QueueStorage

if TYPE_CHECKING:
    from engram.tasks.consumer import EngramConsumer

logger = logging.getLogger(__name__)

#: Every module with a task.
TASK_MODULES = (
    "engram.tasks.consolidate",
    "engram.tasks.embed",
    "engram.tasks.extract",
    "engram.tasks.flush",
    "engram.tasks.index_notes",
    "engram.tasks.ingest",
    "engram.tasks.recollect",
    "engram.tasks.scan",
    "engram.tasks.sync",
)
#: The module with the worker's start-up and shut-down hooks. Named, not imported: the worker is built on the queue.
HOOKS_MODULE = "engram.worker.lifecycle"


def import_tasks() -> None:
    """Register every task."""
    for name in TASK_MODULES:
        importlib.import_module(name)


class _TaskRegistry(Registry):
    """Tasks by their explicit names, wherever their functions are."""

    def task_to_string(self, task_class: type) -> str:
        """Return the explicit name of a task."""
        return task_class.__name__

    def string_to_task(self, task_str: str) -> Any:
        """Return the task of a name; imports the tasks at the first unknown name. Raises HueyException."""
        if task_str not in self._registry:
            import_tasks()
        return super().string_to_task(task_str)


class EngramQueue(Huey):
    """Huey on Engram's storage. A message that can't be run is reported and dropped; the scan finds its work again."""

    def __init__(self) -> None:
        """Create a queue; it can be used after ``bind``."""
        super().__init__("engram", results=False, serializer=JsonSerializer(), storage_class=QueueStorage)
        self._registry = _TaskRegistry()
        #: Called with the reason why a message was dropped.
        self.on_reject: Callable[[str], None] | None = None
        #: The consumer of this process, for the start-up and shut-down hooks; None if it is no worker.
        self.consumer: EngramConsumer | None = None

    def bind(self, home: Home, driver: str = "auto", *, busy_seconds: float = BUSY_SECONDS) -> EngramQueue:
        """Use the queue of ``home``.

        Args:
            home: the memory folder.
            driver: auto, cysqlite or sqlite3.
            busy_seconds: how long an enqueue waits for another writer before it fails.
        """
        self.storage.place(home, driver, busy_seconds)
        return self

    def enqueue_by_name(self, name: str, *args: str) -> None:
        """Enqueue a task by its name, for modules that tasks import. Raises HueyException for an unknown name."""
        self.enqueue(self._registry.string_to_task(name)(args))

    def create_consumer(self, **options: Any) -> EngramConsumer:
        """Return the worker: the consumer with its tasks and hooks. ``huey_consumer`` and ``engram work`` call this.

        Args:
            options: see ``EngramConsumer``.

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
            # huey_consumer would show a traceback.
            sys.exit(f"Error: {error}")
        return self.consumer

    def dequeue(self) -> Any:
        """Return the next task that can be run; see Huey."""
        while (data := self.storage.dequeue()) is not None:
            try:
                return self.deserialize_task(data)
            except (BadRequest, HueyException, TypeError, ValueError) as error:
                self.storage.end_task(name_of(data))
                self._reject(data, error)
        return None

    def execute(self, task: Any, timestamp: Any = None) -> Any:
        """Run a task, and let another one of its kind begin; see Huey."""
        try:
            return super().execute(task, timestamp)
        finally:
            self.storage.end_task(task.name)

    def deserialize_task(self, data: bytes) -> Any:
        """Return the task of a message; see Huey. Raises BadRequest if the bytes are no message."""
        message = self.serializer.deserialize(data)
        if not isinstance(message, Message):
            raise BadRequest("not a message")
        return self._registry.create_task(message)

    def _reject(self, data: bytes, error: Exception) -> None:
        logger.warning("action=reject_message bytes=%d reason=%s", len(data), error)
        if self.on_reject is not None:
            self.on_reject(f"a message in the queue cannot be run: {error}")


#: The queue of this process.
huey = EngramQueue()
