"""The hub's service as a Starlette application.

Requests for missing items and for other people's items get the same response.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import math
import threading
import time
from collections import defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Iterator
from typing import Any

import psycopg
from psycopg_pool import PoolTimeout
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import ClientDisconnect, Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from engram.errors import BadRequest, NotFound
from engram.hub.protocol.frames import MAX_PAGE_BYTES, NO_PUSH, PROTOCOL, pack_answers, pack_page, unpack_push
from engram.hub.protocol.requests import REPORT_REASONS, REQUEST_HEADER, HelloRequest, code_hash, from_bytes, to_bytes
from engram.hub.server import accounts
from engram.hub.server.accounts import Asker, Unknown
from engram.hub.server.hub_database import Database
from engram.hub.server.statement_pages import KEEPER, IsCopy, NoSpace, NotAllowed, pull_page, push_page
from engram.system.clock import SYSTEM_CLOCK, Clock

# -- Count the service's requests and rows, for Prometheus. The counters contain none of the content.

#: Upper bounds of the duration buckets, in seconds.
BUCKETS = (0.005, 0.02, 0.1, 0.5, 2.0, 10.0)


class Metrics:
    """What the service has done since it started. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._requests: dict[tuple[str, int], int] = defaultdict(int)
        self._durations: dict[tuple[str, float], int] = defaultdict(int)
        self._seconds: dict[str, float] = defaultdict(float)
        self._counts: dict[str, int] = defaultdict(int)

    def note_request(self, what: str, status: int, seconds: float) -> None:
        with self._lock:
            self._requests[what, status] += 1
            self._seconds[what] += seconds
            for bucket in BUCKETS:
                if seconds <= bucket:
                    self._durations[what, bucket] += 1

    def add(self, name: str, number: int) -> None:
        with self._lock:
            self._counts[name] += number

    def text(self) -> str:
        """Return everything in Prometheus' text format."""
        with self._lock:
            lines = ["# TYPE engram_hub_requests_total counter"]
            lines += [
                f'engram_hub_requests_total{{request="{what}",status="{status}"}} {number}'
                for (what, status), number in sorted(self._requests.items())
            ]
            lines.append("# TYPE engram_hub_request_seconds histogram")
            for what, seconds in sorted(self._seconds.items()):
                count = sum(number for (asked, _), number in self._requests.items() if asked == what)
                name = "engram_hub_request_seconds"
                lines += [
                    f'{name}_bucket{{request="{what}",le="{bucket}"}} {self._durations[what, bucket]}'
                    for bucket in BUCKETS
                ]
                lines.append(f'{name}_bucket{{request="{what}",le="+Inf"}} {count}')
                lines.append(f'{name}_sum{{request="{what}"}} {seconds:.6f}')
                lines.append(f'{name}_count{{request="{what}"}} {count}')
            for name, number in sorted(self._counts.items()):
                kind = "gauge" if name.endswith("_now") else "counter"
                lines += [f"# TYPE engram_hub_{name} {kind}", f"engram_hub_{name} {number}"]
        return "\n".join(lines) + "\n"


# -- Long polling: requests wait until a space changes, and are woken through the service's only LISTEN connection.

logger = logging.getLogger(__name__)

#: How often a waiting request checks for changes itself, in seconds: while notifications arrive, and while they may not
#: arrive, such as behind a pooler or when the database is down.
LOOK_SECONDS, DEAF_LOOK_SECONDS = 30.0, 5.0
#: Maximum number of requests that wait at the same time; any further ones are answered immediately.
MAX_WAITING = 2_000


