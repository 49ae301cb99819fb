"""Watches for what is to be synced: what was said here, and what the hub tells of. It only enqueues the task."""

from __future__ import annotations

import logging
import threading

from engram.errors import EngramError, StoreError
from engram.models.hub_spaces import Server, count_outgoing, list_servers, list_spaces
from engram.tasks.runtime import Runtime
from engram.tasks.sync import sync

logger = logging.getLogger(__name__)

#: How often it looks for changes here, and how long it waits for more of them, in seconds.
LOOK_SECONDS, QUIET_SECONDS = 0.5, 1.0
#: How long it leaves a hub alone that could not be asked, in seconds.
REST_SECONDS = 30.0


class HubWatch:
    """Two kinds of threads: one looks at memory.db, one for each hub keeps a request open at it."""

    def __init__(self, runtime: Runtime) -> None:
        """Prepare; nothing is asked before ``look``."""
        self._runtime = runtime
        self._closing = threading.Event()
        self._threads: dict[str, threading.Thread] = {}

    def look(self) -> None:
        """Start the threads that a joined hub needs. Cheap; where no hub was joined, nothing is started."""
        servers = list_servers(self._runtime.store)
        if not servers or self._closing.is_set():
            return
        self._start("outgoing", self._watch_outgoing)
        for server in servers if self._runtime.settings.hub_wait else ():
            self._start(server.url, self._watch_hub, server)

    def close(self) -> None:
        """Let the threads end. One that waits for a hub ends with the process."""
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
        """Enqueue a round soon after something was said, until no hub is left."""
        store = self._runtime.store
        version, is_waiting = -1, False
        try:
            while not self._closing.wait(QUIET_SECONDS if is_waiting else LOOK_SECONDS):
                now = store.data_version()
                if is_waiting:
                    sync()
                    is_waiting, version = False, now
                elif now != version:
                    version = now
                    servers = list_servers(store)
                    if not servers:
                        return
                    spaces = [space for space in list_spaces(store) if space.role != "reader"]
                    is_due = not any(server.retry_at_ms > store.now_ms() for server in servers)
                    is_waiting = is_due and any(count_outgoing(store, space.id) for space in spaces)
        except StoreError as error:
            logger.warning("action=hub_watch failed=%s", error)
        finally:
            store.close()

    def _watch_hub(self, server: Server) -> None:
        """Keep a request open at a hub, and enqueue a round when something changed there."""
        from engram.hub.client.connection import Connection
        from engram.hub.client.keys import Keyring

        store = self._runtime.store
        try:
            while not self._closing.is_set():
                if server.url not in {known.url for known in list_servers(store)}:
                    return
                try:
                    token = Keyring(self._runtime.settings.places.hub_keys).token(server.url)
                    with Connection(server.url, token) as connection:
                        cursors = {space.ns_id: space.cursor for space in list_spaces(store, server.id)}
                        has_changed = connection.wait(cursors)
                except EngramError:
                    self._closing.wait(REST_SECONDS)
                    continue
                if has_changed and not self._closing.is_set():
                    sync()
                    self._closing.wait(LOOK_SECONDS)
        except StoreError as error:
            logger.warning("action=hub_watch failed=%s", error)
        finally:
            store.close()
