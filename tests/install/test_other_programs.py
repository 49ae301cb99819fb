"""Another program's server or plugin that is called "engram" stays as it is: Engram's takes another name."""

from __future__ import annotations

import json
import shutil
import tomllib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from engram.reports.claude_checks import check_claude, is_our_server, names, server_name
from engram.settings import Settings
from engram.setup.agents.claude_code import CODEX, GEMINI, OPENCODE, Choices, ClaudeCode
from engram.setup.agents.registered import find_registrations, read_documents
from engram.setup.edits.journal import folder_of, load_journal
from engram.setup.installing.install_plan import plan_installation, preview
from engram.setup.installing.install_uninstall import install_steps, uninstall
from engram.setup.installing.stray import find_leftovers, find_stray
from engram.setup.old_engram.find import EarlierEngram
from engram_hooks.block import settings_block

THEIRS = {"type": "stdio", "command": "/opt/other/engram", "args": ["mcp"]}
DISABLED = {"command": "/opt/other/engram", "args": [], "disabled": True, "enabled": False}
REMOTE = {"type": "http", "url": "https://engram.example/mcp"}
GONE = {"type": "stdio", "command": "/gone/.venv/bin/python", "args": ["-m", "engram_mcp.server"], "env": {}}
OLD_CLAUDE, NEW_CLAUDE = ClaudeCode(None, "2.1.100"), ClaudeCode(None, "2.1.332")


@dataclass
class Desk:
    """A user's machine with all agents."""

    settings: Settings
    folder: Path

    @property
    def user_file(self) -> Path:
        return self.settings.claude_folder / ".claude.json"

    def write(self, path: Path, value: Any) -> Path:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(value, indent=2))
        return path

    def install(self, *agents: str, claude: ClaudeCode = OLD_CLAUDE) -> list[str]:
        """Install; returns the lines of the plan."""
        journal = load_journal(self.settings.places)
        choices = Choices(service=False, agents=agents)
        steps = plan_installation(self.settings, choices, claude=claude, earlier=EarlierEngram(), journal=journal)
        lines = list(preview(steps))
        install_steps(self.settings.places, steps, options=choices.to_json(), version="1")
        return lines

    def servers(self) -> dict[str, Any]:
        return dict(json.loads(self.user_file.read_text())["mcpServers"])

    def allowed(self) -> list[str]:
        return list(json.loads((self.settings.claude_folder / "settings.json").read_text())["permissions"]["allow"])


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Desk:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    work = tmp_path / "work"
    work.mkdir()
    monkeypatch.chdir(work)
    settings = Settings(
        home=tmp_path / "memory",
        claude_folder=tmp_path / "claude",
        codex_folder=tmp_path / "codex",
        gemini_folder=tmp_path / "gemini",
    )
    settings.places.prepare()
    for folder in ("claude", "codex", "gemini", "config/opencode"):
        (tmp_path / folder).mkdir(parents=True)
    return Desk(settings, work)


@pytest.mark.parametrize("theirs", [THEIRS, DISABLED, REMOTE])
def test_claude_codes_server_of_another_program_stays_and_the_plan_says_so(desk: Desk, theirs: dict[str, Any]) -> None:
    desk.write(desk.user_file, {"mcpServers": {"engram": theirs}})
    before = desk.user_file.read_bytes()

    lines = desk.install()

    assert any("another program" in line and "“engram-recall”" in line for line in lines)
    assert desk.servers()["engram"] == theirs
    assert is_our_server(desk.servers()["engram-recall"])
    assert desk.allowed() == ["mcp__engram-recall"]
    assert server_name(desk.settings) == "engram-recall"
    checks = {
        check.name: (check.state, check.detail)
        for check in check_claude(
            desk.settings, settings_block(), desk.folder, rule="mcp__engram-recall", has_plugin=False
        )
    }
    assert checks["permission"][0] == "ok"
    assert checks["MCP server"][0] == "ok"
    uninstall(desk.settings.places)
    assert desk.user_file.read_bytes() == before


