"""A proxy between machines and a hub that delays, drips, cuts and lies: real sockets, and a fault for each request.

A fault waits for no time: an answer that is late comes when the machine has given up, a drip goes on until then. How
soon a machine gives up is a parameter of its rounds (``Limits``).
"""

from __future__ import annotations

import contextlib
import http.client
import json
import random
import select
import socket
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

from engram.hub.client.connection import Limits
from engram.hub.protocol.requests import REQUEST_HEADER

#: What a proxy can do to a request. Lies change an answer of JSON; see ``LIES``.
FAULTS = ("lose_request", "late_request", "lose_answer", "cut_answer", "drip", "garbage", "replay", "error", "lie")
#: Limits with which a machine gives up soon, in seconds. What it gives up for no reason is one more fault.
IMPATIENT = Limits(silence=0.3, message=0.3, page=1.0, round=20.0)

Answer = tuple[int, dict[str, str], bytes]


@dataclass(slots=True)
class Proxy:
    """A proxy on a port of this machine. ``fault`` is asked for each request; "" lets it through."""

    url: str
    fault: Callable[[str], str] = lambda what: ""
    chance: random.Random = field(default_factory=lambda: random.Random(0))
    counts: Counter[str] = field(default_factory=Counter)
    #: Request → answers that the hub gave to it, for replays.
    earlier: dict[str, list[Answer]] = field(default_factory=dict)
    #: The lie that is told, by its name; "" for any.
    lie: str = ""
    _hub: str = ""
    _closing: threading.Event = field(default_factory=threading.Event)

    @classmethod
    @contextlib.contextmanager
    def before(cls, hub_url: str) -> Iterator[Proxy]:
        """Run a proxy before a hub."""
        listener = socket.create_server(("127.0.0.1", 0))
        proxy = cls(f"http://127.0.0.1:{listener.getsockname()[1]}", _hub=urlsplit(hub_url).netloc)
        thread = threading.Thread(target=proxy._accept, args=(listener,), daemon=True)
        thread.start()
        try:
            yield proxy
        finally:
            proxy._closing.set()
            with contextlib.suppress(OSError):
                socket.create_connection(listener.getsockname()).close()
            thread.join(20)
            listener.close()

    def _accept(self, listener: socket.socket) -> None:
        while True:
            client, _ = listener.accept()
            if self._closing.is_set():
                client.close()
                return
            threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        with client, client.makefile("rb") as reader, contextlib.suppress(OSError, http.client.HTTPException):
            while (request := _read_request(reader)) is not None:
                path, headers, body = request
                what = path.rsplit("/", 1)[-1]
                fault = self.fault(what)
                self.counts[fault] += 1
                if not self._answer(client, fault, what, path, headers, body):
                    return

    def _answer(
        self, client: socket.socket, fault: str, what: str, path: str, headers: dict[str, str], body: bytes
    ) -> bool:
        """Answer one request; returns False where the connection is to end."""
        if fault == "lose_request":
            return False
        if fault == "late_request":
            self._wait_until_gone(client)
            self._ask_hub(path, headers, body)
            return False
        if fault == "garbage":
            noise = self.chance.choice((b"<html>busy</html>", b"[]", b"{}", b"null", b'{"spaces":7}', b"\x00" * 40))
            client.sendall(_response(200, {REQUEST_HEADER: headers.get(REQUEST_HEADER.lower(), "")}, noise))
            return True
        if fault == "error":
            status = self.chance.choice((301, 400, 403, 404, 413, 422, 429, 500, 503))
            client.sendall(_response(status, {}, b'{"error": "the proxy says no"}'))
            return True
        if fault == "replay" and self.earlier.get(what):
            client.sendall(_response(*self.chance.choice(self.earlier[what])))
            return True
        status, kept, data = self._ask_hub(path, headers, body)
        if status == 200:
            self.earlier.setdefault(what, []).append((status, kept, data))
        if fault == "lose_answer":
            return False
        if fault == "lie":
            data = self._lie(what, data)
        whole = _response(status, kept, data)
        if fault == "cut_answer":
            client.sendall(whole[: self.chance.randrange(1, len(whole))])
            return False
        if fault == "drip":
            return self._drip(client, whole)
        client.sendall(whole)
        return True

    def _ask_hub(self, path: str, headers: dict[str, str], body: bytes) -> Answer:
        connection = http.client.HTTPConnection(self._hub, timeout=60)
        try:
            passed = ("authorization", "content-type", REQUEST_HEADER.lower())
            connection.request("POST", path, body, {name: headers[name] for name in passed if name in headers})
            response = connection.getresponse()
            data = response.read()
            named = response.getheader(REQUEST_HEADER)
            return response.status, {} if named is None else {REQUEST_HEADER: named}, data
        finally:
            connection.close()

    def _drip(self, client: socket.socket, whole: bytes) -> bool:
        """Send a byte now and then, and never the last one; ends when the machine gives up."""
        for number in range(len(whole) - 1):
            client.sendall(whole[number : number + 1])
            if _is_gone(client, 0.01) or self._closing.is_set():
                return False
        self._wait_until_gone(client)
        return False

    def _wait_until_gone(self, client: socket.socket) -> None:
        while not _is_gone(client, 0.05) and not self._closing.is_set():
            pass

    def _lie(self, what: str, data: bytes) -> bytes:
        try:
            value = json.loads(data)
        except ValueError:
            return data[:-1] if data else data
        names = [name for name in LIES if self.lie in ("", name)]
        return json.dumps(LIES[self.chance.choice(names)](value, self.chance)).encode()


