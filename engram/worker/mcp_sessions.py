"""Serve MCP to all agents' sessions on ``mcp.sock``, each through a relay (``engram_mcp/server.py``).

A relay first sends a line with the size, in bytes, of the session's environment variables, then the variables. Once it
is accepted, both sides speak MCP, one message per line. One thread serves all connections, and a few others run the
tools. Loading the MCP library takes 40 MB and a second of processor time, so it is loaded soon after the worker starts,
or earlier for the first session.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import threading
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from types import ModuleType
from typing import cast

from engram.errors import BrokenDatabase, EngramError
from engram.models.engine.database import file_identity
from engram.models.engine.transaction import Store
from engram.system import process_limits
from engram.system.lazy_regex import lazy_regex
from engram.tasks.runtime import Runtime
from engram.vaults import own_vault
from engram.worker.hook_answers import Answers, Vaults
from engram.worker.recall_client import AnsweredBy, RecallRequest, RecallResponse
from engram.worker.request_reader import is_same_user, open_listener
from engram_mcp import HELLO
from engram_mcp.access import Access, access_for
from engram_mcp.server import WELCOME

#: Maximum number of tool calls answered at the same time.
CALL_THREADS = 4
#: Maximum number of sessions served at the same time. The relay of any further session acts as the session's own
#: server.
MAX_SESSIONS = 200
#: Maximum time for a relay to identify itself, in seconds, and maximum size of its variables, in bytes.
GREETING_SECONDS = 5.0
MAX_GREETING_BYTES = 1_000_000
#: Maximum length of a line from an agent, in bytes; a longer one ends the session.
MAX_LINE_BYTES = 16_000_000
#: Delay between the worker's start and the loading of the MCP library, in seconds.
LOAD_AFTER_SECONDS = 3.0
_GREETING = lazy_regex(rb"engram-mcp 1 (\d{1,7})\n")


@dataclass(frozen=True, slots=True, kw_only=True)
class _InWorker(Access):
    """Gives a session access to the worker's open memory, vectors and model."""

    answers: Answers
    vaults: Vaults
    #: Folder name of the vault to which the session's folder belongs, if any.
    vault: str | None

    @contextlib.contextmanager
    def store(self) -> Iterator[Store]:
        """Yield the open memory for one call. Raises StoreError if it is damaged, which the worker then handles."""
        runtime = self.vaults.named(self.vault)
        try:
            with self.vaults.noting_damage(runtime):
                yield runtime.store
        except BrokenDatabase:
            runtime.is_damaged.set()
            raise

    def ask(self, store: Store, request: RecallRequest) -> RecallResponse:
        """Answer a question from the memory. Heavy tasks pause in the meantime."""
        with process_limits.asking():
            hits, unsaid = self.answers.find(self.vault, request.operation, request.to_query())
        return RecallResponse(tuple(hits), AnsweredBy.WORKER, not_found=unsaid)

    def wake_worker(self) -> None:
        """Announce new data. Failures are ignored, since the data is already stored."""
        with contextlib.suppress(EngramError):
            self.answers.wake(self.vault)


