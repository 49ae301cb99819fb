"""Watches for what is to be synced: what was said here, and what the hub tells of. It only enqueues the task."""

from __future__ import annotations

import logging
import threading

from engram.errors import EngramError, StoreError
from engram.models.hub_spaces import Server, count_outgoing, list_servers, list_spaces, server_by_id
from engram.tasks.runtime import Runtime
from engram.tasks.sync import sync

logger = logging.getLogger(__name__)

#: How often it looks for changes here, and how long it leaves them alone after one, in seconds.
LOOK_SECONDS, QUIET_SECONDS = 0.1, 1.0
#: How often it asks a hub at which it keeps no request open (setting ``hub_wait``), in seconds.
ASK_SECONDS = 3.0
#: How long a round that was enqueued gets until the hub is asked again, in seconds: twice as long each time until it
#: moved a cursor, up to ``REST_SECONDS``. A hub that always says that something changed is asked seldom.
SETTLE_SECONDS = 0.5
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
        for server in servers:
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
        """Enqueue a round when something was said, until no hub is left. What is said just after waits for the next."""
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
                # Where a space fails by itself, as without its key, nothing is gained by asking at once.
                spaces = [space for space in list_spaces(store) if space.role != "reader" and not space.last_error]
                is_due = not any(server.retry_at_ms > store.now_ms() for server in servers)
                if is_due and any(count_outgoing(store, space.id) for space in spaces):
                    sync()
                    pause = QUIET_SECONDS
        except StoreError as error:
            logger.warning("action=hub_watch failed=%s", error)
        finally:
            store.close()

    def _watch_hub(self, server: Server) -> None:
        """Keep a request open at a hub, or ask it now and then, and enqueue a round when something changed there."""
        from engram.hub.client.connection import WAIT_SECONDS, Connection
        from engram.hub.client.keys import Keyring

        store, settings = self._runtime.store, self._runtime.settings
        pause, seconds = (0.0, WAIT_SECONDS) if settings.hub_wait else (ASK_SECONDS, 0.0)
        settle = SETTLE_SECONDS
        former: dict[int, int] = {}
        try:
            while not self._closing.wait(pause):
                known = server_by_id(store, server.id)
                if known is None:
                    return
                # What fails is asked for by the rounds of every minute.
                spaces = [space for space in list_spaces(store, server.id) if not space.last_error]
                if not spaces or known.retry_at_ms > store.now_ms():
                    self._closing.wait(REST_SECONDS)
                    continue
                try:
                    token = Keyring(settings.places.hub_keys).token(server.url)
                    with Connection(server.url, token) as connection:
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
