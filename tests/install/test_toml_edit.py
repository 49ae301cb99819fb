"""A table is added to Codex's config.toml and taken out again; what others wrote keeps its bytes."""

from __future__ import annotations

import sys
import tomllib
from pathlib import Path

import pytest

from engram.errors import BadRequest, InstallError
from engram.paths import Home
from engram.setup.agents.other_agents import plan_codex
from engram.setup.edits.install_steps import TomlEdit
from engram.setup.edits.toml_edit import AppliedToml, apply_toml, revert_toml
from engram.setup.installing.install_uninstall import install_steps, uninstall
from engram_hooks.block import APART
from tests.install.conftest import Machine

EDIT = TomlEdit(("mcp_servers", "engram"), {"command": "/opt/py thon", "args": ["-m", "x"], "env": {"A B": 'q"\\é'}})
LATER = '\n# later\n[projects."/work/b"]\ntrust_level = "trusted"\n'
PROJECTS = '\n# trusted\n[projects."/work/a"]\ntrust_level = "trusted"\n'

FORMS = {
    "empty": "",
    "no line end": 'model = "x"',
    "comments only": "# mine\n\n",
    "tables": f'model = "x"  # fast\n\n[mcp_servers.other]\ncommand = "o"\n{PROJECTS}',
    "crlf": 'model = "x"\r\n[tui]\r\ntheme = "dark"\r\n',
    "odd": "  a=1\n\n\n[ x . y ]\n z = [\n[1, 2],\n ]\ns = '''\n[mcp_servers.engram]\n'''\n\n# end",
    "parent": '[mcp_servers]\n[mcp_servers.other]\ncommand = "o"\n',
}


@pytest.mark.parametrize("form", FORMS)
def test_a_table_is_added_and_taken_out_again(form: str) -> None:
    text, applied = apply_toml(FORMS[form], EDIT)
    again, nothing = apply_toml(text, EDIT)

    assert tomllib.loads(text)["mcp_servers"]["engram"] == {
        "command": "/opt/py thon",
        "args": ["-m", "x"],
        "env": {"A B": 'q"\\é'},
    }
    assert text.startswith(FORMS[form])
    assert (again, nothing.is_added) == (text, False)
    assert revert_toml(text, AppliedToml.from_json(applied.to_json())) == FORMS[form]
    assert revert_toml(text, nothing) == text


@pytest.mark.parametrize("form", FORMS)
def test_what_codex_adds_behind_the_table_stays(form: str) -> None:
    text, applied = apply_toml(FORMS[form], EDIT)
    approved = '\n[mcp_servers.engram.tools.memory_recall]\napproval_mode = "approve"\n'

    left = revert_toml(text + approved + LATER, applied)

    assert "engram" not in tomllib.loads(left).get("mcp_servers", {})
    assert tomllib.loads(left)["projects"]["/work/b"] == {"trust_level": "trusted"}
    assert left.startswith(FORMS[form])
    assert left.endswith(LATER)


def test_a_table_of_the_user_comes_back() -> None:
    own = '[mcp_servers.engram]\ncommand = "own"\n\n[mcp_servers.engram.env]\nA = "1"\n'
    text, applied = apply_toml(f'model = "x"\n\n{own}{PROJECTS}', EDIT)

    left = revert_toml(text, AppliedToml.from_json(applied.to_json()))

    assert tomllib.loads(text)["mcp_servers"]["engram"]["command"] == "/opt/py thon"
    assert tomllib.loads(left)["mcp_servers"]["engram"] == {"command": "own", "env": {"A": "1"}}
    assert tomllib.loads(left)["projects"] == tomllib.loads(PROJECTS)["projects"]


@pytest.mark.parametrize("separator", ["\u2028", "\x85"])
def test_only_a_line_feed_ends_a_line(separator: str) -> None:
    text = (
        f'# old:{separator}[mcp_servers.engram]\n[tui]\ntheme = "a{separator}[mcp_servers.engram]"  #{separator}x = 1\n'
    )

    edited, applied = apply_toml(text, EDIT)

    assert edited.startswith(text)
    assert revert_toml(edited, applied) == text


def test_a_config_with_many_projects_is_parsed_a_few_times_over(monkeypatch: pytest.MonkeyPatch) -> None:
    """Codex adds a table for every folder that the user trusts."""
    text = "".join(f'[projects."/work/{number}"]\ntrust_level = "trusted"\n\n' for number in range(400))
    parsed = []
    parse = tomllib.loads
    monkeypatch.setattr(tomllib, "loads", lambda text: parsed.append(len(text)) or parse(text))

    edited, applied = apply_toml(text, EDIT)
    assert revert_toml(edited, applied) == text

    assert sum(parsed) < 10 * len(edited)


@pytest.mark.parametrize("text", ["a = ", "mcp_servers = { engram = { command = 'x' } }", "mcp_servers = { }"])
def test_what_cannot_be_edited_is_refused(text: str) -> None:
    with pytest.raises(BadRequest):
        apply_toml(text, EDIT)


@pytest.mark.parametrize("mark", ["", "\ufeff"], ids=["plain", "byte order mark"])
def test_codex_is_connected_and_disconnected(machine: Machine, mark: str) -> None:
    path = machine.user / ".codex" / "config.toml"
    path.write_text(mark + FORMS["tables"], encoding="utf-8")
    before = machine.snapshot()
    step = plan_codex(machine.user / ".codex", Home(Path("/memory")))

    install_steps(machine.home, [step], options={}, version="1")
    once = path.read_text(encoding="utf-8")
    assert once.startswith(mark)
    server = tomllib.loads(once.removeprefix(mark))["mcp_servers"]["engram"]
    install_steps(machine.home, [step], options={}, version="1")
    twice = path.read_text(encoding="utf-8")
    uninstall(machine.home)

    assert (server["command"], server["args"]) == (sys.executable, [*APART, "-m", "engram_mcp.server"])
    assert server["env"] == {"ENGRAM_HOME": "/memory"}
    assert once == twice
    assert machine.snapshot() == before


def test_a_broken_config_is_named_and_left_alone(machine: Machine) -> None:
    path = machine.user / ".codex" / "config.toml"
    path.write_text("model = ")
    step = plan_codex(machine.user / ".codex")

    with pytest.raises(InstallError, match=r"config\.toml can't be edited"):
        install_steps(machine.home, [step], options={}, version="1")

    assert path.read_text() == "model = "


def test_what_others_added_meanwhile_stays_after_the_uninstallation(machine: Machine) -> None:
    path = machine.user / ".codex" / "config.toml"
    path.unlink()
    install_steps(machine.home, [plan_codex(machine.user / ".codex")], options={}, version="1")
    with path.open("a") as file:
        file.write(PROJECTS)

    uninstall(machine.home)

    assert path.read_text() == PROJECTS
