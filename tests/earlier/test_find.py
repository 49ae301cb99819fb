"""The earlier Engram is found by what its files say and what listens, and nothing else is taken for it."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from engram.paths import Home
from engram.settings import Settings
from engram.setup.edits.install_steps import JsonEdit
from engram.setup.edits.json_document import parse
from engram.setup.old_engram.find import EarlierEngram, find_earlier
from engram.setup.old_engram.old_processes import RunningProcess, find_listener
from engram.setup.old_engram.retire import EndProcess, plan_retirement
from engram.setup.old_engram.signs import is_earlier_command, is_earlier_process
from tests.earlier_machine import LABEL, EarlierMachine, make_database, make_machine, memory_row


@pytest.fixture
def machine(tmp_path: Path, settings: Settings) -> EarlierMachine:
    rows = [memory_row(number) for number in range(4)]
    return make_machine(tmp_path / "user", settings.home, settings.claude_folder, rows)


def look(machine: EarlierMachine, settings: Settings, worker_pid: int = 0) -> EarlierEngram:
    return find_earlier(settings, user_home=machine.user_home, worker_pid=worker_pid)


def test_everything_of_it_is_found_under_any_label_and_path(machine: EarlierMachine, settings: Settings) -> None:
    found = look(machine, settings)

    assert [(agent.label, agent.path) for agent in found.launch_agents] == [(LABEL, machine.plist)]
    assert [(entry.kind, entry.name, entry.approves_tools) for entry in found.entries] == [
        ("hook", "PreToolUse", True),
        ("hook", "Stop", False),
        ("MCP server", "memory", False),
    ]
    # Two of the rows stand in the write-ahead log alone.
    assert [(database.path.name, database.version, database.memories) for database in found.databases] == [
        ("memory.db", 2, 4)
    ]
    assert [path.name for path in found.notes] == ["2026-02-20.md", "MEMORY.md", "2026-02-21.md"]
    assert found.is_active
    assert found.listener is None
    assert any("approves every tool call" in line for line in found.lines())


@pytest.mark.parametrize(
    "content",
    [
        b"<dict><key>a</key><date>soon</date></dict>",
        b"<key>a</key>",
        b"<dict><string>a</string></dict>",
        b"<data>!</data>",
        b'<?xml version="1.0" encoding="nope"?>',
        b"",
        None,
    ],
)
def test_a_damaged_agent_of_another_program_is_passed_over(
    machine: EarlierMachine, settings: Settings, content: bytes | None
) -> None:
    other = machine.plist.with_name("other.plist")
    if content is None:
        other.symlink_to(other)
    else:
        is_whole = content.startswith(b"<?xml")
        other.write_bytes(content if is_whole else b'<plist version="1.0">' + content + b"</plist>")

    found = find_earlier(settings, user_home=machine.user_home)

    assert [agent.path for agent in found.launch_agents] == [machine.plist]


def test_looking_leaves_every_file_as_it_was(machine: EarlierMachine, settings: Settings, tmp_path: Path) -> None:
    def state() -> dict[str, tuple[bytes, int]]:
        paths = [path for path in tmp_path.rglob("*") if path.is_file()]
        return {str(path): (path.read_bytes(), path.stat().st_mtime_ns) for path in paths}

    before = state()

    look(machine, settings)

    assert state() == before


def test_a_machine_without_it_has_nothing_of_it(tmp_path: Path, settings: Settings) -> None:
    settings.home.mkdir(parents=True, exist_ok=True)
    (settings.home / "notes" / "MEMORY.md").write_text("ours")

    found = find_earlier(settings, user_home=tmp_path / "user")

    assert not found.is_active
    assert not found.files
    assert plan_retirement(found, settings).is_empty


@pytest.fixture
def daemon(machine: EarlierMachine) -> Iterator[RunningProcess]:
    started = machine.start_daemon()
    try:
        yield RunningProcess(started.pid, "", ())
    finally:
        started.kill()
        started.communicate()


def test_the_running_daemon_is_found_by_its_command_and_by_its_socket_and_is_ended(
    machine: EarlierMachine, settings: Settings, daemon: RunningProcess
) -> None:
    found = look(machine, settings, worker_pid=1)

    assert [process.pid for process in found.processes] == [daemon.pid]
    assert found.listener is not None
    assert found.listener.pid == daemon.pid
    assert "processor/index.ts" in found.listener.described
    (end,) = [action for action in plan_retirement(found, settings).before if isinstance(action, EndProcess)]
    EndProcess(end.pid, "another start", end.command).apply()
    assert end.verify() != ""  # another process would have that pid
    end.apply()
    assert end.verify() == ""
    assert find_listener(settings.places.recall_socket) is None


def test_our_own_worker_is_not_taken_for_it(
    machine: EarlierMachine, settings: Settings, daemon: RunningProcess
) -> None:
    """The socket's listener is our worker where the worker's lock names its process, and its command is not theirs."""
    (machine.checkout / "processor" / "index.ts").write_text("")
    (machine.checkout / "hooks" / "pretooluse-recollection.ts").unlink()
    (machine.checkout / "mcp" / "server.ts").unlink()
    (settings.home / "engram.pid").unlink()

    found = look(machine, settings, worker_pid=daemon.pid)

    assert (found.processes, found.listener) == ((), None)


@pytest.mark.parametrize(
    ("arguments", "is_ours"),
    [
        ("-m engram.cli.main service run worker", True),
        ("huey_consumer engram.tasks.queue.huey -w 4 -k thread", True),
        ("some other program", False),
        ("/srv/engram-notes/serve.py", False),
    ],
)
def test_the_worker_of_another_memory_folder_is_ours(
    tmp_path: Path, settings: Settings, arguments: str, is_ours: bool
) -> None:
    """Two memory folders on one machine: the one where the earlier program was, and the one that is worked on."""
    other = Home(tmp_path / "user" / ".claude-memory").prepare()
    settings.places.prepare()
    code = (
        "import socket, sys; s = socket.socket(socket.AF_UNIX); s.bind('engram.sock'); s.listen(); "
        "print('up', flush=True); sys.stdin.read()"
    )
    listener = subprocess.Popen(
        [sys.executable, "-c", code, *arguments.split()], cwd=other.root, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    try:
        assert listener.stdout is not None
        assert listener.stdout.readline() == b"up\n"

        found = find_earlier(settings, user_home=tmp_path / "user", worker_pid=0)
    finally:
        listener.communicate(b"")

    assert (found.listener is None) == is_ours


def test_the_plan_takes_only_its_own_entries_and_keeps_other_hooks_of_the_same_entry(
    machine: EarlierMachine, settings: Settings
) -> None:
    step = plan_retirement(look(machine, settings), settings)

    changes = {change.path: change for change in step.changes}
    assert changes[machine.plist].is_removal
    edit = changes[machine.settings_file].edit
    assert isinstance(edit, JsonEdit)
    assert [entry.path for entry in edit.remove] == [("hooks", "PreToolUse"), ("hooks", "Stop")]
    assert [entry.value["hooks"] for entry in edit.add if isinstance(entry.value, dict)] == [
        [{"type": "command", "command": "node /opt/lint/hooks/lint.js"}]
    ]
    servers = changes[machine.claude_json].edit
    assert isinstance(servers, JsonEdit)
    assert [entry.path for entry in servers.remove] == [("mcpServers", "memory")]
    assert not any("import" in note for note in step.notes)
    assert any("approves every tool call" in note for note in step.notes)


@pytest.mark.parametrize(
    "command",
    [
        'P="${ENGRAM_HOME:-$HOME/.claude-memory}/python"; "$P" -I -S /x/hooks/engram_hooks/prompt.py',
        "node /opt/tools/cli.js --add-dir ~/.claude-memory",
        "bun /opt/docs/mcp/server.ts",
        "node /opt/lint/hooks/lint.js",
        "tar cf backup.tar ~/.claude-memory",
    ],
)
def test_commands_of_other_programs_are_not_taken_for_it(command: str, tmp_path: Path) -> None:
    assert not is_earlier_command(command, tmp_path)


@pytest.mark.parametrize(
    ("words", "is_its"),
    [
        (["bun", "--env-file=/x/.env", "/gone/claude-memory/processor/index.ts"], True),
        (["/bin/bash", "/x/scripts/engram-start.sh"], True),
        (["bun", "run", "/gone/claude-memory/mcp/server.ts"], True),
        (["vim", "/gone/claude-memory/hooks/pretooluse-recollection.ts"], False),
        (["node", "/usr/lib/claude/cli.js", "fix /gone/claude-memory/hooks/stop.ts"], False),
        (["bash", "-c", "cat /x/engram-start.sh"], False),
        ([], False),
    ],
)
def test_a_process_counts_by_the_script_that_it_runs(words: list[str], is_its: bool, tmp_path: Path) -> None:
    assert is_earlier_process(words, tmp_path) is is_its


def test_a_database_that_is_in_its_log_alone_is_found_and_our_own_is_not(tmp_path: Path, settings: Settings) -> None:
    make_database(settings.home / "memory.db", [], [memory_row(1)])
    broken = settings.home / "memory.v2.7.db"
    broken.write_bytes(b"SQLite format 3\0" + b"\xff" * 9000)

    found = find_earlier(settings, user_home=tmp_path / "user")

    assert [(database.path.name, database.memories) for database in found.databases] == [("memory.db", 1)]


def test_comments_and_trailing_commas_do_not_hide_a_hook() -> None:
    text = '{"a": "// no, \\"comment\\"", /* one */ "b": [1, 2,], // two\n "c": {"d": 1,},}'

    root = parse(text)

    assert root is not None
    assert root.value == {"a": '// no, "comment"', "b": [1, 2], "c": {"d": 1}}


@pytest.mark.parametrize("value", ["NaN", "-Infinity", "[" * 500 + "]" * 500])
def test_a_value_that_only_some_programs_read_does_not_hide_a_server(
    machine: EarlierMachine, settings: Settings, value: str
) -> None:
    text = machine.claude_json.read_text()
    machine.claude_json.write_text(text.replace("{", f'{{"odd": {value}, ', 1))

    found = look(machine, settings)

    assert [entry.name for entry in found.entries if entry.kind == "MCP server"] == ["memory"]
