"""The interface through which a round talks to a hub, and its implementation over HTTPS, with deadlines.

A hub that is slow, trickles bytes, or sends truncated or unexpected responses costs only a limited amount of time.
The request then fails with a ``HubError``, and no part of the response is used.
"""

from __future__ import annotations

import contextlib
import http.client
import io
import ipaddress
import secrets
import socket
import ssl
import time
import urllib.request
from base64 import b64encode
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, Self
from urllib.parse import unquote, urlsplit

from engram.errors import BadRequest, HubRefused, HubUnreachable
from engram.hub.protocol.frames import PROTOCOL, Answers, Page, Push, pack_push, unpack_answers, unpack_page
from engram.hub.protocol.requests import REQUEST_HEADER, HelloAnswer, HelloRequest, Membership, from_bytes, to_bytes
from engram.models.engine.transaction import Tx
from engram.system.atomic import explain_error
from engram.trust.display import one_line, visible

#: How long a long poll waits for a change, in seconds.
WAIT_SECONDS = 50.0
#: Maximum size of a response, in bytes, for requests for pages and for all other requests.
MAX_PAGE_ANSWER_BYTES, MAX_ANSWER_BYTES = 32_000_000, 4_000_000
#: A connection that has been idle for longer than this, in seconds, is reopened, because services close idle
#: connections after five seconds.
_IDLE_SECONDS = 2.0
#: Requests that send or return pages of rows.
_PAGES = ("pull", "push")
#: Requests that are never resent automatically, because repeating one would create or change something twice.
_ONCE = ("code", "team-make", "team-invite", "team-join", "team-role", "team-dissolve", "team-report")


@dataclass(frozen=True, slots=True)
class Limits:
    """How long a hub may take, in seconds."""

    #: Until the next bytes of a response arrive.
    silence: float = 30.0
    #: For a whole request, from connecting to the end of the response: for a small one, and for one with a page of
    #: rows.
    message: float = 45.0
    page: float = 120.0
    #: For all requests over one connection, such as those of a round. The next round does whatever is left.
    round: float = 300.0


LIMITS = Limits()


def check_url(url: str) -> str:
    """Return the address of a hub without a trailing slash.

    Raises:
        BadRequest: the address is not a URL, contains credentials, or would send everything unencrypted over a network.
    """
    try:
        parts = urlsplit(url.strip())
        host, _ = parts.hostname or "", parts.port
    except ValueError as error:
        raise BadRequest(f"{url[:80]!r} is not the address of a hub") from error
    if parts.scheme not in ("http", "https") or not host or parts.query or parts.fragment:
        raise BadRequest(f"{url[:80]!r} is not the address of a hub: use one like https://hub.example.org")
    if parts.username or parts.password:
        raise BadRequest("a hub's address must not contain a user name or password: join with a code instead")
    if parts.scheme == "http" and not _is_loopback(host):
        raise BadRequest(f"{host} would be contacted without encryption: use https (http is for this machine only)")
    return f"{parts.scheme}://{parts.netloc.lower()}{parts.path.rstrip('/')}"


def _is_loopback(host: str) -> bool:
    with contextlib.suppress(ValueError):
        return ipaddress.ip_address(host).is_loopback
    return host == "localhost"


@dataclass(frozen=True, slots=True)
class HttpProxy:
    """A company's proxy, which opens a tunnel to a host."""

    host: str
    port: int
    #: ``user:password``, or "".
    login: str = ""


def proxy_of(url: str) -> HttpProxy | None:
    """Return the proxy that the environment names for a hub; None if there is none, for http, and for SOCKS.

    Raises:
        HubUnreachable: the variable contains no address.
    """
    parts = urlsplit(url)
    host = parts.hostname or ""
    if parts.scheme != "https" or _is_loopback(host) or urllib.request.proxy_bypass(host):
        return None
    proxies = urllib.request.getproxies()
    named = proxies.get("https") or proxies.get("all") or ""
    try:
        proxy = urlsplit(named if "://" in named or not named else f"http://{named}")
        if proxy.scheme != "http":
            return None
        login = f"{unquote(proxy.username)}:{unquote(proxy.password or '')}" if proxy.username else ""
        return HttpProxy(proxy.hostname or "", proxy.port or http.client.HTTP_PORT, login)
    except ValueError as error:
        raise HubUnreachable("HTTPS_PROXY or ALL_PROXY does not contain the address of a proxy") from error