def test_the_second_name_may_be_taken_too(desk: Desk) -> None:
    desk.write(desk.user_file, {"mcpServers": {"engram": THEIRS, "engram-recall": REMOTE}})

    desk.install()

    assert desk.servers() | {"engram-recall-2": 0} == {"engram": THEIRS, "engram-recall": REMOTE, "engram-recall-2": 0}
    assert is_our_server(desk.servers()["engram-recall-2"])
    assert desk.allowed() == ["mcp__engram-recall-2"]


def test_an_entry_of_an_older_engram_whose_program_is_gone_is_replaced(desk: Desk) -> None:
    desk.write(desk.user_file, {"mcpServers": {"engram": GONE}})

    lines = desk.install()

    assert list(desk.servers()) == ["engram"]
    assert desk.servers()["engram"]["command"] != GONE["command"]
    assert not any("another program" in line for line in lines)


@pytest.mark.parametrize("place", ["local", "shared", "here"])
def test_a_server_of_a_project_would_hide_ours(desk: Desk, place: str) -> None:
    project = desk.folder if place == "here" else desk.folder.parent / "shop"
    project.mkdir(exist_ok=True)
    listed = {"mcpServers": {"engram": THEIRS}} if place == "local" else {}
    desk.write(desk.user_file, {"projects": {str(project): listed}} if place != "here" else {})
    if place != "local":
        desk.write(project / ".mcp.json", {"mcpServers": {"engram": THEIRS}})

    lines = desk.install()

    assert list(desk.servers()) == ["engram-recall"]
    assert any(str(project) in line and "another program" in line for line in lines)


def test_doctor_names_a_project_whose_server_hides_ours(desk: Desk) -> None:
    desk.install()
    desk.write(desk.folder / ".mcp.json", {"mcpServers": {"engram": THEIRS}})

    found = list(check_claude(desk.settings, settings_block(), desk.folder, rule="mcp__engram", has_plugin=False))

    assert any(check.name == "MCP server" and ".mcp.json" in check.detail for check in found)


def test_an_upgrade_keeps_its_name_and_gives_way_to_who_came_later(desk: Desk) -> None:
    desk.install()
    assert list(desk.servers()) == ["engram"]
    desk.write(desk.user_file, {"mcpServers": {"engram": THEIRS}})

    desk.install()
    assert (desk.servers()["engram"], list(desk.servers())) == (THEIRS, ["engram", "engram-recall"])
    assert desk.allowed() == ["mcp__engram-recall"]
    desk.install()
    assert list(desk.servers()) == ["engram", "engram-recall"]

    uninstall(desk.settings.places)
    assert json.loads(desk.user_file.read_text()) == {"mcpServers": {"engram": THEIRS}}


CODEX_THEIRS = '[mcp_servers.engram]\ncommand = "/opt/other/engram"\nargs = ["mcp"]\n'


@pytest.mark.parametrize("extra", ["", "enabled = false\n", '\n[mcp_servers.engram.env]\nKEY = "x"\n'])
def test_codex_keeps_the_table_of_another_program(desk: Desk, extra: str) -> None:
    path = desk.settings.codex_folder / "config.toml"
    path.write_text(CODEX_THEIRS + extra)

    lines = desk.install(CODEX)
    again = desk.install(CODEX)

    servers = tomllib.loads(path.read_text())["mcp_servers"]
    assert servers["engram"]["command"] == "/opt/other/engram"
    assert is_our_server(servers["engram-recall"])
    assert len(servers) == 2
    assert all(any("/opt/other/engram" in line for line in shown) for shown in (lines, again))
    uninstall(desk.settings.places)
    assert path.read_text() == CODEX_THEIRS + extra


