"""``engram config``: every setting, its value and where that came from."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import click

from engram.cli.options import json_option
from engram.cli.output import print_json, print_table, say
from engram.cli.workspace import Workspace, pass_workspace
from engram.errors import NotFound


@click.command("config")
@click.argument("name", required=False)
@json_option
@pass_workspace
def config(workspace: Workspace, name: str | None, as_json: bool) -> None:
    """Show every setting, its value, and whether a flag, the environment, config.toml or the default set it.

    Change one in config.toml in the memory folder (`engram config home` prints it), in a variable ENGRAM_<NAME>,
    or for one call with --set NAME=VALUE.

    Example: engram config recall_limit
    """
    found = {one: _plain(value) for one, value in _values(workspace).items()}
    if name is not None:
        wanted = name.replace("-", "_")
        if wanted not in found:
            raise NotFound(f"there is no setting {name!r}; `engram config` lists them")
        found = {wanted: found[wanted]}
    sources = workspace.loaded.sources
    if as_json:
        print_json({"settings": {one: {"value": value, "source": sources[one]} for one, value in found.items()}})
    elif name is not None:
        say(_shown(next(iter(found.values()))))
    else:
        print_table(
            ["setting", "value", "from"], [(one, _shown(value), sources[one]) for one, value in found.items()], empty=""
        )


def _values(workspace: Workspace) -> dict[str, object]:
    settings = workspace.settings
    return {one.name: getattr(settings, one.name) for one in dataclasses.fields(settings)}


def _plain(value: object) -> object:
    if isinstance(value, Path):
        return str(value)
    return list(value) if isinstance(value, tuple) else value


def _shown(value: object) -> str:
    if isinstance(value, list):
        return ", ".join(str(one) for one in value)
    return str(value).lower() if isinstance(value, bool) else str(value)
