"""The connection to a hub: one kept-alive HTTP connection, with bounds on waits and sizes."""

from __future__ import annotations

import contextlib
import http.client
import ipaddress
import ssl
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Any
from urllib.parse import urlsplit

from engram.errors import BadRequest, HubRefused, HubUnreachable
from engram.hub.protocol.frames import PROTOCOL, Answers, Page, Push, pack_push, unpack_answers, unpack_page
from engram.hub.protocol.messages import HelloAnswer, HelloRequest, from_bytes, to_bytes

#: How long the hub may take for the next bytes, in seconds; a long poll may take ``WAIT_SECONDS`` more.
TIMEOUT_SECONDS = 30.0
WAIT_SECONDS = 50.0
#: Largest answer that is read, in bytes.
MAX_ANSWER_BYTES = 200_000_000


def check_url(url: str) -> str:
    """Return the address of a hub without a slash at its end.

    Raises:
        BadRequest: it is no address, has credentials in it, or would send everything unencrypted over a network.
    """
    try:
        parts = urlsplit(url.strip())
        host, _ = parts.hostname or "", parts.port
    except ValueError as error:
        raise BadRequest(f"{url[:80]!r} is no address of a hub") from error
    if parts.scheme not in ("http", "https") or not host or parts.query or parts.fragment:
        raise BadRequest(f"{url[:80]!r} is no address of a hub: it looks like https://hub.example.org")
    if parts.username or parts.password:
        raise BadRequest("an address of a hub has no user and no password in it: the code is what lets you in")
    if parts.scheme == "http" and not _is_loopback(host):
        raise BadRequest(f"{host} would be asked without encryption: use https (http is for this machine alone)")
    return f"{parts.scheme}://{parts.netloc.lower()}{parts.path.rstrip('/')}"


def _is_loopback(host: str) -> bool:
    with contextlib.suppress(ValueError):
        return ipaddress.ip_address(host).is_loopback
    return host == "localhost"


class Connection:
    """Asks one hub. For one thread at a time."""

    def __init__(self, url: str, token: str = "", *, timeout_seconds: float = TIMEOUT_SECONDS) -> None:
        """Prepare, but do not connect."""
        self.url = check_url(url)
        self.token = token
        #: Bytes that were sent and received, without headers.
        self.sent_bytes = self.received_bytes = 0
        self._timeout_seconds = timeout_seconds
        self._connection: http.client.HTTPConnection | None = None

    def __enter__(self) -> Connection:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the connection."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    # -- requests

    def hello(self, request: HelloRequest) -> HelloAnswer:
        """Begin a round."""
        answer = self.ask("hello", request.to_json())
        with _reading():
            return HelloAnswer.from_json(answer)

    def pull(self, ns_id: int, after: int, limit: int) -> Page:
        """Return the next page of a space."""
        data = self.send("pull", to_bytes({"ns": ns_id, "after": after, "limit": limit}))
        with _reading():
            return unpack_page(data)

    def push(self, push: Push) -> Answers:
        """Push a page."""
        data = self.send("push", pack_push(push))
        with _reading():
            return unpack_answers(data)

    def wait(self, cursors: Mapping[int, int], seconds: float = WAIT_SECONDS) -> bool:
        """Wait until a space has something beyond its cursor; returns False where nothing came."""
        places = [[ns_id, after] for ns_id, after in cursors.items()]
        answer = self.ask("wait", {"after": places, "seconds": seconds}, extra_seconds=seconds)
        return bool(answer.get("changed"))

    def ask(self, what: str, value: Mapping[str, Any] | Sequence[Any], *, extra_seconds: float = 0) -> dict[str, Any]:
        """Send JSON and return the JSON that is answered."""
        return from_bytes(self.send(what, to_bytes(value), extra_seconds=extra_seconds))

    def send(self, what: str, body: bytes, *, extra_seconds: float = 0) -> bytes:
        """Send a request and return the answer. A connection that the hub closed meanwhile is made anew once.

        Raises:
            HubUnreachable: no answer came.
            HubRefused: the hub answered no.
        """
        is_reused = self._connection is not None
        try:
            return self._send(what, body, extra_seconds)
        except (http.client.RemoteDisconnected, BrokenPipeError, ConnectionResetError) as error:
            self.close()
            if not is_reused:
                raise HubUnreachable(f"{self.url} closed the connection") from error
        except (OSError, http.client.HTTPException) as error:
            self.close()
            raise HubUnreachable(f"{self.url} can't be reached: {error or type(error).__name__}") from error
        try:
            return self._send(what, body, extra_seconds)
        except (OSError, http.client.HTTPException) as error:
            self.close()
            raise HubUnreachable(f"{self.url} can't be reached: {error or type(error).__name__}") from error

    def _send(self, what: str, body: bytes, extra_seconds: float) -> bytes:
        connection = self._connected()
        if connection.sock is not None:
            connection.sock.settimeout(self._timeout_seconds + extra_seconds)
        headers = {"Content-Type": "application/octet-stream"}
        if self.token:
            headers["Authorization"] = f"Bearer {self.token}"
        path = f"{urlsplit(self.url).path}/v{PROTOCOL}/{what}"
        connection.request("POST", path, body, headers)
        response = connection.getresponse()
        data = response.read(MAX_ANSWER_BYTES + 1)
        self.sent_bytes += len(body)
        self.received_bytes += len(data)
        if len(data) > MAX_ANSWER_BYTES:
            self.close()
            raise HubRefused(f"{self.url} answered more than {MAX_ANSWER_BYTES} bytes")
        if response.status >= 500:
            self.close()
            raise HubUnreachable(f"{self.url} answered {response.status}: {_reason(data) or response.reason}")
        if response.status != 200:
            raise HubRefused(_reason(data) or f"{self.url} answered {response.status}", response.status)
        return data

    def _connected(self) -> http.client.HTTPConnection:
        if self._connection is None:
            parts = urlsplit(self.url)
            host = parts.hostname or ""
            if parts.scheme == "https":
                self._connection = http.client.HTTPSConnection(
                    host, parts.port, timeout=self._timeout_seconds, context=ssl.create_default_context()
                )
            else:
                self._connection = http.client.HTTPConnection(host, parts.port, timeout=self._timeout_seconds)
            self._connection.connect()
        return self._connection


@contextlib.contextmanager
def _reading() -> Any:
    """Turn what a strange answer raises into one error."""
    try:
        yield
    except (BadRequest, LookupError, ValueError, TypeError) as error:
        raise HubRefused(f"the hub answered something that is not understood: {error}") from error


def _reason(data: bytes) -> str:
    with contextlib.suppress(BadRequest):
        return str(from_bytes(data[:10_000]).get("error", ""))[:300]
    return ""
