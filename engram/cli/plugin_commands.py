"""``engram plugin``: show the plugin for Claude Code, or write it as a marketplace folder."""

from __future__ import annotations

import shlex
from pathlib import Path

import click

from engram.cli.options import json_option
from engram.cli.output import print_json, say
from engram.cli.workspace import Workspace, pass_workspace
from engram.errors import InstallError
from engram.paths import is_default_home
from engram.setup.agents.plugin import other_files
from engram.setup.agents.registered import (
    MARKETPLACE,
    MARKETPLACE_LIST,
    NAME,
    find_registrations,
    marketplace_files,
    plugin_files,
    read_documents,
    skills_folder,
)
from engram.system.atomic import write_atomic
from engram_hooks.block import link_interpreter, settings_block


@click.command("plugin")
@click.option(
    "--out",
    type=click.Path(path_type=Path, file_okay=False),
    default=None,
    metavar="DIR",
    help="Write a marketplace folder with the plugin to DIR (default: write nothing, show the plugin).",
)
@click.option("--mod", is_flag=True, help="With the mod that shows what was handed to Claude (default: without it).")
@json_option
@pass_workspace
def plugin(workspace: Workspace, out: Path | None, mod: bool, as_json: bool) -> None:
    """Show the plugin for Claude Code, or write it as a marketplace folder.

    `engram install` puts the plugin into Claude Code's configuration folder. Use --out if you prefer to install it from
    a marketplace. Claude Code reads that folder in place: keep it, outside of any virtual environment. Write it again
    after an update of Engram.

    Example: engram plugin --out ~/engram-marketplace
    """
    places, claude_folder = workspace.places, workspace.settings.claude_folder
    home = None if is_default_home(places) else places
    if out is not None:
        link_interpreter(places)
        folder = _write(out.expanduser().absolute(), marketplace_files(home, mod=mod))
        if as_json:
            print_json({"folder": str(folder)})
            return
        say(f"Wrote {folder}. Now run:")
        say(f"  claude plugin marketplace add {shlex.quote(str(folder))}")
        say(f"  claude plugin install {NAME}@{MARKETPLACE}")
        return
    files = plugin_files(home, mod=mod)
    registered = find_registrations(read_documents(claude_folder))
    if as_json:
        texts = {
            path: content.decode("utf-8", "replace") for path, content in files.items() if not path.endswith(".png")
        }
        print_json(
            {
                "folder": str(skills_folder(claude_folder)),
                "files": texts,
                "registered": [
                    {"way": found.way, "path": str(found.path), "version": found.version, "enabled": found.is_enabled}
                    for found in registered
                ],
            }
        )
        return
    say(f"Folder: {skills_folder(claude_folder)}")
    for path, content in files.items():
        say(f"  {path} ({len(content)} bytes)")
    for found in registered:
        say(f"Registered: {found.way} {found.path}{'' if found.is_enabled else ' (disabled)'}")
    if not registered:
        say("Not registered in Claude Code. `engram install` does that.")


def _write(folder: Path, files: dict[str, bytes]) -> Path:
    """Write a marketplace folder. Refuses one that holds anything else."""
    if other_files(folder, files) and not (folder / MARKETPLACE_LIST).is_file():
        raise InstallError(f"{folder} holds other files; name a new or empty folder")
    for path, content in files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        write_atomic(folder / path, content)
    return folder


# -- ``engram hooks``: print the hooks and the MCP server for Claude Code's settings.


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
