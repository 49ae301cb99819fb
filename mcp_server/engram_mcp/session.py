"""The MCP server of one session, built on the official library. It runs in the worker or in a process of its own.

The first request determines the protocol version: either it is ``initialize``, or every request has an envelope. The
tools are the same in both.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import json
import logging
import os
import signal
import threading
import time
from collections.abc import Awaitable, Callable
from concurrent.futures import Executor, ThreadPoolExecutor
from typing import BinaryIO

import anyio
import mcp_types as types
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.shared.message import SessionMessage

from engram.transcripts.json_values import storable_value
from engram.version import VERSION
from engram_mcp import HELLO
from engram_mcp.access import Access, open_access
from engram_mcp.catalog import INSTRUCTIONS, TOOLS, answer

#: Maximum length of a line, in bytes; a longer one ends the session.
MAX_LINE_BYTES = 16_000_000
#: How long to wait for running calls once the input has ended, in seconds.
MAX_END_SECONDS = 10.0
#: How often a server in its own process checks its parent, in seconds.
PARENT_SECONDS = 5.0
#: Key under which Claude Code sends a call's id, and the id's prefix if the call was made by a mod, not by the model.
#: Engram's mod for the user's command ``/engram`` makes such calls.
CALL_ID, COMMANDS_CALL = "claudecode/toolUseId", "toolu_plugin_"
#: Maximum number of calls that a server in its own process answers at the same time.
THREADS = 4

#: Returns the agent's next line; b"" at the end.
ReadLine = Callable[[], Awaitable[bytes]]
#: Writes a line to the agent.
WriteLine = Callable[[bytes], Awaitable[None]]


async def serve(
    access: Callable[[], Access], read: ReadLine, write: WriteLine, pool: Executor, *, hello: str = ""
) -> None:
    """Serve a session until its agent has disconnected and its last calls have been answered.

    Args:
        access: called for each tool call, in a thread of ``pool``.
        hello: the agent's ``initialize`` request, if another server has already answered it.
    """
    server = _make_server(access, pool)
    to_server, from_agent = anyio.create_memory_object_stream[SessionMessage | Exception](0)
    to_agent, from_server = anyio.create_memory_object_stream[SessionMessage](0)
    wire = _Wire(read, write, hello)
    async with anyio.create_task_group() as group:
        group.start_soon(wire.take, to_server)
        group.start_soon(wire.give, from_server)
        await server.run(from_agent, to_agent, server.create_initialization_options())


def _make_server(access: Callable[[], Access], pool: Executor) -> Server:
    tools = [
        types.Tool(
            name=tool.name,
            description=tool.description,
            input_schema=dict(tool.input_schema),
            _meta={"anthropic/alwaysLoad": True} if tool.is_always_loaded else None,
        )
        for tool in TOOLS.values()
    ]

    async def list_tools(_: ServerRequestContext, __: types.PaginatedRequestParams | None) -> types.ListToolsResult:
        return types.ListToolsResult(tools=tools)

    async def call_tool(_: ServerRequestContext, params: types.CallToolRequestParams) -> types.CallToolResult:
        run = asyncio.get_running_loop().run_in_executor
        is_users = str((params.meta or {}).get(CALL_ID, "")).startswith(COMMANDS_CALL)
        text, is_error = await run(pool, answer, access, params.name, params.arguments or {}, is_users)
        return types.CallToolResult(content=[types.TextContent(type="text", text=text)], is_error=is_error)

    return Server(
        "engram", version=VERSION, instructions=INSTRUCTIONS, on_list_tools=list_tools, on_call_tool=call_tool
    )


class _Wire:
    """Passes JSON-RPC messages, one per line, in both directions, and tracks unanswered requests."""

    def __init__(self, read: ReadLine, write: WriteLine, hello: str) -> None:
        self._read = read
        self._write = write
        self._hello = _parse(hello.encode())
        self._waiting: set[str] = set()
        self._is_quiet = anyio.Event()

    async def take(self, server: MemoryObjectSendStream[SessionMessage | Exception]) -> None:
        """Pass on the agent's messages. Closing the library's input drops running calls, so wait for them first."""
        async with server:
            with contextlib.suppress(anyio.BrokenResourceError, OSError, ValueError):
                if self._hello is not None:
                    await server.send(SessionMessage(self._hello))
                while line := await self._read():
                    if line.strip():
                        await self._pass_on(line, server)
            with anyio.move_on_after(MAX_END_SECONDS):
                while self._waiting:
                    self._is_quiet = anyio.Event()
                    await self._is_quiet.wait()

    async def _pass_on(self, line: bytes, server: MemoryObjectSendStream[SessionMessage | Exception]) -> None:
        message = _parse(line)
        if message is None:
            error = types.ErrorData(code=types.PARSE_ERROR, message="this is not a JSON-RPC message")
            await self._send(types.JSONRPCError(jsonrpc="2.0", id=None, error=error))
            return
        if isinstance(message, types.JSONRPCRequest):
            self._waiting.add(str(message.id))
        elif isinstance(message, types.JSONRPCNotification) and message.method == "notifications/cancelled":
            # The library does not answer cancelled requests.
            self._answered((message.params or {}).get("requestId"))
        await server.send(SessionMessage(message))

    async def give(self, server: MemoryObjectReceiveStream[SessionMessage]) -> None:
        async with server:
            if self._hello is not None:
                await server.receive()
            async for item in server:
                await self._send(item.message)
                if isinstance(item.message, types.JSONRPCResponse | types.JSONRPCError):
                    self._answered(item.message.id)

    async def _send(self, message: types.JSONRPCMessage) -> None:
        # An agent that has disconnected needs no answer, and the end of its input shows that it has disconnected.
        with contextlib.suppress(OSError):
            await self._write(message.model_dump_json(by_alias=True, exclude_unset=True).encode() + b"\n")

    def _answered(self, request_id: object) -> None:
        self._waiting.discard(str(request_id))
        if not self._waiting:
            self._is_quiet.set()


def _parse(line: bytes) -> types.JSONRPCMessage | None:
    """Parse the message in a line; return None if there is none."""
    with contextlib.suppress(ValueError):
        return types.jsonrpc_message_adapter.validate_json(line, by_name=False)
    # The library rejects lone surrogates, which some agents send. Better to lose the character than the message.
    with contextlib.suppress(ValueError, RecursionError):
        value = storable_value(json.loads(line.decode("utf-8", "replace")))
        return types.jsonrpc_message_adapter.validate_python(value, by_name=False)
    return None


class AccessOnce:
    """A session's access, opened by its first call and after a move of its project into or out of a vault.

    After a failure, the next call tries again.
    """

    def __init__(self, open_it: Callable[[], Access]) -> None:
        self._open = open_it
        self._lock = threading.Lock()
        self._access: Access | None = None

    def __call__(self) -> Access:
        with self._lock:
            if self._access is None or not self._access.is_in_place():
                self._access = None  # if it can't be opened now, the former one must not be used later
                self._access = self._open()
            return self._access


def main(said: bytes = b"") -> None:
    """Serve over stdin and stdout until the agent closes them, kills this process or dies.

    Relays of earlier versions also call this. ``said`` has already been read from stdin.
    """
    for number in (signal.SIGINT, signal.SIGTERM):
        # No clean-up is needed, because tools write in transactions.
        signal.signal(number, signal.SIG_DFL)
    threading.Thread(target=_watch_parent, args=(os.getppid(),), name="parent", daemon=True).start()
    os.umask(0o077)
    gc.freeze()  # imported objects are kept, so no collection needs to scan them
    gc.enable()
    asyncio.run(_serve_stdio(said))
    logging.shutdown()
    # A normal exit would wait for calls that outlast the agent.
    os._exit(0)


async def _serve_stdio(said: bytes) -> None:
    # Code that reads or prints by mistake must not interfere with the messages.
    source, target = _move(0, os.open(os.devnull, os.O_RDONLY)), _move(1, os.dup(2))
    run = asyncio.get_running_loop().run_in_executor
    # Use a thread for each direction, because waiting for the agent's input must not delay output to it.
    reader, writer = ThreadPoolExecutor(1), ThreadPoolExecutor(1)
    with open(source, "rb", closefd=False) as lines, open(target, "wb", closefd=False) as output:

        def read_line() -> bytes:
            nonlocal said
            head, end, said = said.partition(b"\n")
            line = head + (end or lines.readline(MAX_LINE_BYTES))
            return line if line.endswith(b"\n") or len(line) < MAX_LINE_BYTES else b""

        async def read() -> bytes:
            return await run(reader, read_line)

        async def write(data: bytes) -> None:
            await run(writer, _write, output, data)

        await serve(AccessOnce(open_access), read, write, ThreadPoolExecutor(THREADS), hello=os.environ.get(HELLO, ""))


def _move(descriptor: int, instead: int) -> int:
    """Move a standard stream to a new descriptor, which is returned, and put ``instead`` in its place."""
    moved = os.dup(descriptor)
    os.dup2(instead, descriptor)
    os.close(instead)
    return moved


def _write(output: BinaryIO, data: bytes) -> None:
    output.write(data)
    output.flush()


def _watch_parent(parent: int) -> None:
    """Exit once the parent process has died; another process may keep the other end of the input open."""
    while os.getppid() == parent:
        time.sleep(PARENT_SECONDS)
    os._exit(0)
