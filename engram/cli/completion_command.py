"""``engram completion``: the shell's completion script."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

from engram.errors import BadRequest


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
