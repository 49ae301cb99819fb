"""The service: a Starlette application. Every answer to a missing and to a foreign thing is the same."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import math
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from typing import Any

import psycopg
from psycopg_pool import PoolTimeout
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import ClientDisconnect, Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from engram.clock import SYSTEM_CLOCK, Clock
from engram.errors import BadRequest, NotFound
from engram.hub.protocol.frames import (
    MAX_PAGE_BYTES,
    NO_PUSH,
    PROTOCOL,
    pack_answers,
    pack_page,
    unpack_push,
)
from engram.hub.protocol.messages import REQUEST_HEADER, HelloRequest, from_bytes, to_bytes
from engram.hub.server import accounts, teams
from engram.hub.server.accounts import Asker, Unknown
from engram.hub.server.database import Database
from engram.hub.server.metrics import Metrics
from engram.hub.server.statements import IsCopy, NoSpace, NotAllowed, pull_page, push_page
from engram.hub.server.waiting import MAX_WAITING, Doorbell

logger = logging.getLogger(__name__)

#: Largest body of a request other than a push, in bytes.
MAX_MESSAGE_BYTES = 1_000_000
#: Joins with a wrong code that are answered in a minute; further ones are put off.
MAX_WRONG_CODES = 20
#: Longest a request may wait for a change, in seconds.
MAX_WAIT_SECONDS = 55.0

Handler = Callable[["Service", Asker, dict[str, Any]], Any]


class Refusal(Exception):
    """A request that is answered with a status and a reason."""

    def __init__(self, status: int, reason: str) -> None:
        super().__init__(reason)
        self.status = status


class Service:
    """What the requests work with."""

    def __init__(self, database: Database, clock: Clock = SYSTEM_CLOCK) -> None:
        self.database = database
        self.clock = clock
        self.metrics = Metrics()
        self.doorbell = Doorbell(database.dsn, is_pooled=database.is_pooled)
        self._wrong_codes: list[float] = []

    # -- joining

    def join(self, value: dict[str, Any]) -> dict[str, Any]:
        """Let a machine in that has a code."""
        with self._counting_wrong_codes():
            token_hash = bytes.fromhex(value.get("token_hash", ""))
            name = str(value.get("name", ""))
            return accounts.join(self.database, str(value["code"]), name, token_hash).to_json()

    def join_team(self, asker: Asker, value: dict[str, Any]) -> dict[str, Any]:
        """Let a member into a team by a code."""
        with self._counting_wrong_codes():
            return teams.join_team(self.database, asker, value)

    @contextlib.contextmanager
    def _counting_wrong_codes(self) -> Iterator[None]:
        now = self.clock.steady_seconds()
        self._wrong_codes = [at for at in self._wrong_codes if now - at < 60]
        if len(self._wrong_codes) >= MAX_WRONG_CODES:
            raise Refusal(429, "too many wrong codes were tried: wait a minute")
        try:
            yield
        except Unknown:
            self._wrong_codes.append(now)
            raise Refusal(403, "the code is wrong, used up or too old: make a new one") from None

    # -- rounds

    def pull(self, asker: Asker, value: dict[str, Any]) -> bytes:
        """Return a page."""
        page = pull_page(
            self.database,
            asker.token_hash,
            asker.device_id,
            int(value["ns"]),
            int(value["after"]),
            int(value["limit"]),
        )
        self.metrics.add("rows_pulled_total", len(page.rows))
        return pack_page(page)

    def push(self, asker: Asker, body: bytes) -> bytes:
        """Store a page."""
        push = unpack_push(body)
        if not push.rows or push.push_id == NO_PUSH:
            raise BadRequest("a push has rows and an id")
        answers = push_page(
            self.database, asker.token_hash, asker.device_id, asker.member_id, push, self.clock.now_ms()
        )
        self.metrics.add("rows_pushed_total", len(push.rows))
        return pack_answers(answers)

    async def wait(self, asker: Asker, value: dict[str, Any]) -> dict[str, Any]:
        """Wait until one of the member's spaces has something beyond a place."""
        places = [(int(ns_id), int(after)) for ns_id, after in value["after"]][:1_000]
        seconds = float(value.get("seconds", 0))
        if not math.isfinite(seconds):
            raise BadRequest("the wait has no end")
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