class Doorbell:
    """Wakes the requests that wait for a space when the space changes; each request then checks for itself."""

    def __init__(self, dsn: str, *, is_pooled: bool = False) -> None:
        """Set up without connecting. The arguments are those of ``Database``."""
        self._dsn = dsn
        self._is_pooled = is_pooled
        self._loop: asyncio.AbstractEventLoop | None = None
        #: Space → the events of the requests that wait for it. Used only in the event loop.
        self._bells: dict[int, set[asyncio.Event]] = {}
        self._is_deaf = True
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._listen, name="hub-listen", daemon=True)
        self.waiting = 0

    def start(self) -> None:
        """Start listening; call it in the event loop."""
        self._loop = asyncio.get_running_loop()
        self._thread.start()

    def stop(self) -> None:
        self._stopped.set()
        self._thread.join(timeout=5)

    @contextlib.contextmanager
    def listening(self, spaces: Collection[int]) -> Iterator[asyncio.Event]:
        """Yield an event that is set when one of the spaces changes. Changes before the first check are not missed."""
        bell = asyncio.Event()
        for ns_id in spaces:
            self._bells.setdefault(ns_id, set()).add(bell)
        self.waiting += 1
        try:
            yield bell
        finally:
            self.waiting -= 1
            for ns_id in spaces:
                bells = self._bells[ns_id]
                bells.discard(bell)
                if not bells:
                    del self._bells[ns_id]

    async def wait(self, bell: asyncio.Event, seconds: float) -> None:
        """Return when the event is set, when it is time to check, or after ``seconds``."""
        look = DEAF_LOOK_SECONDS if self._is_deaf else LOOK_SECONDS
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(bell.wait(), min(seconds, look))

    def _ring(self, ns_id: int) -> None:
        for bell in self._bells.get(ns_id, ()):
            bell.set()

    def _ring_all(self, is_deaf: bool) -> None:
        """Make every waiting request check, because notifications may have been missed."""
        self._is_deaf = is_deaf
        for bells in self._bells.values():
            for bell in bells:
                bell.set()

    def _listen(self) -> None:
        assert self._loop is not None
        while not self._stopped.is_set():
            try:
                with psycopg.connect(self._dsn, autocommit=True, connect_timeout=10) as connection:
                    connection.execute("LISTEN hub_changed")
                    self._loop.call_soon_threadsafe(self._ring_all, self._is_pooled)
                    while not self._stopped.is_set():
                        for notification in connection.notifies(timeout=0.5, stop_after=1):
                            self._loop.call_soon_threadsafe(self._ring, int(notification.payload))
            except psycopg.Error as error:
                logger.warning("action=listen failed=%s", type(error).__name__)
                with contextlib.suppress(RuntimeError):
                    self._loop.call_soon_threadsafe(self._ring_all, True)
                self._stopped.wait(2.0)
            except RuntimeError:
                return  # the loop is closed


#: Maximum size of the body of a request other than a push, in bytes.
MAX_MESSAGE_BYTES = 1_000_000
#: Maximum number of joins with a wrong code that are answered per minute; further ones are refused until later.
MAX_WRONG_CODES = 20
#: Maximum time that a request may wait for a change, in seconds.
MAX_WAIT_SECONDS = 55.0

Handler = Callable[["Service", Asker, dict[str, Any]], Any]


class RequestRefused(Exception):
    """Refuses a request with a status and a reason."""

    def __init__(self, status: int, reason: str) -> None:
        super().__init__(reason)
        self.status = status