class McpSessions:
    """Serves processes of the same user on mcp.sock, in its own threads."""

    def __init__(self, runtime: Runtime, answers: Answers, vaults: Vaults) -> None:
        self._home = runtime.settings.home
        self._path = runtime.settings.places.mcp_socket
        self._answers = answers
        self._vaults = vaults
        self._pool = ThreadPoolExecutor(CALL_THREADS, thread_name_prefix="mcp-call")
        self._thread = threading.Thread(target=self._run, name="mcp", daemon=True)
        self._is_up = threading.Event()
        self._identity: tuple[int, int] | None = None
        self._listener: asyncio.Server | None = None
        #: Each session's streams.
        self._sessions: dict[asyncio.Task[None], tuple[asyncio.StreamReader, asyncio.StreamWriter]] = {}

    def start(self) -> None:
        """Open the socket, replacing any existing one, and start serving. Call with the worker's lock held."""
        self._thread.start()
        self._is_up.wait()
        self.renew()

    def renew(self) -> None:
        """Reopen the socket if it has been removed or replaced. Raises OSError."""
        if self._identity is None or file_identity(self._path) != self._identity:
            listener = open_listener(self._path)
            self._identity = file_identity(self._path)
            asyncio.run_coroutine_threadsafe(self._listen(listener), self._loop)

    def close(self, seconds: float) -> bool:
        """Finish running calls and remove the socket; return False if a call is still running after ``seconds``."""
        with contextlib.suppress(OSError):
            self._path.unlink()
        if self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._end, seconds)
            self._thread.join(seconds + 1)
        ending = threading.Thread(target=self._pool.shutdown, daemon=True)
        ending.start()
        ending.join(0.5)
        return not self._thread.is_alive() and not ending.is_alive()

    # -- the thread

    def _run(self) -> None:
        asyncio.run(self._serve_all())

    async def _serve_all(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._ending: asyncio.Future[float] = self._loop.create_future()
        self._is_up.set()
        self._loop.call_later(LOAD_AFTER_SECONDS, self._pool.submit, _load_library)
        seconds = await self._ending
        if self._listener is not None:
            self._listener.close()
        for reader, _ in self._sessions.values():
            # Behave as if the agent had disconnected, so that its last calls are still answered.
            reader.feed_eof()
        if self._sessions:
            await asyncio.wait(self._sessions, timeout=seconds)
        for _, writer in self._sessions.values():
            # Send no error, because the relay reports to the agent what happened to its calls.
            writer.transport.abort()

    def _end(self, seconds: float) -> None:
        if not self._ending.done():
            self._ending.set_result(seconds)

    async def _listen(self, listener: socket.socket) -> None:
        old = self._listener
        self._listener = await asyncio.start_unix_server(self._serve, sock=listener, limit=MAX_LINE_BYTES)
        if old is not None:
            old.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = cast("asyncio.Task[None]", asyncio.current_task())
        self._sessions[task] = reader, writer
        try:
            environ = await self._greet(reader, writer)
            if environ is not None:
                library = await self._loop.run_in_executor(self._pool, _load_library)
                access = library.AccessOnce(lambda: self._open(environ))

                async def write(line: bytes) -> None:
                    writer.write(line)
                    await writer.drain()

                await library.serve(access, reader.readline, write, self._pool, hello=environ.get(HELLO, ""))
        finally:
            del self._sessions[task]
            writer.close()

    async def _greet(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> Mapping[str, str] | None:
        """Accept a relay and return its session's variables; None for a client that must not be served."""
        connection = writer.get_extra_info("socket")
        if len(self._sessions) > MAX_SESSIONS or not is_same_user(cast(socket.socket, connection)):
            return None
        with contextlib.suppress(TimeoutError, asyncio.IncompleteReadError, OSError, ValueError):
            async with asyncio.timeout(GREETING_SECONDS):
                head = _GREETING.fullmatch(await reader.readline())
                if head is None or int(head[1]) > MAX_GREETING_BYTES:
                    return None
                facts = await reader.readexactly(int(head[1]))
                writer.write(WELCOME)
            pairs = (os.fsdecode(variable).partition("=") for variable in facts.split(b"\0"))
            return {name: value for name, _, value in pairs}
        return None

    def _open(self, environ: Mapping[str, str]) -> Access:
        """Create a session's access. Raises EngramError."""
        made = access_for(environ, home=self._home)
        vault = own_vault(made.settings.places)
        return _InWorker(
            made.settings,
            made.folder,
            made.session_id,
            around=made.around,
            answers=self._answers,
            vaults=self._vaults,
            vault=None if vault is None else vault.folder.name,
        )


def _load_library() -> ModuleType:
    from engram_mcp import session

    return session
