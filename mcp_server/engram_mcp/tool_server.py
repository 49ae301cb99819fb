"""An MCP server with tools only: no prompts and no resources."""

from __future__ import annotations

import gc
import inspect
import logging
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from engram.errors import BadRequest, EngramError
from engram.redaction.display import visible
from engram.version import VERSION
from engram_mcp.signature import check_arguments, schema_of
from engram_mcp.stdio import InvalidParams, Message, StdioServer, negotiate

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Tool:
    """One tool: its description for the model, and its function."""

    name: str
    description: str
    input_schema: Mapping[str, Any]
    work: Callable[..., str]
    meta: Mapping[str, Any] | None = None

    def listed(self) -> dict[str, Any]:
        """Return the tool as ``tools/list`` shows it."""
        meta = {"_meta": self.meta} if self.meta else {}
        return {"name": self.name, "description": self.description, "inputSchema": self.input_schema, **meta}


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
        handlers = {
            "initialize": self._initialize,
            "ping": lambda _: {},
            "tools/list": lambda _: {"tools": [tool.listed() for tool in self.tools.values()]},
            "tools/call": self._call,
        }
        StdioServer(handlers).run()

    def _initialize(self, params: Message) -> dict[str, Any]:
        return {
            "protocolVersion": negotiate(params.get("protocolVersion")),
            "capabilities": {"tools": {"listChanged": False}},
            "serverInfo": {"name": self._name, "version": VERSION},
            "instructions": self._instructions,
        }

    def _call(self, params: Message) -> dict[str, Any]:
        name, arguments = params.get("name"), params.get("arguments") or {}
        if not isinstance(name, str) or not isinstance(arguments, dict):
            raise InvalidParams("tools/call takes a name, and arguments as an object")
        text, is_error = self.answer(name, arguments)
        return {"content": [{"type": "text", "text": text}], "isError": is_error}

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
        try:
            checked = check_arguments(tool.input_schema, arguments)
            return tool.work(**checked)
        except EngramError:
            raise
        except Exception as error:
            kind = type(error).__name__
            logger.exception("action=tool name=%s error=%s", name, kind)
            raise EngramError(
                f"memory failed ({kind}); go on without it, and tell the user to run 'engram doctor'"
            ) from error
        finally:
            logger.info("action=tool name=%s pid=%d", name, os.getpid())


def _shown(text: str) -> str:
    """An answer without hidden characters and secrets; stored text may be older than a redaction rule."""
    # Not above: the rules take a while to load, and the server's first answer does not need them.
    from engram.redaction import redact

    return visible(redact(text), keep_lines=True)
