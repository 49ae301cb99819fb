"""Print JSON for scripts and tables for people, without control characters from stored text on the terminal."""

from __future__ import annotations

import json
import os
import shutil
import stat
import sys
import time
import unicodedata
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

import click

from engram.errors import BadRequest, NotFound
from engram.paths import absolute_path
from engram.system.atomic import write_target
from engram.system.clock import parse_time_ms
from engram.system.lazy_regex import lazy_regex
from engram.trust.display import cut_at_word, escape_hidden, visible

if TYPE_CHECKING:
    from rich.console import Console

#: Width of a table that is written to a file or a pipe, in characters.
_FILE_WIDTH = 200
#: Minimum and maximum width of a paragraph, in characters.
MIN_PARAGRAPH_WIDTH, MAX_PARAGRAPH_WIDTH = 40, 100
#: Minimum width of a table's last column for it to be wrapped, in characters.
MIN_LAST_WIDTH = 24
#: How much wider than most of its cells a column may be, in characters.
_SLACK_WIDTH = 12
#: Minimum number of rows in a table for one of its cells to count as much wider than most in its column.
_MIN_ROWS_OF_MOST = 4
#: Wide characters, between which a line may be broken: Chinese, Japanese and Korean ones, and emoji.
_WIDE = "\u1100-\u11ff\u2e80-\ud7fb\uf900-\ufaff\ufe30-\ufe4f\uff01-\uff60\U0001f300-\U0003ffff"
#: A command that resumes a session in the folder where it began. People copy it, so it is never broken, however long.
_RESUME = r"(?:cd (?:'[^']*'|[^\s'])+ && )?(?:[A-Z_]+=\S+ )?(?:claude --resume|codex resume|gemini --resume) \S+"
#: A command of this program: in backticks, or after a colon up to the end of the line.
_OWN = r"`(?:\S*/)?engram [^`]{1,80}`\S*|(?<=: )(?:\S*/)?engram [a-z].{0,80}$"
#: A piece that is never broken: such a command, a word, or a wide character, with the spaces before it.
_PIECE = lazy_regex(rf"\s*(?:({_RESUME}|{_OWN})|[{_WIDE}]|[^\s{_WIDE}]+|$)")
#: The gap between two columns of a table.
_GAP = "  "


def safe(text: str) -> str:
    """Return stored text, with its line breaks, in a form that is safe to print on a terminal."""
    return visible(text.replace("\t", "    "), keep_lines=True)


def say(text: str, *, err: bool = False, **style: Any) -> None:
    """Print text that contains stored or foreign parts, without breaking a word at the edge of the terminal.

    Args:
        style: as in ``click.style``.
    """
    click.secho(fitted(safe(text), sys.stderr if err else sys.stdout), err=err, **style)


def fitted(text: str, stream: TextIO | None) -> str:
    """Return the text with lines no wider than the terminal; unchanged for a file or a pipe.

    A line that is a command is not broken, so that it can be copied.
    """
    if stream is None or not stream.isatty():
        return text
    columns = max(shutil.get_terminal_size().columns, MIN_PARAGRAPH_WIDTH)
    lines = []
    for line in text.split("\n"):
        is_command = line.lstrip().startswith("engram ")
        lines += [line] if is_command else wrapped(line, columns, rest=line[: len(line) - len(line.lstrip())])
    return "\n".join(lines)


def wrapped(text: str, columns: int, *, rest: str = "", cuts_words: bool = False) -> list[str]:
    """Return one line as lines of at most ``columns`` terminal columns, broken between words.

    Args:
        rest: the prefix of all lines but the first.
        cuts_words: cut a word that is longer than a line, as a table needs. Otherwise it is not broken, because it may
        be a path to be copied.
    """
    if columns_of(text) <= columns:
        return [text]
    lines, line = [], ""
    for found in _PIECE.finditer(text):
        piece = found[0]
        if line.strip() and columns_of(line + piece) > columns:
            lines.append(line.rstrip())
            line, piece = rest, piece.lstrip()
        line += piece
        while cuts_words and not found[1] and columns_of(line) > columns:
            end = next(end for end in range(len(line), 0, -1) if columns_of(line[:end]) <= columns or end == 1)
            lines.append(line[:end])
            line = rest + line[end:]
    return [*lines, line.rstrip()] if line.strip() or not lines else lines


def paragraph_width() -> int:
    """Return the width of a paragraph, in columns: the terminal's, within limits, or the maximum for a pipe."""
    columns = shutil.get_terminal_size((MAX_PARAGRAPH_WIDTH + 1, 24)).columns
    return min(max(columns - 1, MIN_PARAGRAPH_WIDTH), MAX_PARAGRAPH_WIDTH)


