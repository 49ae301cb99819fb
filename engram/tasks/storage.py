"""Huey's storage for ``queue.db``: the worker is woken by a datagram, and each key waits only once.

Huey's own ``SqliteHuey`` is not enough; ``benchmarks/queue_storage.py`` measures both. It polls (an idle consumer
picks a task up after seconds), it queues the same task again and again, every write waits for the disk
(``synchronous`` FULL), and it fails for good once the file is deleted or overwritten.
"""

from __future__ import annotations

import json
import threading
from collections import Counter
from datetime import datetime
from typing import Any

from engram.failpoint import reach
from engram.tasks.library import EmptyData
from engram.tasks.message import key_of, name_of
from engram.tasks.queue_file import QueueFile
from engram.tasks.wake import WakeListener, WakeSender

#: Longest wait for a datagram before the queue is read anyway, in seconds: datagrams may get lost.
MAX_WAIT_SECONDS = 5.0


class QueueStorage(QueueFile):
    """The queue of a memory folder. A worker listens; a producer wakes it after each enqueue."""

    def __init__(self, name: str = "engram") -> None:
        """Prepare a storage; see ``QueueFile``."""
        super().__init__(name)
        self._listener: WakeListener | None = None
        self._sender: WakeSender | None = None
        #: How many tasks of one kind may be taken before one of them has ended; 0 for any number. A consumer sets it,
        #: so that no kind of task ever has all of its threads.
        self.most_of_a_kind = 0
        self._running: Counter[str] = Counter()
        self._taking = threading.Lock()

    @property
    def blocking(self) -> bool:
        """True if ``dequeue`` itself waits for a task."""
        return self._listener is not None

    def enqueue(self, data: bytes, priority: float | None = None) -> None:
        """Add a message and wake the worker. If the same message waits already, only the higher priority counts."""
        self.sql(
            "insert into task (queue, data, priority, key) values (?, ?, ?, ?) on conflict (queue, key) "
            "where key is not null do update set priority = max(priority, excluded.priority)",
            (self.name, data, priority or 0, key_of(data)),
            commit=True,
        )
        reach("queue.enqueued")
        self.wake()

    def dequeue(self) -> bytes | None:
        """Remove and return the next message; None if none came for a while (immediately without ``listen``).

        With ``most_of_a_kind``, messages of kinds that run as often as they may are passed over until ``end_task``.
        """
        data = self._with_repair(self._take)
        listener = self._listener
        if data is None and listener is not None:
            listener.wait(MAX_WAIT_SECONDS)
            data = self._with_repair(self._take)
        return data

    def end_task(self, name: str) -> None:
        """Note that a task of this name ended, which ``dequeue`` had returned."""
        with self._taking:
            self._running[name] -= 1
            self._running += Counter()

    def _take(self) -> bytes | None:
        with self._taking:
            full = [name for name, count in self._running.items() if 0 < self.most_of_a_kind <= count]
            data = self._take_but(full)
            if data is not None and self.most_of_a_kind:
                self._running[name_of(data)] += 1
        return data

    def _take_but(self, full: list[str]) -> bytes | None:
        """Remove and return the next message that is of none of these kinds."""
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
            # One thread may have read the datagrams while another was about to wait: wake the next one.
            self.wake()
        reach("queue.dequeued")
        return bytes(data)

    def read_schedule(self, ts: datetime) -> list[bytes]:
        """Remove and return messages whose time has come. Checks without a lock first: mostly there are none."""
        if not self.sql(
            "select 1 from schedule where queue = ? and timestamp <= ? limit 1",
            (self.name, ts.timestamp()),
            results=True,
        ):
            return []
        return [bytes(data) for data in self._with_repair(lambda: super(QueueStorage, self).read_schedule(ts))]

    def pop_data(self, key: str) -> Any:
        """Remove and return a stored value. Checks without a lock first: mostly there is none."""
        if not self.has_data_for_key(key):
            return EmptyData
        return self._with_repair(lambda: super(QueueStorage, self).pop_data(key))

    def waiting(self) -> list[bytes]:
        """Return every waiting message, the next one first."""
        return [bytes(data) for data in self.enqueued_items()]

    # -- waking the worker

    def listen(self) -> None:
        """Bind ``wake.sock``, replacing any stale socket: ``dequeue`` waits from now on. With the worker's lock
        held.
        """
        home = self.placed_home
        if self._listener is None:
            self._listener = WakeListener(home.wake_socket)
        else:
            self._listener.rebind()

    def wake(self) -> None:
        """Wake the worker, if there is one; never waits and never fails."""
        if self.home is None:
            return
        if self._sender is None or self._sender.path != self.home.wake_socket:
            self._sender = WakeSender(self.home.wake_socket)
        self._sender.send()

    def stop_waiting(self) -> None:
        """Let every thread return from ``dequeue`` now, and immediately from now on."""
        if self._listener is not None:
            self._listener.release()

    def stop_listening(self) -> None:
        """Remove ``wake.sock``; ``dequeue`` no longer waits."""
        listener, self._listener = self._listener, None
        if listener is not None:
            listener.close()
