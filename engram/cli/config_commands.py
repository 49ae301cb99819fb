"""``engram config``: show every setting with its value and source, or change one."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import click
from click.shell_completion import get_completion_class

from engram.cli.options import json_option
from engram.cli.output import print_json, print_table, say
from engram.cli.workspace import Workspace, pass_workspace
from engram.config_file import set_value, unset_value
from engram.errors import BadRequest, EngramError, NotFound
from engram.reports.settings_report import plain_settings, plain_value, shown_value
from engram.settings import Loaded, load
from engram.vaults import config_home


class _ConfigGroup(click.Group):
    """A group that reads ``engram config NAME`` as ``engram config show NAME``."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Insert ``show`` before anything that is not a command."""
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
    """Show every setting, its value, and its source: a flag, the environment, config.toml or the default.

    Change one with `engram config set NAME VALUE`, with a variable ENGRAM_<NAME>, or for one call with
    --set NAME=VALUE.

    Example: engram config recall_limit
    """
    values = plain_settings(workspace.settings)
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
        say(shown_value(next(iter(values.values()))))
    else:
        table = [(setting, shown_value(value), sources[setting]) for setting, value in values.items()]
        print_table(["setting", "value", "from"], table, empty="")


@config.command("set")
@click.argument("name")
@click.argument("value")
@json_option
@pass_workspace
def set_setting(workspace: Workspace, name: str, value: str, as_json: bool) -> None:
    """Check a setting and write it to config.toml. A running worker or watcher uses it after its next start.

    Separate the items of a list by commas. Comments and the rest of the file are not changed.

    Example: engram config set llm_dollars_per_day 0.5
    """
    setting = _canonical(name)
    stored = _write(lambda: set_value(_config_home(workspace), setting, value))
    if as_json:
        print_json({"setting": setting, "value": plain_value(stored)})
    else:
        click.echo(f"{setting} = {shown_value(plain_value(stored))}")
    _note_override(workspace, setting)


@config.command("unset")
@click.argument("name")
@json_option
@pass_workspace
def unset_setting(workspace: Workspace, name: str, as_json: bool) -> None:
    """Remove a setting from config.toml, so that its default applies again.

    Example: engram config unset llm_dollars_per_day
    """
    setting = _canonical(name)
    was_set = _write(lambda: unset_value(_config_home(workspace), setting))
    if as_json:
        print_json({"setting": setting, "was_set": was_set})
    elif not was_set:
        click.echo(f"{setting} is not in config.toml.")
    _note_override(workspace, setting)


Result = TypeVar("Result")


def _write(change: Callable[[], Result]) -> Result:
    """Change the file; an error of the file system is an expected failure."""
    try:
        return change()
    except OSError as error:
        raise EngramError(f"Can't write config.toml: {error.strerror or error}.") from error


def _config_home(workspace: Workspace) -> Path:
    """The folder of the config.toml that is read: a vault has the settings of the memory folder around it."""
    return config_home(_beside_file(workspace).settings.home)


def _note_override(workspace: Workspace, setting: str) -> None:
    """Warn if config.toml does not decide the setting."""
    source = _beside_file(workspace).sources.get(setting)
    if source in ("flag", "environment"):
        click.echo(f"Note: the {source} also sets {setting} and overrides config.toml.", err=True)


def _beside_file(workspace: Workspace) -> Loaded:
    """The settings from flags and environment alone: config.toml may hold the line to be fixed."""
    return load(workspace.flags, with_file=False)


def _canonical(name: str) -> str:
    return name.replace("-", "_")


# -- ``engram model``: embedding models other than the bundled one.


@click.group("model")
def model() -> None:
    """Get an embedding model other than the bundled one.

    Example: engram model fetch BAAI/bge-small-en-v1.5
    """


@model.command("fetch")
@click.argument("name")
@json_option
@pass_workspace
def fetch(workspace: Workspace, name: str, as_json: bool) -> None:
    """Download the model NAME from the Hugging Face hub and make it ready to run.

    This is the only command that downloads a model. It doesn't change which model is used: it prints the command that
    does. A model in a folder of yours needs no download.

    Example: engram model fetch BAAI/bge-small-en-v1.5
    """
    from engram.embedding.load import fetch_model

    embedder = fetch_model(name, workspace.places.prepare().models)
    if as_json:
        print_json({"name": name, "id": embedder.model_id, "dimension": embedder.dimension, "note": embedder.reason})
        return
    say(f"{name} is ready: {embedder.dimension} numbers in a vector, {embedder.max_tokens} tokens at most.")
    if embedder.reason:
        say(f"It runs with torch, which takes more memory: {embedder.reason}")
    say(f"To use it: engram config set embedding_model {name}\nThe worker then embeds every memory again.")


# -- ``engram completion``: the shell's completion script.


@click.command("completion")
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def completion(ctx: click.Context, shell: str) -> None:
    """Print the script that completes commands and options in your shell.

    Example: engram completion zsh > ~/.zfunc/_engram
    """
    completion_class = get_completion_class(shell)
    if completion_class is None:
        raise BadRequest(f"there is no completion for {shell}")
    root = ctx.find_root().command
    click.echo(completion_class(root, {}, "engram", "_ENGRAM_COMPLETE").source())
