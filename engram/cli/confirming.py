"""Commands that change much: they say what changes, ask, and tell what changed."""

from __future__ import annotations

from typing import Any

import click

from engram.cli.output import print_json, safe
from engram.errors import BadRequest

yes_option = click.option("--yes", is_flag=True, help="Do not ask (default: say what changes, and ask).")


def confirm(yes: bool, as_json: bool, question: str) -> None:
    """Go on where ``yes`` was given or the answer is yes.

    Raises:
        BadRequest: ``--json`` without ``--yes``.
        Abort: the answer is no.
    """
    if yes:
        return
    if as_json:
        raise BadRequest("--json asks nothing: add --yes")
    click.confirm(safe(question), abort=True)


def tell(as_json: bool, facts: dict[str, Any], sentence: str) -> None:
    """Print what changed, as JSON or as a sentence."""
    if as_json:
        print_json(facts)
    else:
        click.echo(safe(sentence))