class Service:
    def __init__(self, database: Database, clock: Clock = SYSTEM_CLOCK) -> None:
        self.database = database
        self.clock = clock
        self.metrics = Metrics()
        self.doorbell = Doorbell(database.dsn, is_pooled=database.is_pooled)
        self._wrong_codes: list[float] = []

    # -- joining

    def join(self, value: dict[str, Any]) -> dict[str, Any]:
        """Admit a machine with a code."""
        with self.counting_wrong_codes():
            token_hash = bytes.fromhex(value["token_hash"])
            name = str(value.get("name", ""))
            return accounts.join(self.database, str(value["code"]), name, token_hash).to_json()

    @contextlib.contextmanager
    def counting_wrong_codes(self) -> Iterator[None]:
        now = self.clock.steady_seconds()
        self._wrong_codes = [at for at in self._wrong_codes if now - at < 60]
        if len(self._wrong_codes) >= MAX_WRONG_CODES:
            raise RequestRefused(429, "too many wrong codes were tried: wait a minute")
        try:
            yield
        except Unknown:
            self._wrong_codes.append(now)
            raise RequestRefused(403, "the code is wrong, used up or too old: make a new one") from None

    # -- rounds

    def pull(self, asker: Asker, value: dict[str, Any]) -> bytes:
        left_out = 0 if value.get("own") else asker.device_id
        page = pull_page(
            self.database, asker.token_hash, left_out, int(value["ns"]), int(value["after"]), int(value["limit"])
        )
        self.metrics.add("rows_pulled_total", len(page.rows))
        return pack_page(page)

    def push(self, asker: Asker, body: bytes) -> bytes:
        push = unpack_push(body)
        if not push.rows or push.push_id == NO_PUSH:
            raise BadRequest("a push must have rows and an id")
        answers = push_page(
            self.database, asker.token_hash, asker.device_id, asker.member_id, push, self.clock.now_ms()
        )
        self.metrics.add("rows_pushed_total", len(push.rows))
        return pack_answers(answers)

    async def wait(self, asker: Asker, value: dict[str, Any]) -> dict[str, Any]:
        """Wait until one of the member's spaces has rows beyond a position."""
        places = [(int(ns_id), int(after)) for ns_id, after in value["after"]][:1_000]
        seconds = float(value.get("seconds", 0))
        if not math.isfinite(seconds):
            raise BadRequest("the wait must have a time limit")
        until = time.monotonic() + min(seconds, MAX_WAIT_SECONDS)
        with self.doorbell.listening({ns_id for ns_id, _ in places}) as bell:
            while True:
                bell.clear()
                if await run_in_threadpool(accounts.heads_beyond, self.database, asker, places):
                    return {"changed": True}
                left = until - time.monotonic()
                if left <= 0 or self.doorbell.waiting > MAX_WAITING:
                    return {"changed": False}
                await self.doorbell.wait(bell, left)

    # -- operation

    async def health(self, _: Request) -> Response:
        is_well = await run_in_threadpool(self.database.check)
        return PlainTextResponse("ok\n" if is_well else "the database does not answer\n", 200 if is_well else 503)

    async def current_metrics(self, _: Request) -> Response:
        text = self.metrics.text()
        text += f"# TYPE engram_hub_waiting_now gauge\nengram_hub_waiting_now {self.doorbell.waiting}\n"
        return PlainTextResponse(text, media_type="text/plain; version=0.0.4")


def _hello(service: Service, asker: Asker, value: dict[str, Any]) -> dict[str, Any]:
    request = HelloRequest.from_json(value)
    return accounts.hello(service.database, asker, request, service.clock.now_ms()).to_json()


def _renew(service: Service, asker: Asker, value: dict[str, Any]) -> dict[str, Any]:
    return accounts.renew(service.database, asker, bytes.fromhex(value["token_hash"])).to_json()


def _code(service: Service, asker: Asker, value: dict[str, Any]) -> dict[str, Any]:
    accounts.add_code(service.database, asker, bytes.fromhex(value["digest"]), bytes.fromhex(value["bundle"]))
    return {"seconds": accounts.CODE_SECONDS}


def _key(service: Service, asker: Asker, value: dict[str, Any]) -> dict[str, Any]:
    before, after = bytes.fromhex(value["before"]), bytes.fromhex(value["after"])
    return {"set": accounts.set_key(service.database, asker, int(value["ns"]), before, after)}


def _devices(service: Service, asker: Asker, value: dict[str, Any]) -> dict[str, Any]:
    if value.get("leave"):
        accounts.remove_device(service.database, asker, asker.device_id)
        return {"devices": []}
    if "remove" in value:
        accounts.remove_device(service.database, asker, int(value["remove"]))
    return {"devices": accounts.list_devices(service.database, asker)}


# -- Requests about teams: make, invite, join, roles, reports. Each calls one of the schema's SQL functions. The service
# checks the role first; the function then checks it again, based only on the device's token.

