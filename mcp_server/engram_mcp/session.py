"""The MCP server of one session, by the official library: the worker runs one for each, or this process one for itself.

The first request decides the era of the protocol: ``initialize``, or requests that each bring their own envelope. The
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
#: How long the end of the input waits for calls that are still running, in seconds.
MAX_END_SECONDS = 10.0
#: How often a server in its own process checks its parent, in seconds.
PARENT_SECONDS = 5.0
#: Name under which Claude Code sends the id of a call, and how that begins if no model made it: a mod did, such as
#: Engram's for the command ``/engram`` that the user typed.
CALL_ID, COMMANDS_CALL = "claudecode/toolUseId", "toolu_plugin_"
#: Calls that such a server answers at the same time.
THREADS = 4

#: Returns the next line of the agent, b"" at the end.
ReadLine = Callable[[], Awaitable[bytes]]
#: Writes a line to the agent.
WriteLine = Callable[[bytes], Awaitable[None]]


async def serve(
    access: Callable[[], Access], read: ReadLine, write: WriteLine, pool: Executor, *, hello: str = ""
) -> None:
    """Serve one session until its agent has left and its last calls are answered.

    Args:
        access: what the tools work with, asked at each call in a thread of the pool.
        read: from the agent.
        write: to the agent.
        pool: runs the calls.
        hello: the agent's request ``initialize``, which another server has answered already.
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
    """One JSON-RPC message a line, both ways; knows which requests wait for their answer."""

    def __init__(self, read: ReadLine, write: WriteLine, hello: str) -> None:
        self._read = read
        self._write = write
        self._hello = _parse(hello.encode())
        self._waiting: set[str] = set()
        self._is_quiet = anyio.Event()

    async def take(self, server: MemoryObjectSendStream[SessionMessage | Exception]) -> None:
        """Pass on what the agent says. The library drops calls at the end of its input, so that comes after them."""
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
            # The library answers no request that was cancelled.
            self._answered((message.params or {}).get("requestId"))
        await server.send(SessionMessage(message))

    async def give(self, server: MemoryObjectReceiveStream[SessionMessage]) -> None:
        """Pass on what the server says."""
        async with server:
            if self._hello is not None:
                await server.receive()
            async for item in server:
                await self._send(item.message)
                if isinstance(item.message, types.JSONRPCResponse | types.JSONRPCError):
                    self._answered(item.message.id)

    async def _send(self, message: types.JSONRPCMessage) -> None:
        # An agent that has left misses nothing; that its input ends says so, too.
        with contextlib.suppress(OSError):
            await self._write(message.model_dump_json(by_alias=True, exclude_unset=True).encode() + b"\n")

    def _answered(self, request_id: object) -> None:
        self._waiting.discard(str(request_id))
        if not self._waiting:
            self._is_quiet.set()


def _parse(line: bytes) -> types.JSONRPCMessage | None:
    """Return the message on a line; None if there is none."""
    with contextlib.suppress(ValueError):
        return types.jsonrpc_message_adapter.validate_json(line, by_name=False)
    # The library refuses half of a surrogate pair, which some agents write; it costs the character, not the message.
    with contextlib.suppress(ValueError, RecursionError):
        value = storable_value(json.loads(line.decode("utf-8", "replace")))
        return types.jsonrpc_message_adapter.validate_python(value, by_name=False)
    return None


class AccessOnce:
    """The access of one session, opened by its first call; a failure is tried again by the next one."""

    def __init__(self, open_it: Callable[[], Access]) -> None:
        """``open_it`` opens the access."""
        self._open = open_it
        self._lock = threading.Lock()
        self._access: Access | None = None

    def __call__(self) -> Access:
        """Return the access. Raises EngramError if it can't be opened."""
        with self._lock:
            self._access = self._access or self._open()
            return self._access


def main(said: bytes = b"") -> None:
    """Serve over stdin and stdout until the agent closes them, ends this process, or dies.

    A relay of an earlier version may call this, too.

    Args:
        said: what was already read from stdin.
    """
    for number in (signal.SIGINT, signal.SIGTERM):
        # Nothing needs cleaning up: tools write in transactions.
        signal.signal(number, signal.SIG_DFL)
    threading.Thread(target=_watch_parent, args=(os.getppid(),), name="parent", daemon=True).start()
    os.umask(0o077)
    gc.freeze()  # what was imported stays: the first collection would look at all of it
    gc.enable()
    asyncio.run(_serve_stdio(said))
    logging.shutdown()
    # Not the ordinary end, which would wait for a call that takes longer than the agent does.
    os._exit(0)


async def _serve_stdio(said: bytes) -> None:
    # What reads or prints by mistake meets no message.
    source, target = _move(0, os.open(os.devnull, os.O_RDONLY)), _move(1, os.dup(2))
    run = asyncio.get_running_loop().run_in_executor
    # A thread each: to wait for the agent must keep nothing from it.
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
    """Give a standard stream another descriptor, which is returned, and put another one in its place."""
    moved = os.dup(descriptor)
    os.dup2(instead, descriptor)
    os.close(instead)
    return moved


def _write(output: BinaryIO, data: bytes) -> None:
    output.write(data)
    output.flush()


def _watch_parent(parent: int) -> None:
    """End this process once its parent has died: another process may have inherited the other end of its input."""
    while os.getppid() == parent:
        time.sleep(PARENT_SECONDS)
    os._exit(0)
