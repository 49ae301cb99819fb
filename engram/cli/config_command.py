"""``engram config``: every setting, its value and where that came from; change one."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import click

from engram.cli.options import json_option
from engram.cli.output import print_json, print_table, say
from engram.cli.workspace import Workspace, pass_workspace
from engram.config_file import set_value, unset_value
from engram.errors import EngramError, NotFound
from engram.settings import Loaded, load


class _ConfigGroup(click.Group):
    """Takes ``engram config NAME`` for ``engram config show NAME``."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Put ``show`` before anything that is no command."""
        if not args or (args[0] not in self.commands and args[0] not in ctx.help_option_names):
            args = ["show", *args]
        return super().parse_args(ctx, args)


@click.group("config", cls=_ConfigGroup)
def config() -> None:
    """Show every setting with its source, or change one (default: show).

    Example: engram config set extractor claude
    """


@config.command("show")
@click.argument("name", required=False)
@json_option
@pass_workspace
def show(workspace: Workspace, name: str | None, as_json: bool) -> None:
    """Show every setting, its value, and whether a flag, the environment, config.toml or the default set it.

    Change one with `engram config set NAME VALUE`, in a variable ENGRAM_<NAME>, or for one call with --set NAME=VALUE.

    Example: engram config recall_limit
    """
    values = {setting: _plain(value) for setting, value in _values(workspace).items()}
    if name is not None:
        wanted = _canonical(name)
        if wanted not in values:
            raise NotFound(f"there is no setting {name!r}; `engram config` lists them")
        values = {wanted: values[wanted]}
    sources = workspace.loaded.sources
    if as_json:
        rows = {setting: {"value": value, "source": sources[setting]} for setting, value in values.items()}
        print_json({"settings": rows})
    elif name is not None:
        say(_shown(next(iter(values.values()))))
    else:
        table = [(setting, _shown(value), sources[setting]) for setting, value in values.items()]
        print_table(["setting", "value", "from"], table, empty="")


@config.command("set")
@click.argument("name")
@click.argument("value")
@json_option
@pass_workspace
def set_setting(workspace: Workspace, name: str, value: str, as_json: bool) -> None:
    """Write a setting into config.toml after checking it; a running worker or watcher takes it at its next start.

    Lists are separated by commas. Comments and the rest of the file stay as they are.

    Example: engram config set llm_dollars_per_day 0.5
    """
    setting = _canonical(name)
    stored = _write(lambda: set_value(_beside_file(workspace).settings.home, setting, value))
    if as_json:
        print_json({"setting": setting, "value": _plain(stored)})
    else:
        click.echo(f"{setting} = {_shown(_plain(stored))}")
    _note_override(workspace, setting)


@config.command("unset")
@click.argument("name")
@json_option
@pass_workspace
def unset_setting(workspace: Workspace, name: str, as_json: bool) -> None:
    """Take a setting out of config.toml; its default counts again.

    Example: engram config unset llm_dollars_per_day
    """
    setting = _canonical(name)
    was_set = _write(lambda: unset_value(_beside_file(workspace).settings.home, setting))
    if as_json:
        print_json({"setting": setting, "was_set": was_set})
    elif not was_set:
        click.echo(f"{setting} does not stand in config.toml.")
    _note_override(workspace, setting)


Result = TypeVar("Result")


def _write(change: Callable[[], Result]) -> Result:
    """Make the change; a file that can't be written is an expected failure."""
    try:
        return change()
    except OSError as error:
        raise EngramError(f"Can't write config.toml: {error.strerror or error}.") from error


def _note_override(workspace: Workspace, setting: str) -> None:
    """Say so where the file does not decide."""
    source = _beside_file(workspace).sources.get(setting)
    if source in ("flag", "environment"):
        click.echo(f"Note: the {source} sets {setting} too, and goes before config.toml.", err=True)


def _beside_file(workspace: Workspace) -> Loaded:
    """What flags and environment say: the file may hold a line that is to be mended."""
    return load(workspace.flags, with_file=False)


def _canonical(name: str) -> str:
    return name.replace("-", "_")


def _values(workspace: Workspace) -> dict[str, object]:
    settings = workspace.settings
    return {field.name: getattr(settings, field.name) for field in dataclasses.fields(settings)}


def _plain(value: object) -> object:
    if isinstance(value, Path):
        return str(value)
    return list(value) if isinstance(value, tuple) else value


def _shown(value: object) -> str:
    if isinstance(value, list):
        return ", ".join(str(part) for part in value)
    return str(value).lower() if isinstance(value, bool) else str(value)