#: Maximum number of teams that one member may be a keeper of.
MAX_TEAMS = 100
#: Lifetime of an invitation, in seconds.
INVITATION_SECONDS = 86_400
READER = 1


def _make_team(service: Service, asker: Asker, value: dict[str, Any]) -> dict[str, Any]:
    """Create a team's space, with the requesting member as its keeper.

    For a sealed team, the request contains the key's id.
    """
    name, is_sealed, key_id = (
        accounts.checked_name(str(value["name"])),
        bool(value["sealed"]),
        bytes.fromhex(value["key"]),
    )
    if name == "private" or len(key_id) != (8 if is_sealed else 0):
        raise BadRequest("choose another name" if name == "private" else "this is not the id of a key")
    ns_id = accounts.new_id()
    with service.database.client(asker.token_hash) as connection:
        made = connection.execute(
            "SELECT hub.make_team(%s, %s, %s, %s, %s) AS is_made", (ns_id, name, is_sealed, key_id, MAX_TEAMS)
        ).fetchone()
    if made is None or not made.is_made:
        raise BadRequest(f"you are already a keeper of {MAX_TEAMS} teams, which is the maximum")
    return {"ns": ns_id, "name": name}


def _invite(service: Service, asker: Asker, value: dict[str, Any]) -> dict[str, Any]:
    """Store the code of an invitation, with the key that the second half of the code unlocks."""
    digest, bundle = bytes.fromhex(value["digest"]), bytes.fromhex(value["bundle"])
    if len(digest) != 32 or len(bundle) > accounts.MAX_BUNDLE_BYTES:
        raise BadRequest("this is not a code")
    ns_id, role = int(value["ns"]), _role_number(value["role"])
    accounts.check_codes(service.database, asker)
    with service.database.client(asker.token_hash) as connection:
        _require_role(connection, ns_id, KEEPER)
        connection.execute(
            "SELECT hub.add_invitation(%s, %s, %s, %s, %s)", (ns_id, role, digest, bundle, INVITATION_SECONDS)
        )
    return {"seconds": INVITATION_SECONDS}


def _join_team(service: Service, asker: Asker, value: dict[str, Any]) -> dict[str, Any]:
    """Use up a code to take a seat in a team, and return the space and the sealed key."""
    with service.counting_wrong_codes(), service.database.client(asker.token_hash) as connection:
        row = connection.execute("SELECT * FROM hub.redeem(%s)", (code_hash(str(value["code"])),)).fetchone()
        if row is None or row.ns is None:
            raise Unknown
        return {"ns": row.ns, "bundle": bytes(row.bundle).hex()}


def _list_members(service: Service, asker: Asker, value: dict[str, Any]) -> dict[str, Any]:
    """Return the members of a team, and former members who shared something in it."""
    ns_id = int(value["ns"])
    with service.database.client(asker.token_hash) as connection:
        _require_role(connection, ns_id, READER)
        rows = connection.execute("SELECT * FROM hub.team_members(%s)", (ns_id,)).fetchall()
    return {
        "members": [
            {"member": row.member_id, "name": row.name, "role": "" if row.has_left else accounts.ROLE_NAMES[row.role]}
            for row in rows
        ]
    }


def _set_role(service: Service, asker: Asker, value: dict[str, Any]) -> dict[str, Any]:
    """Give a member another role; "" removes the seat. Anyone may leave, except the last keeper."""
    ns_id, member = int(value["ns"]), int(value["member"])
    role = _role_number(value["role"]) if value["role"] else 0
    with service.database.client(asker.token_hash) as connection:
        _require_role(connection, ns_id, READER if member == asker.member_id and not role else KEEPER)
        row = connection.execute("SELECT hub.set_role(%s, %s, %s) AS outcome", (ns_id, member, role)).fetchone()
    if row is None or row.outcome == "missing":
        raise NotFound("there is no such space or member")
    if row.outcome == "last":
        raise BadRequest("a team needs a keeper: make someone else a keeper first (`engram team role NAME keeper`)")
    if row.outcome != "done":
        raise NotAllowed
    return {"set": True}


