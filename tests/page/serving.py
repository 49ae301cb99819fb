"""A page that serves in a thread of the test: whole, or with parts of its guard taken out."""

from __future__ import annotations

import asyncio
import contextlib
import http.client
import threading
import time
import urllib.parse
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import uvicorn
from jinja2 import BytecodeCache, Environment
from jinja2.bccache import Bucket

from engram.page.page_access import ADDRESS, CHECKS, COOKIE, Access, Check, make_entry
from engram.page.page_process import listen, make_config
from engram.page.rendering import make_environment
from engram.page.routes import Guard, build_page, security_headers
from engram.page.view import Activity
from engram.settings import Settings

#: How long a page may take to start and to end, in seconds.
WAIT_SECONDS = 30.0


@dataclass(frozen=True, slots=True)
class Reply:
    """What a page answered."""

    status: int
    headers: Mapping[str, str]
    text: str


@dataclass(frozen=True, slots=True)
class ServedPage:
    """A page that listens."""

    access: Access
    settings: Settings

    @property
    def origin(self) -> str:
        return self.access.origin

    @property
    def home(self) -> str:
        """Address of the start page, without its slash."""
        return self.origin + self.access.root

    def entry(self) -> str:
        """A new one-time address."""
        return make_entry(self.settings.places.page_entries, self.access.port)[1]

    def ask(
        self,
        path: str,
        *,
        method: str = "GET",
        form: Mapping[str, str] | None = None,
        more: Sequence[tuple[str, str]] = (),
        **headers: str | None,
    ) -> Reply:
        """Ask as the page's own script would. ``headers`` replace its headers (None: leave out), ``more`` are added."""
        own: dict[str, str | None] = {
            "host": self.access.host,
            "cookie": f"{COOKIE}={self.access.secret}",
            "sec-fetch-site": "same-origin",
        }
        if method != "GET":
            own |= {"origin": self.origin, "hx-request": "true", "content-type": "application/x-www-form-urlencoded"}
        own |= {name.replace("_", "-"): value for name, value in headers.items()}
        body = urllib.parse.urlencode(form) if form is not None else None
        connection = http.client.HTTPConnection(ADDRESS, self.access.port, timeout=WAIT_SECONDS)
        try:
            connection.putrequest(method, path, skip_host=True, skip_accept_encoding=True)
            for name, value in own.items():
                if value is not None:
                    connection.putheader(name, value)
            if body is not None:
                connection.putheader("Content-Length", str(len(body)))
            for name, value in more:
                connection.putheader(name, value)
            connection.endheaders(None if body is None else body.encode())
            answer = connection.getresponse()
            return Reply(answer.status, dict(answer.getheaders()), answer.read().decode())
        finally:
            connection.close()

    def see(self, *parts: str, **query: str) -> Reply:
        """Ask for a view by the parts of its path."""
        path = "/".join(urllib.parse.quote(part, safe="") for part in parts)
        return self.ask(f"{self.access.root}/{path}" + (f"?{urllib.parse.urlencode(query)}" if query else ""))

    def do(self, *parts: str, **form: str) -> Reply:
        """Change something by the parts of its path."""
        path = "/".join(urllib.parse.quote(part, safe="") for part in parts)
        return self.ask(f"{self.access.root}/{path}", method="POST", form=form)


@dataclass(slots=True)
class _Running:
    server: uvicorn.Server | None = None
    ready: threading.Event = field(default_factory=threading.Event)


class Compiled(BytecodeCache):
    """The templates as Python, compiled once for all pages of a process."""

    def __init__(self) -> None:
        self.compiled: dict[str, bytes] = {}

    def load_bytecode(self, bucket: Bucket) -> None:
        if bucket.key in self.compiled:
            bucket.bytecode_from_string(self.compiled[bucket.key])

    def dump_bytecode(self, bucket: Bucket) -> None:
        self.compiled[bucket.key] = bucket.bytecode_to_string()


COMPILED = Compiled()


@contextlib.contextmanager
def serve_page(
    settings: Settings,
    *,
    checks: Sequence[Check] = CHECKS,
    headers_of: Callable[[str], Mapping[str, str]] = security_headers,
    environment: Environment | None = None,
    make_access: Callable[[int], Access] = Access,
    vault: str | None = None,
) -> Iterator[ServedPage]:
    """Serve the page of a memory folder until the block ends."""
    if environment is None:
        environment = make_environment()
        environment.bytecode_cache = COMPILED
    with listen() as listener:
        access = make_access(listener.getsockname()[1])
        running = _Running()
        flags = {"home": str(settings.home), "claude_folder": str(settings.claude_folder)}

        async def serve() -> None:
            activity = Activity(time.monotonic())
            app = build_page(flags, access, activity, vault=vault, environment=environment)
            guarded = Guard(app, access, checks=checks, headers_of=headers_of)
            running.server = uvicorn.Server(make_config(guarded))
            running.ready.set()
            await running.server.serve([listener])

        thread = threading.Thread(target=lambda: asyncio.run(serve()), daemon=True)
        thread.start()
        assert running.ready.wait(WAIT_SECONDS)
        try:
            yield ServedPage(access, settings)
        finally:
            assert running.server is not None
            running.server.should_exit = True
            thread.join(WAIT_SECONDS)
            assert not thread.is_alive()