def say_wrapped(text: str, *, first: str = "", rest: str = "") -> None:
    """Print a stored text as a paragraph as wide as the terminal; ``first`` and ``rest`` begin its lines."""
    words = " ".join(visible(text).split())
    for line in wrapped(first + words, paragraph_width(), rest=rest):
        click.echo(line)


def one_line(text: str, limit: int = 120) -> str:
    """Return a stored text on one line of at most ``limit`` characters; of a decision, the question is cut first."""
    line = " ".join(visible(text).split())
    if len(line) > limit:
        # Imported here, because the titles load slowly, and most lines are short.
        from engram.text.titles import with_short_question

        line = with_short_question(line, limit)
    return cut_at_word(line, limit)


def print_json(value: Any) -> None:
    click.echo(to_json(value, indent=2))


def to_json(value: Any, *, indent: int | None = None) -> str:
    """Return JSON that standard output can encode. Hidden characters, and those it can't encode, are escaped."""
    text = escape_hidden(json.dumps(value, ensure_ascii=False, indent=indent, default=str))
    try:
        text.encode((sys.stdout and sys.stdout.encoding) or "utf-8")  # None if it was closed when the command began
    except (UnicodeEncodeError, LookupError):
        return json.dumps(value, ensure_ascii=True, indent=indent, default=str)
    return text


def console() -> Console:
    """Return a console for the terminal, or one for wide plain text if the output is a file or a pipe."""
    from rich.console import Console

    width = None if is_terminal() else _FILE_WIDTH
    return Console(
        highlight=False,
        soft_wrap=False,
        emoji=False,
        markup=False,
        width=width,
        color_system=None if is_plain() else "auto",
    )


def is_plain() -> bool:
    """Return True if the user wants neither colour nor bold text even on a terminal: NO_COLOR is set."""
    return bool(os.environ.get("NO_COLOR"))


def print_table(headings: Sequence[str], rows: Iterable[Sequence[object]], *, empty: str) -> None:
    """Print a table, or the sentence ``empty`` if there are no rows. A heading with ``#`` is a column of numbers.

    A cell that is much wider than others in its column shifts the rest of its own row, but no other row. On a terminal,
    the last column is wrapped; if the terminal is too narrow for the other columns, each row becomes several lines,
    each with a heading and its value.
    """
    table = [[visible(str(cell)) for cell in row] for row in rows]
    if not table:
        click.echo(empty)
        return
    names = [heading.rstrip("#") for heading in headings]
    is_number = [heading.endswith("#") for heading in headings]
    widths = [
        max(map(columns_of, column)) if right or len(table) < _MIN_ROWS_OF_MOST else _width_of(column)
        for column, right in zip(zip(names, *table, strict=True), is_number, strict=True)
    ]
    if is_terminal() and _table_width(widths, table, is_number[-1]) >= shutil.get_terminal_size().columns:
        _print_stacked(names, table)
        return
    for number, row in enumerate([names, *table]):
        cells = [_padded(cell, width, right) for cell, width, right in zip(row, widths, is_number, strict=True)]
        lead = _GAP.join(cells[:-1]) + (_GAP if len(cells) > 1 else "")
        last = cells[-1] if is_number[-1] else row[-1]
        for line in _last_lines(last, lead):
            click.echo(line.rstrip() if number else click.style(line.rstrip(), bold=True))


def _table_width(widths: Sequence[int], table: Sequence[Sequence[str]], is_number_last: bool) -> int:
    """Return how many columns the widest row of a table needs if its last cell is wrapped. Numbers are not wrapped."""
    leads = [
        sum(max(width, columns_of(cell)) + len(_GAP) for width, cell in zip(widths[:-1], row[:-1], strict=True))
        for row in table
    ]
    return max(leads) + (
        widths[-1] if is_number_last else min(max(columns_of(row[-1]) for row in table), MIN_LAST_WIDTH)
    )


def _print_stacked(names: Sequence[str], table: Iterable[Sequence[str]]) -> None:
    """Print each row as its first cell in bold and, below it, every other heading with its value, wrapped."""
    for first, *rest in table:
        say_lines(first, bold=True)
        for name, cell in zip(names[1:], rest, strict=True):
            if cell:
                say_lines(f"{name}: {cell}" if name else cell, indent=_GAP)


def say_lines(text: str, *, indent: str = "", **style: Any) -> None:
    """Print a stored text as one line; on a terminal, as lines that fit. ``style`` is as in ``click.style``."""
    for line in fitting_lines(text, len(indent)):
        click.secho(indent + line, **style)