def _dissolve_team(service: Service, asker: Asker, value: dict[str, Any]) -> dict[str, Any]:
    """Delete a team with all that was shared in it. Only its last member may do that."""
    ns_id = int(value["ns"])
    with service.database.client(asker.token_hash) as connection:
        _require_role(connection, ns_id, READER)
        row = connection.execute("SELECT hub.dissolve_team(%s) AS outcome", (ns_id,)).fetchone()
    if row is None or row.outcome == "missing":
        raise NoSpace
    if row.outcome == "others":
        raise BadRequest("the team has other members: only the last one can dissolve it")
    return {"dissolved": True}


def _report(service: Service, asker: Asker, value: dict[str, Any]) -> dict[str, Any]:
    """Report a memory of a team to its keepers."""
    ns_id, author, memory_id, reason = int(value["ns"]), int(value["author"]), _memory_id(value), str(value["reason"])
    if reason not in REPORT_REASONS:
        raise BadRequest(f"the reason must be one of {', '.join(REPORT_REASONS)}")
    with service.database.client(asker.token_hash) as connection:
        _require_role(connection, ns_id, READER)
        row = connection.execute(
            "SELECT hub.add_report(%s, %s, %s, %s) AS is_added", (ns_id, author, memory_id, reason)
        ).fetchone()
    if row is None or not row.is_added:
        raise NotFound("there is no such space or member")
    return {"reported": True}


def _list_reports(service: Service, asker: Asker, value: dict[str, Any]) -> dict[str, Any]:
    """Return the memories reported to the keepers of a team; with ``drop``, settle the reports of one memory first."""
    ns_id = int(value["ns"])
    with service.database.client(asker.token_hash) as connection:
        _require_role(connection, ns_id, KEEPER)
        if "drop" in value:
            author, memory_id = int(value["drop"]["author"]), _memory_id(value["drop"])
            connection.execute("SELECT hub.drop_reports(%s, %s, %s)", (ns_id, author, memory_id))
        rows = connection.execute("SELECT * FROM hub.team_reports(%s)", (ns_id,)).fetchall()
    return {
        "reports": [
            {
                "author": row.author,
                "memory": bytes(row.memory_id).hex(),
                "by": row.reporter,
                "reason": row.reason,
                "at_ms": int(row.made_at.timestamp() * 1000),
            }
            for row in rows
        ]
    }


def _require_role(connection: Any, ns_id: int, least: int) -> None:
    """Raise NotAllowed if a member's role in a team is too low, and NoSpace if there is no such team or seat."""
    row = connection.execute("SELECT hub.team_role(%s) AS role", (ns_id,)).fetchone()
    if row is None or row.role is None:
        raise NoSpace
    if row.role < least:
        raise NotAllowed


def _role_number(role: object) -> int:
    if role not in accounts.ROLE_NAMES[1:]:
        raise BadRequest("the role must be reader, writer or keeper")
    return accounts.ROLE_NAMES.index(str(role))


def _memory_id(value: dict[str, Any]) -> bytes:
    memory_id = bytes.fromhex(value["memory"])
    if len(memory_id) != 8:
        raise BadRequest("this is not a memory")
    return memory_id


#: Requests with JSON in both directions.
_JSON: dict[str, Handler] = {
    "hello": _hello,
    "renew": _renew,
    "code": _code,
    "key": _key,
    "devices": _devices,
    "team-make": _make_team,
    "team-invite": _invite,
    "team-join": _join_team,
    "team-members": _list_members,
    "team-role": _set_role,
    "team-dissolve": _dissolve_team,
    "team-report": _report,
    "team-reports": _list_reports,
}


def make_app(service: Service) -> Starlette:
    """Return the application of a service that has opened its database."""

    @contextlib.asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        service.doorbell.start()
        try:
            yield
        finally:
            await asyncio.to_thread(service.doorbell.stop)

    routes = [
        Route(f"/v{PROTOCOL}/{{what}}", _endpoint(service), methods=["POST"]),
        Route("/health", service.health, methods=["GET"]),
        Route("/metrics", service.current_metrics, methods=["GET"]),
    ]
    return Starlette(routes=routes, lifespan=lifespan)