def test_codex_table_that_another_program_wrote_later_survives_upgrade_and_uninstall(desk: Desk) -> None:
    path = desk.settings.codex_folder / "config.toml"
    desk.install(CODEX)
    path.write_text(CODEX_THEIRS)

    desk.install(CODEX)
    assert sorted(tomllib.loads(path.read_text())["mcp_servers"]) == ["engram", "engram-recall"]
    uninstall(desk.settings.places)

    assert tomllib.loads(path.read_text()) == tomllib.loads(CODEX_THEIRS)


def test_uninstall_without_an_upgrade_leaves_what_another_program_wrote_in_our_place(desk: Desk) -> None:
    path = desk.settings.codex_folder / "config.toml"
    desk.install(CODEX)
    path.write_text(CODEX_THEIRS)
    desk.write(desk.user_file, {"mcpServers": {"engram": THEIRS}})

    uninstall(desk.settings.places)

    assert path.read_text() == CODEX_THEIRS
    assert desk.servers() == {"engram": THEIRS}


@pytest.mark.parametrize(("agent", "key"), [(GEMINI, "mcpServers"), (OPENCODE, "mcp")])
def test_gemini_and_opencode_keep_the_entry_of_another_program(desk: Desk, agent: str, key: str) -> None:
    folder = desk.settings.gemini_folder if agent == GEMINI else desk.folder.parent / "config" / "opencode"
    theirs = THEIRS if agent == GEMINI else {"type": "local", "command": ["/opt/other/engram", "mcp"]}
    name = "settings.json" if agent == GEMINI else "opencode.json"
    path = desk.write(folder / name, {key: {"engram": theirs}})
    before = path.read_bytes()

    lines = desk.install(agent)

    servers = json.loads(path.read_text())[key]
    assert servers["engram"] == theirs
    assert is_our_server(servers["engram-recall"])
    assert any("/opt/other/engram" in line and str(path) in line for line in lines)
    uninstall(desk.settings.places)
    assert path.read_bytes() == before


def _skill(desk: Desk) -> None:
    path = desk.settings.claude_folder / "skills" / "engram" / "SKILL.md"
    path.parent.mkdir(parents=True)
    path.write_text("theirs")


def _plugin_folder(desk: Desk) -> None:
    path = desk.settings.claude_folder / "skills" / "engram" / ".claude-plugin" / "plugin.json"
    desk.write(path, {"name": "engram", "author": {"name": "Somebody"}})


def _marketplace(desk: Desk) -> None:
    installed = desk.folder.parent / "cache" / "engram"
    desk.write(installed / ".claude-plugin" / "plugin.json", {"name": "engram", "author": {"name": "Somebody"}})
    place = {"installPath": str(installed), "version": "3"}
    desk.write(
        desk.settings.claude_folder / "plugins" / "installed_plugins.json", {"plugins": {"engram@theirs": [place]}}
    )
    desk.write(desk.settings.claude_folder / "settings.json", {"enabledPlugins": {"engram@theirs": True}})


@pytest.mark.parametrize("make", [_skill, _plugin_folder, _marketplace])
def test_a_plugin_or_skill_of_another_program_stays_and_ours_has_another_name(
    desk: Desk, make: Callable[[Desk], None]
) -> None:
    make(desk)
    before = {path: path.read_bytes() for path in desk.settings.claude_folder.rglob("*") if path.is_file()}

    lines = desk.install(claude=NEW_CLAUDE)

    assert any("another program" in line and "“engram-recall”" in line for line in lines)
    assert desk.allowed() == ["mcp__plugin_engram-recall_engram"]
    (found,) = find_registrations(read_documents(desk.settings.claude_folder))
    assert (found.plugin_id, found.path.name) == ("engram-recall@skills-dir", "engram-recall")
    again = desk.install(claude=NEW_CLAUDE)
    assert not any("move" in line or "replace" in line for line in again)
    uninstall(desk.settings.places)
    assert {path: path.read_bytes() for path in desk.settings.claude_folder.rglob("*") if path.is_file()} == before


