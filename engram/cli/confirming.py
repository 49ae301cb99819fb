"""Confirmation of commands that change much: show what will change, ask, and report."""

from __future__ import annotations

from typing import Any

import click

from engram.cli.output import print_json, safe
from engram.errors import BadRequest

yes_option = click.option("--yes", is_flag=True, help="Don't ask (default: show what will change, and ask).")


def confirm(yes: bool, as_json: bool, question: str) -> None:
    """Return if ``yes`` was given or the user agrees.

    Raises:
        BadRequest: ``--json`` without ``--yes``.
        Abort: the user declined.
    """
    if yes:
        return
    if as_json:
        raise BadRequest("--json can't ask: add --yes")
    click.confirm(safe(question), abort=True)


def tell(as_json: bool, facts: dict[str, Any], sentence: str) -> None:
    """Print what changed, as JSON or as a sentence."""
    if as_json:
        print_json(facts)
    else:
        click.echo(safe(sentence))
