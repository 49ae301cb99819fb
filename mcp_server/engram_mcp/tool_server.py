"""An MCP server over stdio with tools only: no prompts and no resources."""

from __future__ import annotations

import asyncio
import gc
import inspect
import logging
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from mcp import types
from mcp.server import Server, ServerRequestContext
from mcp.server.stdio import stdio_server

from engram.errors import BadRequest, EngramError
from engram.redaction.display import visible
from engram.version import engram_version
from engram_mcp.signature import check_arguments, schema_of

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Tool:
    """One tool: its description for the model, and its function."""

    name: str
    description: str
    input_schema: Mapping[str, Any]
    work: Callable[..., str]
    meta: Mapping[str, Any] | None = None


class ToolServer:
    """An MCP server that has tools only."""

    def __init__(self, name: str, instructions: str) -> None:
        """Tools are added with the decorator ``tool``."""
        self._name = name
        self._instructions = instructions
        self.tools: dict[str, Tool] = {}

    def tool(self, *, is_always_loaded: bool = False) -> Callable[[Callable[..., str]], Callable[..., str]]:
        """Make a tool of a function. Its name, docstring and signature are the tool's description for the model."""

        def add(work: Callable[..., str]) -> Callable[..., str]:
            meta = {"anthropic/alwaysLoad": True} if is_always_loaded else None
            self.tools[work.__name__] = Tool(work.__name__, inspect.getdoc(work) or "", schema_of(work), work, meta)
            return work

        return add

    def run(self) -> None:
        """Serve over stdin and stdout until the client closes them."""
        asyncio.run(self._serve())

    async def _serve(self) -> None:
        server: Server[Any] = Server(
            self._name,
            version=engram_version(),
            instructions=self._instructions,
            on_list_tools=self._list,
            on_call_tool=self._call,
        )
        async with stdio_server() as (read, write):
            await server.run(read, write, server.create_initialization_options())

    async def _list(
        self, _: ServerRequestContext[Any], __: types.PaginatedRequestParams | None
    ) -> types.ListToolsResult:
        return types.ListToolsResult(
            tools=[
                types.Tool(
                    name=tool.name,
                    description=tool.description,
                    input_schema=dict(tool.input_schema),
                    _meta=None if tool.meta is None else dict(tool.meta),
                )
                for tool in self.tools.values()
            ]
        )

    async def _call(self, _: ServerRequestContext[Any], params: types.CallToolRequestParams) -> types.CallToolResult:
        text, is_error = await asyncio.to_thread(self.answer, params.name, params.arguments or {})
        return types.CallToolResult(content=[types.TextContent(type="text", text=text)], is_error=is_error)

    def answer(self, name: str, arguments: Mapping[str, Any]) -> tuple[str, bool]:
        """The text of a tool's answer, and whether it is an error."""
        try:
            return _shown(self._work(name, arguments)), False
        except EngramError as error:
            return _shown(str(error)), True
        finally:
            # ``main`` switched it off for the start.
            gc.enable()

    def _work(self, name: str, arguments: Mapping[str, Any]) -> str:
        """Call a tool. Unexpected errors are logged, and only their type is shown to the model."""
        tool = self.tools.get(name)
        if tool is None:
            raise BadRequest(f"there is no tool {name[:60]!r}")
        logger.info("action=tool name=%s pid=%d", name, os.getpid())
        try:
            return tool.work(**check_arguments(tool.input_schema, arguments))
        except EngramError:
            raise
        except Exception as error:
            kind = type(error).__name__
            logger.exception("action=tool name=%s error=%s", name, kind)
            raise EngramError(
                f"memory failed ({kind}); go on without it, and tell the user to run 'engram doctor'"
            ) from error


def _shown(text: str) -> str:
    """An answer without hidden characters and secrets; stored text may be older than a redaction rule."""
    # Not above: the rules take a while to load, and the server's first answer does not need them.
    from engram.redaction import redact

    return visible(redact(text), keep_lines=True)
