"""The page's routes, and the guard in front of them: each opens the memory, calls its view, and renders the answer."""

from __future__ import annotations

import contextlib
import logging
import secrets
import shlex
import shutil
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import parse_qsl, urlsplit

import anyio.to_thread
from jinja2 import Environment
from starlette.background import BackgroundTask
from starlette.datastructures import MutableHeaders
from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route as HttpRoute
from starlette.routing import Router
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from engram.errors import EngramError, NotFound, told_with_advice
from engram.models.engine.transaction import Store
from engram.models.open_memory import open_memory
from engram.models.projects.projects import ProjectRow, find_project
from engram.page.page_access import CHECKS, ENTRY_PATH, Access, AccessDenied, Check, RequestHead, spend_entry
from engram.page.rendering import ASSETS, as_typed, make_environment, make_link, render
from engram.page.view import (
    Activity,
    Answer,
    Checked,
    PageRequest,
    Redirect,
    Route,
    View,
    changes,
    frame_values,
    name_memories,
    number_in,
)
from engram.page.views import VIEWS
from engram.paths import Home, absolute_path, default_home
from engram.settings import Loaded
from engram.system.atomic import explain_refusal
from engram.trust.display import capitalised
from engram.vaults import load_inside
from engram.worker.worker_client import wake_worker

logger = logging.getLogger(__name__)

R = TypeVar("R")

#: Maximum size of a form, in bytes: the longest memory with every character encoded.
MAX_FORM_BYTES = 400_000
#: Maximum number of threads that use the memory at the same time, each with its own connection and cache.
MAX_THREADS = 2
#: Maximum number of commands that run at the same time, each with its own thread.
MAX_COMMANDS = 1

#: Event that makes the lists and sums next to a changed part reload.
CHANGED = '{"changed": {"target": "body"}}'

#: The view of an unknown address.
_NOWHERE = View(name="", title="Not found", routes=())

_ENTERED = """<!doctype html><html lang="en"><meta charset="utf-8"><link rel="icon" href="data:,">
<meta http-equiv="refresh" content="0;url={root}/"><title>Engram</title></html>
"""
_SPENT = """<!doctype html><html lang="en"><meta charset="utf-8"><link rel="icon" href="data:,"><title>Engram</title>
<h1>This link has already been used, or is older than a minute</h1><p>Open the page again with: {engram} ui</p></html>
"""