class Transport(Protocol):
    """The interface to one hub, a service over HTTPS or a folder, for one round or command. Not thread-safe.

    Every request raises HubUnreachable if it should be retried later, and HubRefused if the hub refuses it.
    """

    #: Identifies the hub in memory.db and in the key file.
    url: str
    #: The token that makes this machine a device of the hub.
    token: str
    #: Bytes that were sent and received, without headers.
    sent_bytes: int
    received_bytes: int
    #: The last push from this device that the hub reported in this round; b"" if there is none.
    last_push: bytes

    def __enter__(self) -> Self:
        """Return the transport; it is closed at the end of the block."""

    def __exit__(self, *_: object) -> None:
        """Close the transport."""

    @property
    def is_over(self) -> bool:
        """True once the time for the round has run out; the next round does the rest."""

    def hello(self, request: HelloRequest) -> HelloAnswer:
        """Begin a round."""

    def membership(self, what: str, value: Mapping[str, Any]) -> Membership:
        """Send a request to become a device: either ``join`` or ``renew``."""

    def pull(self, ns_id: int, after: int, limit: int, *, with_own: bool = False) -> Page:
        """Return the next page of a space; ``with_own`` includes the rows that this device wrote."""

    def push(self, push: Push) -> Answers:
        """Push a page."""

    def wait(self, cursors: Mapping[int, int], seconds: float) -> bool:
        """Wait until a space has rows beyond its cursor; return False if none arrived in time."""

    def ask(self, what: str, value: Mapping[str, Any] | Sequence[Any]) -> dict[str, Any]:
        """Make any other request, and return the response."""

    def took_page(self, tx: Tx, page: Page) -> None:
        """Record that a page was stored, in this transaction."""

    def start_over(self, tx: Tx) -> None:
        """Record, in this transaction, that this machine will send and read everything again."""

    def finish(self, goes_on: Callable[[], bool]) -> None:
        """Finish a round that succeeded."""


