"""Options that several commands share, and durations as people write them."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, TypeVar

import click

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


def limit_option(default: int, what: str) -> Callable[[Command], Command]:
    """``--limit``: the maximum number of results."""
    return click.option(
        "--limit",
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
