"""Every command that a message, a help text or a page names exists, with its options."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from engram.cli.main import engram
from engram.cli.options import DefaultGroup

ROOT = Path(__file__).resolve().parents[2]
FOLDERS = ("engram", "hooks", "mcp_server")
#: What stands for a value in a message.
VALUE = "{}"
#: A command line in a text: quoted, or from a word that begins one to the end of its words.
_QUOTED = re.compile(r"`(engram [^`]+)`|'(engram [^']+)'|<code>(engram [^<]+)</code>")
_BARE = re.compile(r"(?<![/\w])(engram [a-z][\w-]*)")
_WORD = re.compile(r"[a-z][a-z-]*")


def fault(line: str) -> str:
    """Return what of a command line does not exist; "" if all of it does."""
    words = line.replace("…", VALUE).split()[1:]
    command: click.Command = engram
    options = {name for option in engram.params for name in option.opts}
    while words:
        word = words.pop(0).rstrip(".,;:")
        if word == VALUE and isinstance(command, click.Group):
            return ""
        if word.startswith("-"):
            name = word.partition("=")[0]
            meant = [command, *([command.commands[command.default]] if isinstance(command, DefaultGroup) else [])]
            params = [option for one in meant for option in one.params]
            known = options | {name for option in params for name in (*option.opts, *option.secondary_opts)}
            if name not in (*known, "-", "-h", "--help"):
                return name
            if command is engram and words:
                words.pop(0)
        elif isinstance(command, click.Group) and _WORD.fullmatch(word):
            found = command.get_command(click.Context(command), word)
            if found is None:
                return "" if command.invoke_without_command and command is not engram else word
            command = found
    return ""


def texts_of(path: Path) -> Iterator[tuple[int, str]]:
    """Yield the texts of a source file with their lines; what is filled in is ``VALUE``."""
    source = path.read_text(encoding="utf-8")
    if path.suffix != ".py":
        yield from enumerate(source.splitlines(), 1)
        return
    if "engram " not in source:
        return
    parts: set[int] = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.JoinedStr):
            parts |= {id(part) for part in node.values}
            said = [part.value if isinstance(part, ast.Constant) else VALUE for part in node.values]
            yield node.lineno, "".join(map(str, said))
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in parts:
            yield node.lineno, node.value


def files() -> list[Path]:
    found = (path for folder in FOLDERS for path in (ROOT / folder).rglob("*"))
    return sorted(path for path in found if path.suffix in (".py", ".sh", ".html", ".md", ".toml"))


def test_every_command_that_a_text_names_exists() -> None:
    seen, wrong = 0, []
    for path in files():
        for number, text in texts_of(path):
            lines = ["".join(found) for found in _QUOTED.findall(text)]
            lines += [] if lines else _BARE.findall(text)
            seen += len(lines)
            wrong += [f"{path.relative_to(ROOT)}:{number}: {line}: {fault(line)}" for line in lines if fault(line)]

    assert seen > 200
    assert wrong == []


@pytest.mark.parametrize(
    ("line", "missing"),
    [
        ("engram trust ep_1", "trust"),
        ("engram review trust ep_1", ""),
        ("engram recall --explain", ""),
        ("engram recall --explane", "--explane"),
        ("engram --vault {} ui", ""),
        ("engram --volt {} ui", "--volt"),
        ("engram service stup", "stup"),
        ("engram config unset {}", ""),
    ],
)
def test_a_command_that_does_not_exist_is_found(line: str, missing: str) -> None:
    assert fault(line) == missing
