"""The reference pages are those of this program: every command, setting, task and tool is documented."""

from __future__ import annotations

import dataclasses
import inspect
from pathlib import Path

import click
import pytest
from click.testing import CliRunner
from make_reference import main, pages, subcommands

from engram.cli.main import COMMANDS, engram
from engram.settings import Settings

REPO = Path(__file__).resolve().parents[2]
REFERENCE = REPO / "docs" / "reference"


@pytest.mark.parametrize("name", ["commands.md", "settings.md", "tasks.md", "tools.md"])
def test_a_reference_page_is_current(name: str) -> None:
    assert (REFERENCE / name).read_text(encoding="utf-8") == pages()[name], "run `make docs`"


def test_every_setting_says_what_it_means() -> None:
    text = (REFERENCE / "settings.md").read_text(encoding="utf-8")

    for setting in dataclasses.fields(Settings):
        (row,) = [line for line in text.splitlines() if line.startswith(f"| `{setting.name}` |")]
        assert len(row.rstrip(" |").rsplit("|", 1)[1]) > 10


@pytest.mark.parametrize("name", [name for name, _ in subcommands(engram)])
def test_every_command_has_an_example_and_every_option_a_help_with_its_default(name: str) -> None:
    command = dict(subcommands(engram))[name]

    assert f"Example: engram {name.split()[0]}" in inspect.cleandoc(command.help or "")
    for param in command.params:
        if isinstance(param, click.Option) and not param.hidden and param.name != "help":
            text = param.help or ""
            assert param.show_default or param.required or "default" in text, f"{name} --{param.name}: say the default"


GROUPS = {name: command for name, command in subcommands(engram) if isinstance(command, click.Group)}


@pytest.mark.parametrize("name", GROUPS)
def test_the_help_of_a_group_has_a_whole_line_for_each_command_on_a_terminal_of_80_columns(name: str) -> None:
    said = CliRunner().invoke(engram, [*name.split(), "--help"], terminal_width=80).output
    rows = said.partition("Commands:\n")[2].splitlines()

    assert len(GROUPS[name].commands) == len(rows) > 0
    assert [row for row in rows if row.endswith("...")] == []


@pytest.mark.parametrize("name", [name for name, command in subcommands(engram)])
def test_every_command_but_those_that_only_act_prints_json(name: str) -> None:
    command = dict(subcommands(engram))[name]
    only_act = {"completion", "export", "hub serve", "hub work", "service run"}

    assert name in only_act or isinstance(command, click.Group) or "as_json" in {param.name for param in command.params}


def test_every_registered_command_is_there() -> None:
    assert set(COMMANDS) >= {name for name, _ in subcommands(engram) if " " not in name}


def test_the_pages_are_written_into_a_folder(tmp_path: Path) -> None:
    assert main([str(tmp_path / "made")]) == 0
    assert {path.name for path in (tmp_path / "made").iterdir()} == set(pages())
