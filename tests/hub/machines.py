"""A hub that runs in this process, and machines that use it, or a folder."""

from __future__ import annotations

import contextlib
import json
import socket
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from engram.enums import Actor, Kind, Scope
from engram.forgetting.forget import forget_memory
from engram.hub.client import connection
from engram.hub.client.connection import Limits
from engram.hub.client.join_folder import join_folder
from engram.hub.client.membership import Joined, join_hub, make_code
from engram.hub.client.rounds import Round, sync_all
from engram.hub.protocol.requests import code_text, new_code
from engram.memories.save import edit_memory, save_memory
from engram.models.engine.transaction import Store
from engram.models.hub.memory_statements import said_of_memory
from engram.models.hub.spaces import list_servers
from engram.models.memories.memory_history import snapshot
from engram.models.memories.memory_records import Memory, all_memories, find_memory
from engram.paths import Home
from engram.redaction import redact
from engram.system.clock import SYSTEM_CLOCK, Clock, FixedClock
from tests.empty_memory import open_empty

if TYPE_CHECKING:
    import uvicorn

    from engram.hub.server.app import Service
    from engram.hub.server.hub_database import Database

#: How long machines wait for a hub that a test runs: on a busy machine it may stand still for half a minute.
PATIENT = Limits(silence=600, message=600, page=600, round=600)

# What needs the extra hub is imported where it is used: machines with a folder have no service.


@dataclass(slots=True)
class Hub:
    """The service on a port of this machine."""

    database: Database
    service: Service
    url: str
    _server: uvicorn.Server
    _thread: threading.Thread

    @classmethod
    @contextlib.contextmanager
    def running(cls, dsn: str, clock: Clock = SYSTEM_CLOCK) -> Iterator[Hub]:
        import uvicorn

        from engram.hub.server.app import Service, make_app
        from engram.hub.server.hub_database import Database

        database = Database(dsn).open()
        listener = socket.socket()
        listener.bind(("127.0.0.1", 0))
        service = Service(database, clock)
        config = uvicorn.Config(make_app(service), log_config=None, access_log=False, timeout_graceful_shutdown=1)
        server = uvicorn.Server(config)
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
        thread.start()
        while not server.started:
            assert thread.is_alive(), "the service did not start"
            time.sleep(0.005)
        patch = pytest.MonkeyPatch()
        patch.setattr(connection, "LIMITS", PATIENT)
        try:
            yield cls(database, service, f"http://127.0.0.1:{listener.getsockname()[1]}", server, thread)
        finally:
            patch.undo()
            # Nobody waits for the connections that machines keep open.
            server.force_exit = server.should_exit = True
            thread.join(timeout=60)
            listener.close()
            database.close()

    def invite(self, name: str) -> str:
        """Add a member; returns the code for the first machine."""
        from engram.hub.server.accounts import add_member

        hub_half, _ = new_code()
        add_member(self.database, name, hub_half)
        return code_text(hub_half)

    def rows(self, query: str, *values: Any) -> list[Any]:
        """Rows of the hub's database, as its owner sees them."""
        with self.database.service() as connection:
            return connection.execute(query.encode(), values).fetchall()


@dataclass(slots=True)
class Machine:
    """One machine: a home, a store, and what people do on it."""

    places: Home
    store: Store
    phrase: str = field(default="")

    @classmethod
    @contextlib.contextmanager
    def open(cls, home: Path, clock: Clock | None = None) -> Iterator[Machine]:
        places = Home(home).prepare()
        with open_empty(places.memory_db, clock=clock or SYSTEM_CLOCK) as store:
            yield cls(places, store)

    def join(self, hub: Hub, code: str, *, url: str = "", **options: Any) -> Joined:
        joined = join_hub(self.store, self.places, url or hub.url, code, **options)
        self.phrase = joined.phrase or self.phrase
        return joined

    def use_folder(self, folder: Path, phrase: str = "", **options: Any) -> Joined:
        """Join a folder, which is made."""
        folder.mkdir(parents=True, exist_ok=True)
        joined = join_folder(self.store, self.places, folder, phrase=phrase, **options)
        self.phrase = joined.phrase or phrase or self.phrase
        return joined

    def code(self) -> str:
        """A code for another machine of this person."""
        return make_code(self.places, list_servers(self.store)[0])

    def sync(self) -> Round:
        """Make a round; fails the test where it does not succeed."""
        (done,) = sync_all(self.store, self.places, redact, is_forced=True)
        assert done.error == "", done.error
        return done

    def save(self, text: str, **options: Any) -> Memory:
        options = {"scope": Scope.GLOBAL, "kind": Kind.DECISION, "actor": Actor.USER} | options
        return save_memory(self.store, text, redact, **options)

    def edit(self, episode_id: str, text: str) -> None:
        edit_memory(self.store, episode_id, redact, summary=text, content=text, actor=Actor.USER)

    def forget(self, episode_id: str) -> None:
        forget_memory(self.store, self.places, episode_id, actor=Actor.USER)

    def find(self, episode_id: str) -> Memory:
        memory = find_memory(self.store, episode_id)
        assert memory is not None, f"{episode_id} is not here"
        return memory

    def texts(self) -> set[str]:
        return {memory.content for memory in all_memories(self.store)}

    def said(self) -> dict[str, Any]:
        """Memory id → what was said of it, in a form that is the same on every machine that agrees."""
        states: dict[str, Any] = {}
        for kept in all_memories(self.store):
            for memory in said_of_memory(self.store, kept.episode_id):
                text = memory.own_text or {"s": kept.summary, "c": kept.content}
                stamped = dict(sorted(memory.said.items()))
                states[memory.memory_id.hex()] = json.dumps([text["s"], text["c"], stamped])
        return states

    def state(self, episode_id: str) -> dict[str, Any]:
        """The fields of a memory that two machines have in common."""
        fields = snapshot(self.find(episode_id))
        left_out = {"stable_id", "project_id", "session_id", "slot", "kept_at_ms"}
        return {name: value for name, value in fields.items() if name not in left_out}


@dataclass(slots=True)
class HubCopy:
    """The rows of a hub at some time, to put it back to."""

    tables: dict[str, list[Any]]

    @classmethod
    def take(cls, hub: Hub) -> HubCopy:
        return cls({name: hub.rows(f"SELECT * FROM hub.{name}") for name in _TABLES})

    def put_back(self, hub: Hub) -> None:
        with hub.database.service() as connection:
            connection.execute(f"TRUNCATE {', '.join('hub.' + name for name in _TABLES)}".encode())
            for name, rows in self.tables.items():
                for row in rows:
                    marks = ", ".join(["%s"] * len(row))
                    connection.execute(f"INSERT INTO hub.{name} VALUES ({marks})".encode(), tuple(row))


_TABLES = ("member", "device", "code", "namespace", "seat", "mark", "statement", "report")

__all__ = ["FixedClock", "Hub", "HubCopy", "Machine"]
