"""The Huey object. Light to import: a hook that only enqueues loads no model and no client of one."""

from __future__ import annotations

import importlib.util
import logging
from collections.abc import Callable
from typing import Any

from huey.api import Huey
from huey.exceptions import HueyException
from huey.registry import Message, Registry

from engram.errors import BadRequest
from engram.paths import Home, default_home
from engram.tasks.message import JsonSerializer
from engram.tasks.storage import BUSY_SECONDS, QueueStorage

logger = logging.getLogger(__name__)


class _NamedRegistry(Registry):
    """Tasks by the name they were given, wherever their function stands."""

    def task_to_string(self, task_class: type) -> str:
        """The explicit name of a task."""
        return task_class.__name__


class EngramQueue(Huey):
    """Huey on Engram's storage. A message that cannot be run is reported and dropped; its work is found again."""

    def __init__(self) -> None:
        """A queue without a place: ``bind`` gives it one, the default home serves otherwise."""
        super().__init__("engram", results=False, serializer=JsonSerializer(), storage_class=QueueStorage)
        self._registry = _NamedRegistry()
        #: Told why a message was dropped.
        self.on_reject: Callable[[str], None] | None = None

    def bind(self, home: Home, driver: str = "auto", *, busy_seconds: float = BUSY_SECONDS) -> EngramQueue:
        """Use the queue of ``home``.

        Args:
            home: the memory folder.
            driver: auto, cysqlite or sqlite3.
            busy_seconds: how long an enqueue waits for another writer before it fails.
        """
        if driver == "auto":
            driver = "cysqlite" if importlib.util.find_spec("cysqlite") else "sqlite3"
        self.storage.place(home, driver, busy_seconds)
        return self

    def enqueue(self, task: Any) -> Any:
        """Put a task into the queue; see Huey."""
        if self.storage.home is None and not self.immediate:
            self.bind(Home(default_home()))
        return super().enqueue(task)

    def dequeue(self) -> Any:
        """The next task that can be run; see Huey."""
        while (data := self.storage.dequeue()) is not None:
            try:
                return self.deserialize_task(data)
            except (BadRequest, HueyException, TypeError, ValueError) as error:
                self._reject(data, error)
        return None

    def deserialize_task(self, data: bytes) -> Any:
        """The task of a message; see Huey. Raises BadRequest where the bytes are none."""
        message = self.serializer.deserialize(data)
        if not isinstance(message, Message):
            raise BadRequest("not a message")
        return self._registry.create_task(message)

    def _reject(self, data: bytes, error: Exception) -> None:
        reason = f"a message in the queue cannot be run: {error}"
        logger.warning("action=reject_message bytes=%d reason=%s", len(data), error)
        if self.on_reject is not None:
            self.on_reject(reason)


#: The one queue of this process.
huey = EngramQueue()
