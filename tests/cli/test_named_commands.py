"""Every command that a message, a help text or a page names exists, with its options, and works as it is printed."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from engram.cli.main import engram
from engram.cli.options import DefaultGroup
from tests.cli.conftest import Run

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
        yield from enumerate(source.replace("{{ engram }}", "engram").splitlines(), 1)
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


#: What completes a message, or prints one that is complete. Errors are completed where they are printed.
_COMPLETING = frozenset(
    "advise as_called_here end_with_nothing tell confirm agrees require_agreement if_stopped print_titles".split()
)
#: What prints a text as it is.
_PRINTING = frozenset("click.echo click.secho say say_wrapped say_lines print_lines".split())
#: Commands that are typed on another machine, whose memory is in another place.
_ELSEWHERE = ("On each other machine",)


def plainly_printed(path: Path) -> Iterator[str]:
    """Yield the literal messages of a module that name a command and are printed as they are."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    above = {part: whole for whole in ast.walk(tree) for part in ast.iter_child_nodes(whole)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and _BARE.search(node.value):
            callers, whole = set(), above.get(node)
            while whole is not None and not isinstance(whole, ast.FunctionDef):
                callers |= {ast.unparse(whole.func)} if isinstance(whole, ast.Call) else set()
                whole = above.get(whole)
            if callers & _PRINTING and not callers & _COMPLETING and not node.value.startswith(_ELSEWHERE):
                yield f"{path.name}:{node.lineno}: {node.value}"


def test_every_message_with_a_command_is_completed_for_the_memory_that_it_is_about() -> None:
    assert [text for path in sorted((ROOT / "engram" / "cli").glob("*.py")) for text in plainly_printed(path)] == []


@pytest.mark.parametrize(
    ("flags", "words", "hint"),
    [
        (("--home", "a b"), ("save", "--global", "The mast is cedar."), ""),
        (("--home", "a b"), ("sessions",), "`engram --home 'a b' up --once`"),
        (("--home", "a b", "--claude-folder", "c"), ("sessions",), "`engram --home 'a b' --claude-folder c up --once`"),
        (("--home", "a b", "--claude-folder", "c"), ("timeline", "2001-01-01"), "`engram --home 'a b' timeline`"),
        (("--home", "a b"), ("status",), "Run: engram --home 'a b' install"),
        (("--home", "a b"), ("why", "x"), "`engram --home 'a b' sessions` lists them"),
        (("--home", "d"), ("status",), "engram --home d up --once"),
        (("--home", "a\x07'b"), ("sessions",), "engram --home $'a\\x07\\'b' up --once"),
        ((), ("sessions",), "`engram up --once`"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_a_command_that_a_message_names_works_as_printed(
    run: Run, folder: Path, flags: tuple[str, ...], words: tuple[str, ...], hint: str
) -> None:
    run("--home", "a b", "save", "--global", "Ropes are made of hemp.")

    result = CliRunner().invoke(engram, [*flags, *words])

    assert hint in " ".join(result.output.split())
    assert not flags or not re.search(r"engram [a-z]", result.output.replace("engram folder", ""))


def test_what_was_typed_or_stored_is_printed_as_it_was(run: Run, folder: Path) -> None:
    run("--home", "other", "save", "Type `engram doctor` first.")

    assert "Type `engram doctor` first." in run("--home", "other", "timeline").stdout


def test_the_samples_name_their_own_memory(run: Run, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CLAUDE_CONFIG_DIR", str(folder / "none"))

    done = run("up", "--once", "--samples-in", "try")

    assert 'To ask it: engram --home try recall "how do we round VAT"' in done.stderr
    assert 'Try it: engram --home try recall "…"' in done.stdout
