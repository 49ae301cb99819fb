"""``engram hooks``: print the hooks and the MCP server for Claude Code's settings."""

from __future__ import annotations

import click

from engram.cli.options import json_option
from engram.cli.output import print_json
from engram.cli.workspace import Workspace, pass_workspace
from engram.paths import is_default_home
from engram_hooks.block import link_interpreter, settings_block


@click.command("hooks")
@json_option
@pass_workspace
def hooks(workspace: Workspace, as_json: bool) -> None:
    """Print the hooks and the MCP server for Claude Code's settings, with absolute paths.

    "hooks" belongs in settings.json in Claude Code's configuration folder, "mcpServers" in the user's .claude.json (or
    a project's .mcp.json). These files are not changed. The command creates the link `python` in the memory folder,
    which the hooks use.

    Example: engram hooks --json
    """
    places = workspace.places
    link_interpreter(places)
    block = settings_block(None if is_default_home(places) else places)
    if not as_json:
        click.echo("Merge this into Claude Code's settings (hooks: settings.json; mcpServers: .claude.json):", err=True)
    print_json(block)