def _endpoint(service: Service) -> Callable[[Request], Awaitable[Response]]:
    async def answer(request: Request) -> Response:
        what = str(request.path_params["what"])
        started = time.perf_counter()
        status, body, device = 500, b"", 0
        try:
            status, body, device = await _answer(service, request, what)
        finally:
            seconds = time.perf_counter() - started
            known = what if what in _JSON or what in ("join", "pull", "push", "wait") else "other"
            service.metrics.note_request(known, status, seconds)
            fields = {"request": known, "status": status, "ms": round(seconds * 1000, 1), "bytes": len(body)}
            logger.info("%s", json.dumps(fields | ({"device": device} if device else {})))
        kind = "application/octet-stream" if what in ("pull", "push") and status == 200 else "application/json"
        # Other characters in an id would let a client forge a header.
        asked = request.headers.get(REQUEST_HEADER, "")[:64]
        return Response(body, status, {REQUEST_HEADER: asked} if asked.isalnum() else None, media_type=kind)

    return answer


async def _answer(service: Service, request: Request, what: str) -> tuple[int, bytes, int]:
    """Return the status, the body and the device for a request. Errors reveal nothing about other members."""
    device = 0
    try:
        body = await _body(request, MAX_PAGE_BYTES if what == "push" else MAX_MESSAGE_BYTES)
        if what == "join":
            return 200, to_bytes(await run_in_threadpool(service.join, from_bytes(body))), 0
        scheme, _, token = request.headers.get("authorization", "").partition(" ")
        if scheme.lower() != "bearer" or not token:
            raise Unknown
        asker = await run_in_threadpool(accounts.find_asker, service.database, token.strip())
        device = asker.device_id
        if what == "push":
            return 200, await run_in_threadpool(service.push, asker, body), device
        if what == "pull":
            return 200, await run_in_threadpool(service.pull, asker, from_bytes(body)), device
        if what == "wait":
            return 200, to_bytes(await service.wait(asker, from_bytes(body))), device
        if what in _JSON:
            return 200, to_bytes(await run_in_threadpool(_JSON[what], service, asker, from_bytes(body))), device
        raise NotFound("there is no such request")
    except Unknown:
        told = "the hub does not know this machine, or has shut it out"
        return 401, _error(f"{told}: run `engram hub leave`, then join the hub again"), device
    except RequestRefused as error:
        return error.status, _error(str(error)), device
    except IsCopy:
        return 409, _error("another copy of this machine has pushed: begin a new round"), device
    except NotAllowed:
        return 403, _error("your role in this space does not allow that"), device
    except (NoSpace, NotFound):
        return 404, _error("there is no such space or member"), device
    except (BadRequest, LookupError, ValueError, TypeError) as error:
        reason = str(error) if isinstance(error, BadRequest) else "the request is not understood"
        return 400, _error(reason), device
    except (psycopg.errors.InsufficientPrivilege, psycopg.DataError, psycopg.IntegrityError) as error:
        # The error's message may quote values, so only its code is logged.
        logger.warning("%s", json.dumps({"request": what, "database": type(error).__name__, "code": error.sqlstate}))
        return 422, _error("the database refuses that"), device
    except (psycopg.Error, PoolTimeout) as error:
        logger.warning("%s", json.dumps({"request": what, "database": type(error).__name__}))
        return 503, _error("the hub's database does not answer"), device
    except ClientDisconnect:
        return 499, b"", device


async def _body(request: Request, limit_bytes: int) -> bytes:
    """Return the body of a request, up to a maximum size."""
    parts, size = [], 0
    async for part in request.stream():
        size += len(part)
        if size > limit_bytes:
            raise RequestRefused(413, f"a request may have at most {limit_bytes} bytes")
        parts.append(part)
    return b"".join(parts)


def _error(reason: str) -> bytes:
    return to_bytes({"error": reason})
