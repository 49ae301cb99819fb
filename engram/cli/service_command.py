"""``engram service``: print the service files for launchd or systemd."""

from __future__ import annotations

import sys

import click

from engram.cli.options import json_option
from engram.cli.output import print_json
from engram.cli.service_files import launchd_files, systemd_files
from engram.cli.workspace import Workspace, pass_workspace


@click.command("service")
@click.option(
    "--print", "is_printed", is_flag=True, required=True, help="Print the files. Nothing is written or registered."
)
@click.option(
    "--system",
    type=click.Choice(["launchd", "systemd"]),
    default=None,
    help="The target system (default: launchd on macOS, else systemd).",
)
@json_option
@pass_workspace
def service(workspace: Workspace, is_printed: bool, system: str | None, as_json: bool) -> None:
    """Print the service files that start watcher and worker at login, with absolute paths and without secrets.

    launchd: write them to ~/Library/LaunchAgents, then run `launchctl bootstrap gui/$UID FILE`.
    systemd: write them to ~/.config/systemd/user, then run `systemctl --user enable --now engram-work engram-watch`.

    Example: engram service --print --system systemd
    """
    del is_printed
    system = system or ("launchd" if sys.platform == "darwin" else "systemd")
    render = launchd_files if system == "launchd" else systemd_files
    files = render(workspace.settings)
    if as_json:
        print_json(
            {
                "system": system,
                "files": [{"path": str(file.folder / file.name), "text": file.data.decode()} for file in files],
            }
        )
        return
    for file in files:
        click.echo(f"# {file.folder / file.name}")
        click.echo(file.data.decode())