# -- lies


def _other_device(value: Any, chance: random.Random) -> Any:
    return value | {"device": chance.randrange(1, 1 << 50)} if "device" in value else value


def _a_copy(value: Any, chance: random.Random) -> Any:
    return value | {"same": False} if "same" in value else value


def _a_strange_push(value: Any, chance: random.Random) -> Any:
    return value | {"same": False, "push_id": chance.randbytes(16).hex()} if "push_id" in value else value


def _another_time(value: Any, chance: random.Random) -> Any:
    days = chance.choice((-4_000, -2, 2, 400, 40_000))
    return value | {"time_ms": value["time_ms"] + days * 86_400_000} if "time_ms" in value else value


def _of_spaces(
    change: Callable[[dict[str, Any], random.Random], dict[str, Any]],
) -> Callable[[Any, random.Random], Any]:
    def lie(value: Any, chance: random.Random) -> Any:
        if not isinstance(value.get("spaces"), list):
            return value
        return value | {"spaces": [space | change(space, chance) for space in value["spaces"]]}

    return lie


def _another_team(value: Any, chance: random.Random) -> Any:
    if not value.get("spaces"):
        return value
    strange = value["spaces"][0] | {
        "ns": chance.randrange(1, 1 << 50),
        "name": "strangers",
        "kind": "team",
        "role": "writer",
        "sealed": False,
        "key": "",
    }
    return value | {"spaces": [*value["spaces"], strange]}


LIES: dict[str, Callable[[Any, random.Random], Any]] = {
    "another device": _other_device,
    "a copy": _a_copy,
    "a strange push": _a_strange_push,
    "another time": _another_time,
    "another team": _another_team,
    "no spaces": lambda value, chance: value | {"spaces": []} if "spaces" in value else value,
    "another key": _of_spaces(lambda space, chance: {"key": chance.randbytes(8).hex()}),
    "not sealed": _of_spaces(lambda space, chance: {"sealed": False}),
    "a far head": _of_spaces(lambda space, chance: {"head": chance.choice((0, 1 << 40, 1 << 70, -1))}),
    "put back": _of_spaces(lambda space, chance: {"known": False}),
    "another role": _of_spaces(lambda space, chance: {"role": chance.choice(("reader", "owner", ""))}),
    "another space": _of_spaces(lambda space, chance: {"ns": chance.randrange(1, 1 << 50)}),
}


# -- HTTP


def _read_request(reader: Any) -> tuple[str, dict[str, str], bytes] | None:
    line = reader.readline(65_536).split()
    if len(line) != 3:
        return None
    headers = {}
    while (text := reader.readline(65_536).decode("latin-1").strip()) != "":
        name, _, value = text.partition(":")
        headers[name.lower()] = value.strip()
    return line[1].decode(), headers, reader.read(int(headers.get("content-length", 0)))


def _response(status: int, headers: dict[str, str], data: bytes) -> bytes:
    lines = [f"HTTP/1.1 {status} Answer", f"Content-Length: {len(data)}", *(f"{k}: {v}" for k, v in headers.items())]
    return "\r\n".join([*lines, "", ""]).encode("latin-1") + data


def _is_gone(client: socket.socket, seconds: float) -> bool:
    """True once the machine closed its connection; waits a moment for that."""
    readable, _, _ = select.select([client], [], [], seconds)
    if not readable:
        return False
    try:
        return client.recv(1, socket.MSG_PEEK) == b""
    except OSError:
        return True
