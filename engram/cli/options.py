"""Options that several commands share, and durations as people write them."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from typing import Any, TypeVar

import click

from engram.cli.output import print_json, safe
from engram.errors import BadRequest

Command = TypeVar("Command", bound=Callable[..., Any])

_SPAN = re.compile(r"(\d+(?:\.\d+)?)\s*(s|m|min|h|d|w)?")
_SECONDS = {"s": 1, "m": 60, "min": 60, "h": 3_600, "d": 86_400, "w": 604_800}


def json_option(command: Command) -> Command:
    """``--json``: for scripts."""
    return click.option("--json", "as_json", is_flag=True, help="Print JSON for scripts (default: text).")(command)


def project_option(command: Command) -> Command:
    """``--project``: name or folder."""
    return click.option(
        "--project", metavar="NAME", default=None, help="Only this project: its name or a folder in it (default: all)."
    )(command)


def limit_option(default: int, what: str, *names: str) -> Callable[[Command], Command]:
    """``-n``, ``--limit`` and more names: the maximum number of results."""
    return click.option(
        "-n",
        "--limit",
        *names,
        "limit",
        type=click.IntRange(1, 100_000),
        default=default,
        show_default=True,
        metavar="N",
        help=f"Maximum number of {what} to print.",
    )


class TimeSpan(click.ParamType[float]):
    """A duration such as 90s, 30m, 1h or 7d, as seconds."""

    name = "time"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """The duration in seconds."""
        if isinstance(value, int | float):
            return float(value)
        match = _SPAN.fullmatch(str(value).strip().lower())
        if match is None:
            self.fail(f"{value!r} is not a duration. Write one such as 90s, 30m, 1h or 7d.", param, ctx)
        return float(match[1]) * _SECONDS[match[2] or "s"]


# -- Exit codes of the command line.

#: Success.
OK = 0
#: An expected failure; one line on stderr explains it.
FAILED = 1
#: A bug in Engram; the log has the traceback.
BROKEN = 70
#: Interrupted by Ctrl-C.
INTERRUPTED = 130


# -- Confirmation of commands that change much: show what will change, ask, and report.

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
    require_agreement(question)


def require_agreement(question: str) -> None:
    """Ask, and return if the user agrees.

    Raises:
        BadRequest: nobody is there to answer.
        Abort: the user declined.
    """
    try:
        agrees = click.confirm(safe(question))
    except click.Abort:
        if sys.stdin.isatty():
            raise
        raise BadRequest("there is nobody to answer: add --yes, or run it in a terminal") from None
    if not agrees:
        raise click.Abort


def tell(as_json: bool, facts: dict[str, Any], sentence: str) -> None:
    """Print what changed, as JSON or as a sentence."""
    if as_json:
        print_json(facts)
    else:
        click.echo(safe(sentence))