@dataclass(frozen=True, slots=True)
class Page:
    #: Settings given as flags. All others are read for every request, so that a change takes effect immediately.
    flags: Mapping[str, str]
    #: The project whose vault is shown; None for the memory folder.
    vault: str | None
    access: Access
    #: The folders and files of the memory.
    places: Home
    environment: Environment
    views: Sequence[View]
    activity: Activity
    checked: Checked
    limiter: anyio.CapacityLimiter
    command_limiter: anyio.CapacityLimiter

    def routes(self) -> list[HttpRoute]:
        root = self.access.root
        routes = [HttpRoute(ENTRY_PATH, self._enter, methods=["GET"])]
        routes.append(HttpRoute(f"{root}/static/{{name}}", self._asset, methods=["GET"]))
        routes.append(HttpRoute(f"{root}/live/{{name}}", self._live, methods=["GET"]))
        for view in self.views:
            for route in view.routes:
                endpoint = self._endpoint(view, route)
                routes.append(HttpRoute(root + route.path, endpoint, methods=[route.method]))
        return routes

    async def _enter(self, request: Request) -> Response:
        """Admit a browser with an unspent token. HEAD doesn't spend it, because link previews use HEAD."""
        folder = self.places.page_entries
        token = request.query_params.get("token", "")
        if request.method != "GET" or not await self._in_thread(lambda: spend_entry(folder, token)):
            return HTMLResponse(_SPENT.format(engram=escape(str(self.environment.globals["engram"]))), status_code=403)
        # Not a redirect: the browser would follow it without the cookie, because the request originated in a file.
        return HTMLResponse(_ENTERED.format(root=self.access.root), headers={"Set-Cookie": self.access.cookie_header})

    async def _asset(self, request: Request) -> Response:
        asset = ASSETS.get(request.path_params["name"])
        if asset is None:
            return Response(status_code=404)
        # Not cached, because the browser's cache is shared with other ports of this machine.
        return Response(asset.read(), media_type=asset.media_type)

    def _endpoint(self, view: View, route: Route) -> Callable[[Request], Awaitable[Response]]:
        async def answer(request: Request) -> Response:
            form = await _read_form(request) if route.method == "POST" else {}
            if form is None:
                return Response(status_code=413)
            limiter = self.command_limiter if route.runs_command else self.limiter
            return await self._in_thread(lambda: self._answer(view, route, request, form), limiter)

        return answer

    def _answer(self, view: View, route: Route, request: Request, form: Mapping[str, str]) -> Response:
        """Answer a request, in a thread. An expected failure becomes a page or a notice with one sentence."""
        is_fragment = request.headers.get("hx-request") == "true"
        frame = Frame(self, view, request, is_fragment)
        try:
            with self.memory() as (store, loaded):
                project = _project_of(store, request)
                asked = PageRequest(
                    store=store,
                    settings=loaded.settings,
                    sources=loaded.sources,
                    path=request.path_params,
                    query=request.query_params,
                    form=form,
                    is_fragment=is_fragment,
                    target=request.headers.get("hx-target", "").rpartition("#")[2],
                    project=project,
                    checked=self.checked,
                )
                return frame.respond(route.handler(asked), asked)
        except EngramError as error:
            # The advice in the message of NotFound is about commands, so it is left out.
            sentence = str(error).partition("; ")[0] if isinstance(error, NotFound) else told_with_advice(error)
            return frame.respond_error(sentence, 404 if isinstance(error, NotFound) else 400)
        except Exception as error:
            logger.error("action=page view=%s fault=%s", view.name, type(error).__name__, exc_info=error)
            if cause := explain_refusal(error):
                return frame.respond_error(cause, 400)
            return frame.respond_error("Engram has a bug here. `engram logs --errors` shows it.", 500)

    async def nothing_here(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer an unknown address."""
        answer = Response(status_code=404)
        if scope["type"] == "http" and scope["path"].startswith(f"{self.access.root}/"):
            frame = Frame(self, _NOWHERE, Request(scope), is_fragment=False)
            answer = await self._in_thread(lambda: frame.respond_error("There is nothing at this address", 404))
        await answer(scope, receive, send)

    async def _live(self, request: Request) -> Response:
        """Stream the number of items that are newer than a given time, whenever that number changes."""
        view = next((view for view in self.views if view.name == request.path_params["name"]), None)
        since = number_in(request.query_params.get("since", ""))
        if view is None or view.count_new is None or since is None:
            return Response(status_code=404)
        return StreamingResponse(
            self._news(view, since, request), media_type="text/event-stream", headers={"X-Accel-Buffering": "no"}
        )

    async def _news(self, view: View, since_ms: int, request: Request) -> AsyncIterator[bytes]:
        sent = 0
        async for is_changed in changes(self.places.memory_db, self.activity):
            if not is_changed:
                yield b": still here\n\n"
                continue
            new = await self._in_thread(lambda: self._count_news(view, since_ms, request))
            if new != sent:
                sent = new
                yield f"data: {new}\n\n".encode()

    def _count_news(self, view: View, since_ms: int, request: Request) -> int:
        assert view.count_new is not None
        try:
            with self.memory() as (store, _):
                project = _project_of(store, request)
                return view.count_new(store, since_ms, None if project is None else project.id)
        except EngramError as error:
            logger.warning("action=page_news view=%s failed=%s", view.name, error)
            return 0

    @contextlib.contextmanager
    def memory(self) -> Iterator[tuple[Store, Loaded]]:
        """Open the memory and the settings for one request. Nothing is kept open, so a restore needn't wait."""
        loaded = load_inside(self.flags, self.vault)
        with open_memory(self.places.memory_db, driver=loaded.settings.sqlite_driver, is_made=True) as store:
            yield store, loaded

    async def _in_thread(self, work: Callable[[], R], limiter: anyio.CapacityLimiter | None = None) -> R:
        self.activity.last_seconds = time.monotonic()
        return await anyio.to_thread.run_sync(work, limiter=limiter or self.limiter)


@dataclass(frozen=True, slots=True)
class Frame:
    """Makes responses: a page in its layout, or a part of one with htmx's headers."""

    page: Page
    view: View
    request: Request
    is_fragment: bool

    def respond(self, answer: Answer | Redirect, asked: PageRequest) -> Response:
        if isinstance(answer, Redirect):
            address = self._link(asked.project)(*answer.path)
            if self.is_fragment:
                return Response(status_code=200, headers={"HX-Redirect": address})
            return Response(status_code=303, headers={"Location": address})
        values = {**self._values(asked), **answer.values}
        html = self._render(answer.template, values, answer.block)
        if answer.block and answer.notice is not None:
            told = name_memories(asked.store, [answer.notice.text])[0]
            html += self._render("parts/notice.html", {**values, "notice": answer.notice, "told": told})
        if answer.block and answer.is_change:
            html += self._render("parts/changed.html", values | {"frame": asked.frame_values()})
        response = HTMLResponse(html)
        if answer.is_change:
            response.background = BackgroundTask(wake_worker, self.page.places)
            response.headers["HX-Trigger"] = CHANGED
        if answer.replace_url is not None:
            parts, query = answer.replace_url
            address = self._link(asked.project)(*parts, **query)
            is_here = urlsplit(self.request.headers.get("hx-current-url", "")).path == urlsplit(address).path
            response.headers["HX-Replace-Url" if is_here else "HX-Push-Url"] = address
        return response

    def respond_error(self, sentence: str, status: int) -> Response:
        """Return a page with one sentence or, if htmx requested a part of a page, a notice."""
        sentence = as_typed(self.page.environment, sentence)
        sentence += "" if sentence.endswith((".", "!", "?")) else "."
        values = self._bare() | {"told": [(capitalised(sentence), None)], "status": status}
        # Without a frame after a server error, which the frame may have caused, or if the memory can't be opened.
        if status < 500:
            with contextlib.suppress(EngramError), self.page.memory() as (store, loaded):
                (first, _), *rest = name_memories(store, [sentence])[0]
                values["told"] = [(capitalised(first), None), *rest]
                values["frame"] = None if self.is_fragment else frame_values(store, loaded.settings, self.page.checked)
        if self.is_fragment:
            html = self._render("failed.html", values, "sentence")
            return HTMLResponse(html, status_code=status, headers={"HX-Retarget": "#notice", "HX-Reswap": "innerHTML"})
        return HTMLResponse(self._render("failed.html", values), status_code=status)

    @property
    def _nonce(self) -> str:
        return str(self.request.scope["state"]["nonce"])

    def _link(self, project: ProjectRow | None) -> Any:
        return make_link(self.page.access.root, "" if project is None else project.name)

    def _bare(self) -> dict[str, Any]:
        """Return the layout values that don't depend on the memory."""
        return {"nonce": self._nonce, "view": self.view, "link": self._link(None), "frame": None, "project": None}

    def _values(self, asked: PageRequest) -> dict[str, Any]:
        values = self._bare() | {"link": self._link(asked.project), "project": asked.project}
        return values if self.is_fragment else values | {"frame": asked.frame_values()}

    def _render(self, template: str, values: Mapping[str, Any], block: str = "") -> str:
        return render(self.page.environment, template, values, block=block, views=self.page.views)


def build_page(
    flags: Mapping[str, str],
    access: Access,
    activity: Activity,
    *,
    vault: str | None = None,
    environment: Environment | None = None,
) -> ASGIApp:
    """Return the routes of the page, without the guard.

    Args:
        vault: the project whose vault is shown; None for the memory folder.
        environment: the templates' environment; only tests pass one.

    Raises:
        SettingsError: a setting has an invalid value.
        NotFound: there is no such vault.
    """
    page = Page(
        flags=flags,
        vault=vault,
        access=access,
        places=load_inside(flags, vault).settings.places,
        environment=make_environment() if environment is None else environment,
        views=VIEWS,
        activity=activity,
        checked=Checked(),
        limiter=anyio.CapacityLimiter(MAX_THREADS),
        command_limiter=anyio.CapacityLimiter(MAX_COMMANDS),
    )
    page.environment.globals |= {"engram": call_of(flags, vault), "engram_around": call_of(flags, None)}
    return Router(page.routes(), redirect_slashes=False, default=page.nothing_here)


def call_of(flags: Mapping[str, str], vault: str | None) -> str:
    """Return the command with which a person runs Engram on the page's memory.

    In a checkout, the program is next to its interpreter, not in a folder of PATH.
    """
    beside = Path(sys.executable).with_name("engram")
    program = "engram" if shutil.which("engram") or not beside.is_file() else str(beside)
    home = absolute_path(flags.get("home") or default_home())
    folder = [] if home == default_home() else ["--home", str(home)]
    return shlex.join([program, *folder, *([] if vault is None else ["--vault", vault])])


def _project_of(store: Store, request: Request) -> ProjectRow | None:
    """Return the project in the address; None for all projects, or if it no longer exists."""
    name = request.query_params.get("project", "")
    return find_project(store, name) if name else None


async def _read_form(request: Request) -> dict[str, str] | None:
    """Return the fields of a form; None if it is too long."""
    body = b""
    async for chunk in request.stream():
        body += chunk
        if len(body) > MAX_FORM_BYTES:
            return None
    return dict(parse_qsl(body.decode("utf-8", "replace"), keep_blank_values=True))


# -- The guard in front of every route, which checks requests and adds security headers to responses.

#: What the browser may load, run, frame and cache: a directive of the Content-Security-Policy → its value; ``{nonce}``
#: differs in every response.
DIRECTIVES: Mapping[str, str] = {
    "default-src": "'none'",
    "script-src": "'self' 'nonce-{nonce}'",
    "style-src": "'self'",
    "img-src": "'self' data:",
    "connect-src": "'self'",
    "form-action": "'self'",
    "base-uri": "'none'",
    "frame-ancestors": "'none'",
    "require-trusted-types-for": "'script'",
    "trusted-types": "htmx",
}

#: The other headers.
HEADERS: Mapping[str, str] = {
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}


def security_headers(
    nonce: str, *, directives: Mapping[str, str] = DIRECTIVES, headers: Mapping[str, str] = HEADERS
) -> dict[str, str]:
    """Return the headers of a response whose scripts have this nonce."""
    policy = "; ".join(f"{name} {value.format(nonce=nonce)}" for name, value in directives.items())
    return {"Content-Security-Policy": policy, **headers} if policy else dict(headers)


#: Bytes of randomness in a nonce.
NONCE_BYTES = 16


class Guard:
    """Forwards a request only if it passes every check. Logs nothing, because addresses contain secrets."""

    def __init__(
        self,
        app: ASGIApp,
        access: Access,
        *,
        checks: Sequence[Check] = CHECKS,
        headers_of: Callable[[str], Mapping[str, str]] = security_headers,
    ) -> None:
        """Guard ``app``.

        Args:
            checks: the checks, in order; the first refusal decides. Only tests pass others.
            headers_of: returns the security headers for a nonce. Only tests pass another function.
        """
        self._app = app
        self._access = access
        self._checks = tuple(checks)
        self._headers_of = headers_of

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request. Connections other than HTTP are closed without a response."""
        if scope["type"] != "http":
            return
        nonce = secrets.token_urlsafe(NONCE_BYTES)
        headers = self._headers_of(nonce)

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                own = MutableHeaders(scope=message)
                own.update(headers)
            await send(message)

        refusal = self._refusal(scope)
        if refusal is not None:
            answer = PlainTextResponse(f"Engram: {refusal.reason}.\n", status_code=refusal.status)
            await answer(scope, receive, send_with_headers)
            return
        scope.setdefault("state", {})["nonce"] = nonce
        await self._app(scope, receive, send_with_headers)

    def _refusal(self, scope: Scope) -> AccessDenied | None:
        head = _head_of(scope)
        for check in self._checks:
            refusal = check(self._access, head)
            if refusal is not None:
                return refusal
        return None


def _head_of(scope: Scope) -> RequestHead:
    """Return a request without its body. A header that occurs twice counts as empty."""
    headers: dict[str, str] = {}
    for name, value in scope["headers"]:
        key = name.decode("latin-1").lower()
        headers[key] = "" if key in headers else value.decode("latin-1")
    return RequestHead(scope["method"], scope["path"], headers)
