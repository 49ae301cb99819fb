"""The files of the plugin: made from the installed hooks, the MCP server and the texts in ``content/``."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from engram.paths import Home
from engram.reports.claude_checks import NAME as _NAME
from engram.version import VERSION
from engram_hooks.block import settings_block

#: Name of the plugin and of its MCP server.
NAME: Final = _NAME
#: Name of the marketplace that holds nothing but this plugin.
MARKETPLACE: Final = "engram-local"
#: Path of the manifest in the folder of the plugin.
MANIFEST: Final = ".claude-plugin/plugin.json"
#: Path of the list of plugins in the folder of a marketplace.
MARKETPLACE_LIST: Final = ".claude-plugin/marketplace.json"
#: What the manifest says its author is; tells Engram's plugin from another one of the same name.
AUTHOR: Final = "Engram"
#: One line for the lists of Claude Code.
DESCRIPTION: Final = "Long-term memory: what earlier sessions decided, tried and fixed, on this machine only."

_CONTENT = Path(__file__).resolve().parent / "content"
#: Path in the plugin → file of ``content/``.
_COPIED = {
    "README.md": "README.md",
    "skills/memory/SKILL.md": "skills/memory/SKILL.md",
    ".claude-plugin/icon.png": "icon.png",
}


def plugin_files(
    home: Home | None = None, interpreter: str = sys.executable, name: str = NAME, *, declares_hosts: bool = False
) -> dict[str, bytes]:
    """Return every file of the plugin: its path in the folder, with ``/``, and its content.

    The hooks are those that the settings would get. Two installations of the same version, home and interpreter give
    the same bytes, so that files that differ were made by another one.

    Args:
        home: a memory folder other than the default; None leaves it to the environment.
        interpreter: absolute path of the interpreter that Engram is installed in.
        name: of the plugin; its MCP server is always called ``NAME``, since the plugin's name stands before that.
        declares_hosts: say in the manifest that the plugin talks to no host; earlier versions of Claude Code warn about
            the key, see ``declares_hosts``.
    """
    block = settings_block(home, interpreter)
    made = {
        MANIFEST: _manifest(name) | ({"network": {"hosts": []}} if declares_hosts else {}),
        "hooks/hooks.json": {"description": f"Engram {VERSION}", "hooks": block["hooks"]},
        ".mcp.json": {"mcpServers": block["mcpServers"]},
    }
    copied = {path: (_CONTENT / name).read_bytes() for path, name in _COPIED.items()}
    return {path: _to_json(document) for path, document in made.items()} | copied


def marketplace_files(home: Home | None = None, interpreter: str = sys.executable) -> dict[str, bytes]:
    """Return every file of a folder that ``claude plugin marketplace add`` takes, with the plugin in ``engram/``.

    Claude Code reads such a folder in place: it must stay where it is.
    """
    listed = {
        "name": MARKETPLACE,
        "description": "Engram, as it is installed on this machine.",
        "owner": {"name": AUTHOR},
        "plugins": [{"name": NAME, "source": f"./{NAME}", "description": DESCRIPTION}],
    }
    plugin = {f"{NAME}/{path}": content for path, content in plugin_files(home, interpreter).items()}
    return {MARKETPLACE_LIST: _to_json(listed)} | plugin


def _manifest(name: str) -> dict[str, Any]:
    return {
        "name": name,
        "description": DESCRIPTION,
        "version": VERSION,
        "author": {"name": AUTHOR},
        "license": "MIT",
        "keywords": ["memory", "recall"],
    }


def _to_json(document: Mapping[str, Any]) -> bytes:
    return (json.dumps(document, ensure_ascii=False, indent=2) + "\n").encode()