def test_without_a_journal_uninstall_finds_ours_by_its_own_name_alone(desk: Desk) -> None:
    desk.write(desk.user_file, {"mcpServers": {"engram": THEIRS}})
    desk.write(desk.settings.claude_folder / "settings.json", {"permissions": {"allow": ["mcp__engram"]}})
    (desk.settings.codex_folder / "config.toml").write_text(CODEX_THEIRS)
    desk.install(CODEX)
    shutil.rmtree(folder_of(desk.settings.places))
    assert load_journal(desk.settings.places) is None

    uninstall(desk.settings.places, stray=find_stray(desk.settings, []))

    assert desk.servers() == {"engram": THEIRS}
    assert desk.allowed() == ["mcp__engram"]
    assert tomllib.loads((desk.settings.codex_folder / "config.toml").read_text()) == tomllib.loads(CODEX_THEIRS)


@pytest.mark.parametrize("is_read_only", [False, True])
def test_a_rule_that_the_user_wrote_stays(desk: Desk, is_read_only: bool) -> None:
    rules = desk.write(
        desk.settings.claude_folder / "settings.json", {"permissions": {"allow": ["mcp__plugin_engram_engram"]}}
    )
    assert find_leftovers(desk.settings).files == {}
    assert find_stray(desk.settings, []) is None
    desk.install(claude=NEW_CLAUDE)
    if is_read_only:
        shutil.rmtree(folder_of(desk.settings.places))
        rules.chmod(0o400)
    before = rules.read_bytes()

    uninstall(desk.settings.places, stray=find_stray(desk.settings, []))

    assert rules.read_bytes() == before
    assert not (desk.settings.claude_folder / "skills" / "engram").exists()


@pytest.mark.parametrize(
    ("server", "is_ours"),
    [
        (GONE, True),
        ({"command": ["/x/python", "-m", "engram_mcp.server"]}, True),
        ({"command": "sh", "args": ["-c", "cd /x && python -m engram_mcp.server"]}, True),
        (THEIRS, False),
        (REMOTE, False),
        ({"command": "/opt/engram_mcp/bin/serve", "args": []}, False),
        ({"command": "node", "args": ["my-engram_mcp.js"]}, False),
        ({"command": "x", "env": {"NOTE": "not -m engram_mcp.server"}}, False),
        ("engram_mcp.server", False),
        (None, False),
    ],
)
def test_which_entries_are_ours(server: object, is_ours: bool) -> None:
    assert is_our_server(server) is is_ours


def test_there_is_always_a_name() -> None:
    found = names()

    assert [next(found) for _ in range(4)] == ["engram", "engram-recall", "engram-recall-2", "engram-recall-3"]


@pytest.mark.parametrize(
    "command",
    [
        "python3 /opt/engram_hooks_other/prompt.py",
        "/opt/my-engram_hooks/prompt.sh",
        "node /opt/x.engram_hooks.js",
        "/opt/other/engram hook prompt",
    ],
)
@pytest.mark.parametrize("is_beside_ours", [False, True])
def test_a_hook_of_another_program_with_a_like_name_stays(desk: Desk, command: str, is_beside_ours: bool) -> None:
    theirs = {"type": "command", "command": command}
    path = desk.settings.claude_folder / "settings.json"
    before = {"hooks": {"UserPromptSubmit": [{"matcher": "", "hooks": [theirs]}]}}
    desk.write(path, before)

    desk.install()
    if is_beside_ours:
        written = json.loads(path.read_text())
        groups = written["hooks"]["UserPromptSubmit"]
        groups[:] = [{"matcher": "", "hooks": [hook for group in groups for hook in group["hooks"]]}]
        desk.write(path, written)
        desk.install()

    commands = [
        hook["command"]
        for group in json.loads(path.read_text())["hooks"]["UserPromptSubmit"]
        for hook in group["hooks"]
    ]
    assert commands.count(command) == 1
    assert len(commands) == 2
    uninstall(desk.settings.places)
    assert json.loads(path.read_text()) == before