def fitting_lines(text: str, indent: int = 0) -> list[str]:
    """Return stored text as one line; on a terminal, as lines that fit next to an indent of ``indent`` columns."""
    line = " ".join(visible(text).split())
    columns = shutil.get_terminal_size().columns - 1 - indent
    if not is_terminal() or columns_of(line) <= columns:
        return [line if is_terminal() else visible(text)]
    return wrapped(line, max(columns, 1), cuts_words=True)


def _last_lines(text: str, lead: str) -> list[str]:
    """Return the lines of a row. On a terminal, the last cell is wrapped, and stays in its column if there is room."""
    if not is_terminal():
        return [lead + text]
    columns = shutil.get_terminal_size().columns - 1 - columns_of(lead)
    if columns_of(text) <= columns:
        return [lead + text]
    if columns < MIN_LAST_WIDTH:
        columns = max(columns + columns_of(lead) - len(_GAP), 1)
        return [lead.rstrip(), *(_GAP + line for line in wrapped(text, columns, cuts_words=True))]
    first, *more = wrapped(text, columns, cuts_words=True)
    return [lead + first, *(" " * columns_of(lead) + line for line in more)]


def print_facts(facts: Iterable[tuple[str, object]]) -> None:
    """Print names and values, one pair per line, wrapped on a terminal; empty values are left out."""
    known = [(name, visible(str(value))) for name, value in facts if value not in ("", None)]
    width = _width_of([name for name, _ in known]) if known else 0
    for name, value in known:
        lead = f"{_padded(name, width, False)}{_GAP}"
        for line in _last_lines(value, lead):
            click.echo(line)


def columns_of(text: str) -> int:
    """Return how many columns the text needs on a terminal: two for a wide character, none for a combining one."""
    wide = sum(unicodedata.east_asian_width(letter) in "WF" for letter in text)
    return len(text) + wide - sum(unicodedata.combining(letter) > 0 for letter in text)


def _width_of(column: Sequence[str]) -> int:
    """Return the width of a column: as wide as its widest cell, but at most a little wider than most cells need."""
    widths = sorted(map(columns_of, column))
    return min(widths[-1], widths[(len(widths) - 1) * 4 // 5] + _SLACK_WIDTH)


def _padded(cell: str, width: int, right: bool) -> str:
    space = " " * (width - columns_of(cell))
    return space + cell if right else cell + space


def is_terminal() -> bool:
    """Return True if standard output is a terminal, and False if it isn't or is closed."""
    return sys.stdout is not None and sys.stdout.isatty()


def check_writable(path: Path) -> None:
    """Raise an error if a file can't be written at this path, before the user is asked.

    Raises:
        BadRequest: it is a folder.
        NotFound: its folder does not exist.
    """
    folder = absolute_path(path).parent
    if path.is_dir():
        raise BadRequest(f"{path} is a folder; name a file in it, such as {path / 'NAME'}")
    if not folder.is_dir():
        raise NotFound(f"there is no folder {folder} to write {path.name} to")


def write_file(path: Path, data: bytes) -> None:
    """Write a file that the user named, completely or not at all.

    A device or a pipe, such as /dev/stdout, is written to and not replaced. A link's target is written.

    Raises:
        BadRequest: a device or a pipe can't be written.
        OSError: a file can't be written.
    """
    target = absolute_path(path)
    if target.exists() and not target.is_file() and not target.is_dir():
        try:
            with target.open("wb") as file:
                file.write(data)
        except BrokenPipeError:
            raise  # whoever read it has enough
        except OSError as error:
            raise BadRequest(f"{path} can't be written: {error.strerror or error}") from error
    else:
        write_target(target, data)


def is_open_to_others(stream: TextIO | None) -> bool:
    """Return True if a stream is a file that other users of this machine may read."""
    if stream is None:
        return False
    try:
        facts = os.fstat(stream.fileno())
    except (OSError, ValueError):
        return False
    return stat.S_ISREG(facts.st_mode) and bool(stat.S_IMODE(facts.st_mode) & 0o044)


def has_terminal() -> bool:
    """Return True if a person reads what is printed and can answer."""
    return sys.stdin is not None and sys.stdin.isatty() and is_terminal()


def when(at_ms: int | None) -> str:
    """Return a time for display: local, to the minute; "–" for none."""
    return time.strftime("%Y-%m-%d %H:%M", time.localtime(at_ms / 1000)) if at_ms else "–"


def local(time_text: str | None) -> str:
    """Return a time from a JSON report, for display: local, to the minute; "–" for none."""
    return when(parse_time_ms(time_text))
