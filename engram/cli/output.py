"""Printing: JSON for scripts, tables for people, and no control characters from stored text on the terminal."""

from __future__ import annotations

import json
import os
import shutil
import sys
import time
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import click

from engram.system.clock import iso_time
from engram.trust.display import escape_hidden, visible

if TYPE_CHECKING:
    from rich.console import Console

#: Width of a table that is written to a file or a pipe, in characters.
_FILE_WIDTH = 200
#: Width of a paragraph at least and at most, in characters.
MIN_PARAGRAPH_WIDTH, MAX_PARAGRAPH_WIDTH = 40, 100
#: Columns whose values people type again: they are never wrapped.
_WHOLE = ("session", "memory", "id")


def safe(text: str) -> str:
    """A stored text, with its lines, that is safe to print on a terminal."""
    return visible(text.replace("\t", "    "), keep_lines=True)


def say(text: str, *, err: bool = False, **style: Any) -> None:
    """Print a text that contains stored or foreign parts; ``style`` as in ``click.style``."""
    click.secho(safe(text), err=err, **style)


def paragraph_width() -> int:
    """Return the columns of a paragraph: those of the terminal, within limits; a pipe's are the most."""
    columns = shutil.get_terminal_size((MAX_PARAGRAPH_WIDTH + 1, 24)).columns
    return min(max(columns - 1, MIN_PARAGRAPH_WIDTH), MAX_PARAGRAPH_WIDTH)


def say_wrapped(text: str, *, first: str = "", rest: str = "") -> None:
    """Print a stored text as a paragraph as wide as the terminal; ``first`` and ``rest`` begin its lines."""
    words = " ".join(visible(text).split())
    click.echo(click.wrap_text(words, paragraph_width(), initial_indent=first, subsequent_indent=rest))


def one_line(text: str, limit: int = 120) -> str:
    """A stored text on one line of at most ``limit`` characters."""
    line = " ".join(visible(text).split())
    return line if len(line) <= limit else line[: limit - 1] + "…"


def print_json(value: Any) -> None:
    """Print one JSON value, indented."""
    click.echo(to_json(value, indent=2))


def to_json(value: Any, *, indent: int | None = None) -> str:
    """JSON that standard output can encode. Hidden characters, and those it can't encode, are escaped."""
    text = escape_hidden(json.dumps(value, ensure_ascii=False, indent=indent, default=str))
    try:
        text.encode(sys.stdout.encoding or "utf-8")
    except (UnicodeEncodeError, LookupError):
        return json.dumps(value, ensure_ascii=True, indent=indent, default=str)
    return text


def console() -> Console:
    """The terminal, or wide plain text if the output goes to a file or a pipe."""
    from rich.console import Console

    width = None if sys.stdout.isatty() else _FILE_WIDTH
    return Console(
        highlight=False,
        soft_wrap=False,
        emoji=False,
        markup=False,
        width=width,
        color_system=None if is_plain() else "auto",
    )


def is_plain() -> bool:
    """Return True where the user wants no colour and weight even on a terminal: NO_COLOR is set."""
    return bool(os.environ.get("NO_COLOR"))


def print_table(headings: Sequence[str], rows: Iterable[Sequence[object]], *, empty: str) -> None:
    """Print a table, or the sentence ``empty`` if there are no rows. A heading with ``#`` is a column of numbers."""
    from rich.table import Table  # takes longer to load than most commands take
    from rich.text import Text

    table = Table(box=None, pad_edge=False, header_style="bold")
    for heading in headings:
        is_number = heading.endswith("#")
        is_whole = is_number or heading in _WHOLE
        table.add_column(
            heading.rstrip("#"), justify="right" if is_number else "left", overflow="fold", no_wrap=is_whole
        )
    for row in rows:
        table.add_row(*[Text(visible(str(cell))) for cell in row])
    if table.row_count:
        console().print(table)
    else:
        click.echo(empty)


def print_facts(facts: Iterable[tuple[str, object]]) -> None:
    """Print names and values, one pair a line; empty values are left out."""
    known = [(name, visible(str(value))) for name, value in facts if value not in ("", None)]
    width = max((len(name) for name, _ in known), default=0)
    for name, value in known:
        click.echo(f"{name:<{width}}  {value}")


def has_terminal() -> bool:
    """True if a person reads what is printed and can answer."""
    return sys.stdin.isatty() and sys.stdout.isatty()


def when(at_ms: int | None) -> str:
    """A time for people: local, to the minute; "–" for none."""
    return time.strftime("%Y-%m-%d %H:%M", time.localtime(at_ms / 1000)) if at_ms else "–"


def iso(at_ms: int | None) -> str | None:
    """A time for scripts: UTC; None for none."""
    return iso_time(at_ms) if at_ms else None


def span(seconds: float | None) -> str:
    """A duration for people: 8 s, 3 min, 2 h, 5 days; "–" for none."""
    if seconds is None:
        return "–"
    for size, name in ((86_400, "days"), (3_600, "h"), (60, "min")):
        if seconds >= 2 * size:
            return f"{seconds / size:.0f} {name}"
    return f"{seconds:.0f} s"
