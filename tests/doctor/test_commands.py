"""Every command that a finding or its advice names exists in this program."""

from __future__ import annotations

import ast
import functools
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from engram.cli.main import engram
from engram.setup.doctor.doctor_report import FIXES

REPO = Path(__file__).resolve().parents[2]
#: Modules whose texts tell the user what to type.
SOURCES = sorted(
    [
        *(REPO / "engram" / "setup" / "doctor").glob("*.py"),
        *(REPO / "engram" / "reports").glob("*checks.py"),
        REPO / "engram" / "reports" / "health.py",
        REPO / "engram" / "setup" / "agents" / "plugin.py",
        REPO / "engram" / "setup" / "edits" / "journal.py",
        *(REPO / "engram" / "setup" / "services").glob("*.py"),
    ]
)
_COMMAND = re.compile(r"(?:^|[`:(] ?)engram((?: --?[a-z-]+| [a-z]+)+)")


def texts() -> Iterator[str]:
    """Every text constant of those modules but docstrings."""
    for path in SOURCES:
        tree = ast.parse(path.read_text(encoding="utf-8"))
        docstrings = {
            id(node.body[0].value)
            for node in ast.walk(tree)
            if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef)
            and node.body
            and isinstance(node.body[0], ast.Expr)
        }
        for node in ast.walk(tree):
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docstrings:
                yield node.value


@functools.cache
def commands() -> list[str]:
    """Every command of ``engram`` in those texts, with the words that may be subcommands, and its options."""
    return sorted({found.strip() for text in texts() for found in _COMMAND.findall(text)})


def test_there_are_commands_to_look_at() -> None:
    assert {"install", "service start", "service restart", "setup hooks", "tasks retry --dead"} <= set(commands())


def test_a_command_that_the_doctor_names_can_be_typed(subtests: pytest.Subtests) -> None:
    for command in commands():
        with subtests.test(command=command):
            try_typing(command)


def try_typing(command: str) -> None:
    """Ask for the help of a command, by the longest of its words that is one, and look for its options there."""
    words = command.split()
    names = [word for word in words if not word.startswith("-")]
    options = [word for word in words if word.startswith("-")]
    for length in range(len(names), -1, -1):
        result = CliRunner().invoke(engram, [*names[:length], "--help"])
        if result.exit_code == 0:
            break
    assert result.exit_code == 0, result.output
    help_text = result.output
    assert not names or f"engram {names[0]}" in help_text
    assert [option for option in options if option not in help_text] == []


def test_every_fix_that_a_finding_names_exists_and_each_is_named() -> None:
    named = {
        found
        for path in SOURCES
        for found in re.findall(r'\bfix(?:=|": )"([a-z-]+)"', path.read_text(encoding="utf-8"))
    }

    assert named == set(FIXES)