class Connection(Transport):
    """Talks to one hub over HTTPS, for one round or command. Not thread-safe."""

    def __init__(self, url: str, token: str = "", *, limits: Limits | None = None) -> None:
        """Set up the connection without opening it.

        The time for the round starts now; ``limits`` defaults to ``LIMITS``.
        """
        self.url = check_url(url)
        self.token = token
        self.sent_bytes = self.received_bytes = 0
        self.last_push = b""
        self._limits = limits or LIMITS
        self._round_until = time.monotonic() + self._limits.round
        self._connection: _Http | None = None
        self._used_at = 0.0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    @property
    def is_over(self) -> bool:
        return time.monotonic() >= self._round_until

    # -- requests

    def open(self) -> None:
        """Connect to the hub without sending a request. Raises HubUnreachable."""
        try:
            self._connected(min(time.monotonic() + self._limits.message, self._round_until))
            self._used_at = time.monotonic()
        except (OSError, http.client.HTTPException) as error:
            raise self._unreachable("connect", error) from error

    def hello(self, request: HelloRequest) -> HelloAnswer:
        answer = self.ask("hello", request.to_json())
        with reading():
            return HelloAnswer.from_json(answer)

    def membership(self, what: str, value: Mapping[str, Any]) -> Membership:
        answer = self.ask(what, value)
        with reading():
            return Membership.from_json(answer)

    def pull(self, ns_id: int, after: int, limit: int, *, with_own: bool = False) -> Page:
        own = {"own": True} if with_own else {}
        data = self.send("pull", to_bytes({"ns": ns_id, "after": after, "limit": limit} | own))
        with reading():
            return unpack_page(data)

    def push(self, push: Push) -> Answers:
        data = self.send("push", pack_push(push))
        with reading():
            return unpack_answers(data)

    def wait(self, cursors: Mapping[int, int], seconds: float = WAIT_SECONDS) -> bool:
        places = [[ns_id, after] for ns_id, after in cursors.items()]
        answer = self.ask("wait", {"after": places, "seconds": seconds}, extra_seconds=seconds)
        return bool(answer.get("changed"))

    def ask(self, what: str, value: Mapping[str, Any] | Sequence[Any], *, extra_seconds: float = 0) -> dict[str, Any]:
        data = self.send(what, to_bytes(value), extra_seconds=extra_seconds)
        with reading():
            return from_bytes(data)

    def took_page(self, tx: Tx, page: Page) -> None:
        """Do nothing, because the hub doesn't record which machine has read which page."""

    def start_over(self, tx: Tx) -> None:
        """Do nothing, because the hub itself compares the marks and the pushes."""

    def finish(self, goes_on: Callable[[], bool]) -> None:
        """Do nothing, because each push is complete in itself."""

    def send(self, what: str, body: bytes, *, extra_seconds: float = 0) -> bytes:
        """Send a request and return the response. A connection that the hub has since closed is reopened once.

        Args:
            extra_seconds: how long the hub may wait before it answers, beyond the limits.

        Raises:
            HubUnreachable: no complete response arrived in time.
            HubRefused: the hub refused, or its response does not match the request.
        """
        limits = self._limits
        seconds = (limits.page if what in _PAGES else limits.message) + extra_seconds
        until = min(time.monotonic() + seconds, self._round_until)
        if self._connection is not None and time.monotonic() - self._used_at > _IDLE_SECONDS:
            self.close()
        is_reused = self._connection is not None
        try:
            return self._send(what, body, until, extra_seconds)
        except (http.client.RemoteDisconnected, BrokenPipeError, ConnectionResetError) as error:
            self.close()
            if not is_reused or what in _ONCE:
                raise HubUnreachable(f"{self.url} closed the connection") from error
        except (OSError, http.client.HTTPException) as error:
            raise self._unreachable(what, error) from error
        try:
            return self._send(what, body, until, extra_seconds)
        except (OSError, http.client.HTTPException) as error:
            raise self._unreachable(what, error) from error

    def _unreachable(self, what: str, error: Exception) -> HubUnreachable:
        self.close()
        proxy = proxy_of(self.url)
        way = "" if proxy is None else f" through the proxy {proxy.host}:{proxy.port}"
        if isinstance(error, TimeoutError):
            return HubUnreachable(f"{self.url} took too long to answer ({what}){way}")
        return HubUnreachable(f"{self.url} can't be reached{way}: {_in_words(error)}")

    def _send(self, what: str, body: bytes, until: float, extra_seconds: float) -> bytes:
        connection = self._connected(until)
        connection.begin(until, self._limits.silence + extra_seconds)
        asked = secrets.token_hex(8)
        headers = {"Content-Type": "application/octet-stream", REQUEST_HEADER: asked}
        if self.token:
            headers["Authorization"] = f"Bearer {self.token}"
        path = f"{urlsplit(self.url).path}/v{PROTOCOL}/{what}"
        connection.request("POST", path, body, headers)
        response = connection.getresponse()
        most_bytes = MAX_PAGE_ANSWER_BYTES if what in _PAGES else MAX_ANSWER_BYTES
        data = response.read(most_bytes + 1)
        self._used_at = time.monotonic()
        self.sent_bytes += len(body)
        self.received_bytes += len(data)
        if len(data) > most_bytes:
            self.close()
            raise HubRefused(f"{self.url} sent more than {most_bytes} bytes")
        if response.length:
            self.close()
            raise HubUnreachable(f"{self.url} sent an incomplete answer")
        if response.status >= 500:
            self.close()
            raise HubUnreachable(f"{self.url} answered {response.status}: {_reason(data) or response.reason}")
        if location := response.getheader("Location"):
            # Never followed: the request has the token, and may have memories.
            self.close()
            raise HubRefused(
                f"{self.url} refers to another address, {visible(location)[:200]}; check the hub's address"
            )
        if response.status != 200:
            raise HubRefused(_reason(data) or f"{self.url} answered {response.status}", response.status)
        if response.getheader(REQUEST_HEADER) is None:
            self.close()
            raise HubUnreachable(f"what answers at {self.url} is not a hub; does this network ask for a login first?")
        if response.getheader(REQUEST_HEADER) != asked:
            # A response to a different request, such as one from a cache or a replay.
            self.close()
            raise HubRefused(f"{self.url} answered a request other than the one that was sent")
        return data

    def _connected(self, until: float) -> _Http:
        if self._connection is None:
            parts = urlsplit(self.url)
            seconds = max(0.001, min(self._limits.silence, until - time.monotonic()))
            connection = (_Https if parts.scheme == "https" else _Http)(parts.hostname or "", parts.port, seconds)
            connection.connect_by(until, proxy_of(self.url))
            self._connection = connection
        return self._connection


