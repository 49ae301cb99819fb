"""SessionStart starts the supervisor where the user chose it, once, and is silent in any case."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from hook_runs import Hooks
from processes import processes_of_home, wait_for, wait_until_gone

from engram.errors import HomeError
from engram.reports.processes import holder_of, is_held
from engram.settings import Settings
from engram.setup.services import service_definition
from engram.setup.services.supervisor import Background
from engram.system.socketpath import socket_address
from engram_hooks.block import start_command

EVENT = "SessionStart(startup)"


@pytest.mark.parametrize("text", [None, "start_with_session = false\n", "# start_with_session = true\n"])
def test_without_the_users_choice_nothing_is_started(hooks: Hooks, text: str | None) -> None:
    if text is not None:
        hooks.home.config_file.write_text(text)

    assert hooks.run(EVENT).is_silent

    assert not hooks.home.supervisor_lock.exists()
    assert not hooks.home.logs.joinpath("supervisor.service.log").exists()


def test_a_pipe_in_place_of_the_settings_keeps_nobody_waiting(hooks: Hooks) -> None:
    os.mkfifo(hooks.home.config_file)

    assert hooks.run(EVENT).is_silent


def test_sessions_that_are_not_remembered_start_nothing(hooks: Hooks) -> None:
    hooks.home.config_file.write_text("start_with_session = true\n")

    assert hooks.run(EVENT, ENGRAM_DISABLE="1").is_silent

    assert not hooks.home.logs.joinpath("supervisor.service.log").exists()


@pytest.mark.parametrize(
    "line", ["'start_with_session' = true", "\tstart_with_session\t=\t'yes'", "\ufeffstart_with_session=1"]
)
def test_every_way_to_write_the_setting_runs_the_script(tmp_path: Path, line: str) -> None:
    """Whoever reads the settings as TOML takes it for set, as the doctor does."""
    (tmp_path / "config.toml").write_text(f"{line}\n")
    (tmp_path / "start.py").write_text("open(__file__ + '.ran', 'w')")
    command = start_command(tmp_path / "start.py", sys.executable)

    subprocess.run(["sh", "-c", command], stdin=subprocess.DEVNULL, check=True, env={"ENGRAM_HOME": str(tmp_path)})

    wait_for(lambda: (tmp_path / "start.py.ran").exists())


def test_a_session_starts_both_processes_and_the_next_one_finds_them(hooks: Hooks) -> None:
    hooks.home.config_file.write_text('embedding_model = "hashed"\nstart_with_session=true\n')
    try:
        assert hooks.run(EVENT, CLAUDE_CODE_SESSION_ID="s1", CLAUDECODE="1").is_silent
        wait_for(lambda: service_definition.is_working(hooks.home))
        supervisor = holder_of(hooks.home.supervisor_lock)

        assert hooks.run(EVENT).is_silent
        assert len(processes_of_home(hooks.home.root)) == (3 if Path("/proc/self/environ").exists() else 0)
        assert holder_of(hooks.home.supervisor_lock) == supervisor
    finally:
        Background(Settings(home=hooks.home.root)).stop()
    assert supervisor is not None
    wait_until_gone(supervisor)
    assert not is_held(hooks.home.worker_lock)


def test_nothing_is_said_about_a_supervisor_that_cannot_be_started(
    hooks: Hooks, monkeypatch: pytest.MonkeyPatch
) -> None:
    hooks.home.config_file.write_text("start_with_session = true\n")
    hooks.home.logs.rmdir()
    hooks.home.logs.symlink_to("/dev/null")

    assert hooks.run(EVENT).is_silent

    with pytest.raises(HomeError):
        Background(Settings(home=hooks.home.root)).launch()


STARTED = b'{"hook_event_name":"SessionStart","session_id":"s1","source":"startup"}'


@pytest.mark.parametrize("payload", [STARTED, STARTED.replace(b'"startup"', b' "resume"')])
@pytest.mark.parametrize("config", [None, "start_with_session = false\n", "# start_with_session = true\n"])
@pytest.mark.parametrize("left", ["nothing", "socket"])
def test_the_start_of_a_session_says_that_engram_is_off(
    hooks: Hooks, payload: bytes, config: str | None, left: str
) -> None:
    hooks.home.memory_db.touch()
    if config is not None:
        hooks.home.config_file.write_text(config)
    if left == "socket":
        with socket.socket(socket.AF_UNIX) as listener, socket_address(hooks.home.recall_socket) as address:
            listener.bind(address)

    assert f"`engram --home {hooks.home.root} service start`" in hooks.run("SessionStart", payload).context


@pytest.mark.parametrize(
    ("payload", "has_memory", "config"),
    [
        (STARTED, False, None),
        (STARTED.replace(b"startup", b"compact"), True, None),
        (STARTED.replace(b"startup", b"clear"), True, None),
        (b"", True, None),
        (b"{}", True, None),
        (STARTED, True, "start_with_session = true\n"),
        (STARTED, True, '[x]\n start_with_session=true # "always"\n'),
        (STARTED, True, '\t"start_with_session"\t=\ttrue\r\n'),
        (STARTED, True, "start_with_session = 'On'\n"),
        (STARTED, True, "\ufeffstart_with_session = true\n"),
    ],
)
def test_nothing_is_said_where_nothing_can_be_remembered_or_the_session_starts_it(
    hooks: Hooks, payload: bytes, has_memory: bool, config: str | None
) -> None:
    if has_memory:
        hooks.home.memory_db.touch()
    if config is not None:
        hooks.home.config_file.write_text(config)

    assert hooks.run("SessionStart", payload).is_silent
    assert hooks.run("UserPromptSubmit", STARTED).is_silent


def test_a_session_brings_a_killed_supervisor_back(hooks: Hooks) -> None:
    hooks.home.config_file.write_text('embedding_model = "hashed"\nstart_with_session=true\n')
    background = Background(Settings(home=hooks.home.root))
    try:
        assert hooks.run(EVENT).is_silent
        wait_for(lambda: service_definition.is_working(hooks.home))
        killed = holder_of(hooks.home.supervisor_lock)
        assert killed is not None
        os.kill(killed, signal.SIGKILL)
        wait_until_gone(killed)

        assert hooks.run(EVENT).is_silent

        wait_for(lambda: holder_of(hooks.home.supervisor_lock) not in (None, killed))
        wait_for(lambda: service_definition.is_working(hooks.home))
    finally:
        background.stop()