def _hello(service: Service, asker: Asker, value: dict[str, Any]) -> dict[str, Any]:
    request = HelloRequest.from_json(value)
    return accounts.hello(service.database, asker, request, service.clock.now_ms()).to_json()


def _renew(service: Service, asker: Asker, value: dict[str, Any]) -> dict[str, Any]:
    return accounts.renew(service.database, asker, bytes.fromhex(value.get("token_hash", ""))).to_json()


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


def _join_team(service: Service, asker: Asker, value: dict[str, Any]) -> dict[str, Any]:
    return service.join_team(asker, value)


def _team_handler(what: str) -> Handler:
    return lambda service, asker, value: teams.REQUESTS[what](service.database, asker, value)


#: Requests with JSON in both directions.
_JSON: dict[str, Handler] = {
    "hello": _hello,
    "renew": _renew,
    "code": _code,
    "key": _key,
    "devices": _devices,
    "team-join": _join_team,
    **{what: _team_handler(what) for what in teams.REQUESTS},
}


def make_app(service: Service) -> Starlette:
    """Return the application of a service; its database is open."""

    @contextlib.asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        service.doorbell.start()
        try:
            yield
        finally:
            await asyncio.to_thread(service.doorbell.stop)

    routes = [
        Route(f"/v{PROTOCOL}/{{what}}", _endpoint(service), methods=["POST"]),
        Route("/health", _health(service), methods=["GET"]),
        Route("/metrics", _metrics(service), methods=["GET"]),
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
        # A name that is no plain token would be a header of the asker's making.
        asked = request.headers.get(REQUEST_HEADER, "")[:64]
        return Response(body, status, {REQUEST_HEADER: asked} if asked.isalnum() else None, media_type=kind)

    return answer


async def _answer(service: Service, request: Request, what: str) -> tuple[int, bytes, int]:
    """Return the status, the body and the device of a request. Whatever goes wrong tells nothing of others."""
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
        return 401, _error("this machine is not known to the hub, or was shut out: join it anew"), device
    except Refusal as error:
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
        # Its message may quote values: only its code is logged.
        logger.warning("%s", json.dumps({"request": what, "database": type(error).__name__, "code": error.sqlstate}))
        return 422, _error("the database refuses that"), device
    except (psycopg.Error, PoolTimeout) as error:
        logger.warning("%s", json.dumps({"request": what, "database": type(error).__name__}))
        return 503, _error("the hub's database does not answer"), device
    except ClientDisconnect:
        return 499, b"", device


async def _body(request: Request, limit_bytes: int) -> bytes:
    """Return the body of a request, of a bounded size."""
    parts, size = [], 0
    async for part in request.stream():
        size += len(part)
        if size > limit_bytes:
            raise Refusal(413, f"a request has at most {limit_bytes} bytes")
        parts.append(part)
    return b"".join(parts)


def _error(reason: str) -> bytes:
    return to_bytes({"error": reason})


def _health(service: Service) -> Callable[[Request], Awaitable[Response]]:
    async def health(_: Request) -> Response:
        is_well = await run_in_threadpool(service.database.check)
        return PlainTextResponse("ok\n" if is_well else "the database does not answer\n", 200 if is_well else 503)

    return health


def _metrics(service: Service) -> Callable[[Request], Awaitable[Response]]:
    async def metrics(_: Request) -> Response:
        text = service.metrics.text()
        text += f"# TYPE engram_hub_waiting_now gauge\nengram_hub_waiting_now {service.doorbell.waiting}\n"
        return PlainTextResponse(text, media_type="text/plain; version=0.0.4")

    return metrics