class _Http(http.client.HTTPConnection):
    """An HTTP connection with a deadline for complete responses."""

    def __init__(self, host: str, port: int | None, seconds: float, **options: Any) -> None:
        super().__init__(host, port, timeout=seconds, **options)
        self._until = self._silence_seconds = 0.0
        self.response_class = self._response  # type: ignore[assignment]

    def connect_by(self, until: float, proxy: HttpProxy | None) -> None:
        """Connect, through a proxy tunnel if necessary; the proxy sees only the host name."""
        if proxy is not None:
            login = b64encode(proxy.login.encode()).decode()
            self.set_tunnel(self.host, self.port, {"Proxy-Authorization": f"Basic {login}"} if login else {})
            self.host, self.port = proxy.host, proxy.port
        self._until, self._silence_seconds = until, float(self.timeout or 0)
        self.connect()

    def begin(self, until: float, silence_seconds: float) -> None:
        """Set the limits of the next request: a monotonic deadline, and the maximum wait for bytes, in seconds."""
        self._until, self._silence_seconds = until, silence_seconds
        # Sending takes at most this long in total, however slowly the other side reads.
        self.sock.settimeout(_left(until))

    def _response(self, sock: socket.socket, *arguments: Any, **options: Any) -> http.client.HTTPResponse:
        response = http.client.HTTPResponse(sock, *arguments, **options)
        response.fp.close()
        reader = _InTime(sock, self._until, self._silence_seconds)
        response.fp = io.BufferedReader(reader)
        return response


class _Https(_Http, http.client.HTTPSConnection):
    """The same connection, over TLS."""

    def __init__(self, host: str, port: int | None, seconds: float) -> None:
        super().__init__(host, port, seconds, context=ssl.create_default_context())


class _InTime(io.RawIOBase):
    """Reads a socket until a deadline, so that a server that trickles bytes can't keep it waiting forever."""

    def __init__(self, sock: socket.socket, until: float, silence_seconds: float) -> None:
        self._sock, self._until, self._silence_seconds = sock, until, silence_seconds
        # This keeps the socket open even if the connection is closed before its last response has been read completely.
        self._file = sock.makefile("rb", buffering=0)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int | None:
        self._sock.settimeout(min(self._silence_seconds, _left(self._until)))
        return self._file.readinto(buffer)

    def close(self) -> None:
        if not self.closed:
            self._file.close()
        super().close()


def _in_words(error: Exception) -> str:
    """Return why a request failed, without the number of the system's error."""
    if isinstance(error, ConnectionRefusedError):
        return "nothing is listening there, or a firewall refuses the connection"
    return explain_error(error) if isinstance(error, OSError) else str(error) or type(error).__name__


def _left(until: float) -> float:
    """Return the seconds until a monotonic time. Raises TimeoutError if it has passed."""
    seconds = until - time.monotonic()
    if seconds <= 0:
        raise TimeoutError
    return seconds


@contextlib.contextmanager
def reading() -> Iterator[None]:
    """Turn any error from reading a malformed response into HubRefused."""
    try:
        yield
    except (BadRequest, LookupError, ValueError, TypeError, AttributeError) as error:
        raise HubRefused(f"the hub's answer can't be understood: {error}") from error


def _reason(data: bytes) -> str:
    with contextlib.suppress(BadRequest):
        return one_line(str(from_bytes(data[:10_000]).get("error", "")), 300)
    return ""
