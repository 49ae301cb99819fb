"""The flush hooks: a session's id into the queue, with or without a worker, and never in anybody's way."""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from hook_runs import Hooks, Payload, sent_before
from processes import wait_until_group_gone

from engram.cli.main import engram
from engram.tasks.queue import EngramQueue, JsonSerializer
from engram_hooks.block import settings_block

SESSION = "22582f02-0391-4a88-b729-f218fbfb8d9e"


@pytest.fixture
def waiting(hooks: Hooks) -> Iterator[Any]:
    """Lists (task, arguments) of what waits in the home's queue."""
    queue = EngramQueue().bind(hooks.home)

    def look() -> list[tuple[str, tuple[Any, ...]]]:
        messages = [JsonSerializer().deserialize(data) for data in queue.storage.waiting()]
        return [(message.name, tuple(message.args)) for message in messages]

    yield look
    queue.storage.close()


@pytest.mark.parametrize(
    ("name", "task"),
    [
        ("SessionEnd-other-0", "flush"),
        ("SessionEnd-clear-0", "flush"),
    ],
)
def test_a_real_payload_enqueues_its_session_while_no_worker_runs(
    hooks: Hooks, payload: Payload, waiting: Any, name: str, task: str
) -> None:
    sent = payload(name)

    assert hooks.run(name.partition("-")[0], sent).is_silent
    assert waiting() == [(task, (sent["session_id"],))]


@pytest.mark.parametrize(
    ("event", "name", "task"),
    [("Stop", "Stop-0", "ingest"), ("SessionStart(compact)", "SessionStart-compact-0", "flush")],
)
@pytest.mark.parametrize("names_it", ["payload", "environment"])
def test_a_detached_hook_enqueues_its_session_and_ends(
    hooks: Hooks, payload: Payload, waiting: Any, event: str, name: str, task: str, names_it: str
) -> None:
    sent = payload(name)
    session = {} if names_it == "payload" else {"session": sent["session_id"]}

    group = run_detached(hooks, event, sent if names_it == "payload" else b"", **session)

    wait_until_group_gone(group)
    assert waiting() == [(task, (sent["session_id"],))]


@pytest.mark.parametrize("broken", ["a queue that is held", "a home that is a pipe", "a stdin that stays open"])
def test_a_detached_hook_leaves_no_process_behind_whatever_is_broken(hooks: Hooks, broken: str, tmp_path: Path) -> None:
    holder = sqlite3.connect(hooks.home.queue_db, isolation_level=None)
    if broken == "a queue that is held":
        holder.execute("begin exclusive")
    elif broken == "a home that is a pipe":
        os.mkfifo(tmp_path / "pipe")
        hooks.environment["ENGRAM_HOME"] = str(tmp_path / "pipe")

    group = run_detached(hooks, "Stop", None if broken == "a stdin that stays open" else b"{}", session=SESSION)

    wait_until_group_gone(group)
    holder.close()


@pytest.mark.parametrize("input_is", ["", "exec <&-\n"])
@pytest.mark.parametrize("shell", [shell for shell in ("sh", "bash", "dash", "ksh", "zsh") if shutil.which(shell)])
def test_a_detached_hook_whose_input_may_be_closed_exits_with_zero(
    hooks: Hooks, waiting: Any, shell: str, input_is: str
) -> None:
    """Claude Code takes exit code 2 for a refusal: a Stop hook would then not let it stop."""
    hook = subprocess.Popen(
        [shell, "-c", f"{input_is}{hooks.commands['Stop']}"],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env=hooks.environment | {"CLAUDE_CODE_SESSION_ID": SESSION},
        start_new_session=True,
    )

    assert hook.communicate(timeout=60) == (b"", None)
    assert hook.returncode == 0
    wait_until_group_gone(hook.pid)
    assert waiting() == [("ingest", (SESSION,))]


def test_nobody_waits_for_a_detached_hook(hooks: Hooks, tmp_path: Path) -> None:
    """Its pipes are closed and its shell has ended while the interpreter still waits."""
    os.mkfifo(tmp_path / "pipe")
    slow = tmp_path / "python"
    slow.write_text(f"#!/bin/sh\nread line < {tmp_path / 'pipe'}\n")
    slow.chmod(0o700)
    hooks.commands["Stop"] = settings_block(interpreter=str(slow))["hooks"]["Stop"][0]["hooks"][0]["command"]

    group = run_detached(hooks, "Stop", b"{}", session=SESSION)

    os.killpg(group, 0)
    (tmp_path / "pipe").write_text("go on\n")
    wait_until_group_gone(group)


def run_detached(hooks: Hooks, event: str, sent: object, **fields: str) -> int:
    """Run a hook until its shell has ended and its output is closed; returns its process group."""
    data = b"" if sent is None else sent if isinstance(sent, bytes) else json.dumps(sent).encode()
    environment = hooks.environment | ({"CLAUDE_CODE_SESSION_ID": fields["session"]} if fields else {})
    stdin = subprocess.PIPE if sent is None else sent_before(data)
    hook = subprocess.Popen(
        ["/bin/sh", "-c", hooks.commands[event]],
        stdin=stdin,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env=environment,
        start_new_session=True,
    )
    assert hook.stdout is not None
    if sent is not None:
        os.close(stdin)
    assert (hook.stdout.read(), hook.wait(60)) == (b"", 0)
    hook.stdout.close()
    if sent is None:
        wait_until_group_gone(hook.pid)
        assert hook.stdin is not None
        hook.stdin.close()
    return hook.pid


def test_asking_twice_while_it_waits_is_one_task(hooks: Hooks, waiting: Any) -> None:
    for _ in range(2):
        hooks.run("SessionEnd", {"session_id": SESSION})

    assert waiting() == [("flush", (SESSION,))]


@pytest.mark.parametrize("session", ["../../etc", "", "a b", "x" * 200, "a\n", 7, None])
def test_a_session_id_that_is_none_is_not_enqueued(hooks: Hooks, waiting: Any, session: object) -> None:
    assert hooks.run("SessionEnd", {"session_id": session}).is_silent
    assert waiting() == []


@pytest.mark.parametrize("sent", [b"", b"[1]", b"\xff\0", b'{"session_id":"s', b'{"a":' * 2000])
def test_where_the_payload_says_nothing_the_environment_names_the_session(
    hooks: Hooks, waiting: Any, sent: bytes
) -> None:
    assert hooks.run("SessionEnd", sent, session=SESSION).is_silent
    assert waiting() == [("flush", (SESSION,))]


def test_a_queue_that_another_process_holds_is_left_alone_and_noted(hooks: Hooks) -> None:
    hooks.run("SessionEnd", {"session_id": SESSION})
    holder = sqlite3.connect(hooks.home.queue_db, isolation_level=None)
    holder.execute("begin exclusive")

    run = hooks.run("SessionEnd", {"session_id": "another"})
    holder.execute("rollback")
    holder.close()

    assert run.is_silent
    assert (hooks.home.logs / "hook.log").read_text().count("hook=flush session=another error=") == 1


def test_the_logs_command_shows_what_hooks_wrote_as_warnings_of_their_own_time(hooks: Hooks) -> None:
    hooks.home.queue_db.mkdir()
    for session in ("first", "second"):
        hooks.run("SessionEnd", {"session_id": session})

    arguments = ["--home", str(hooks.home.root), "logs", "hook", "--errors", "--json"]
    printed = CliRunner().invoke(engram, arguments, catch_exceptions=False).stdout

    texts = [record["text"] for record in json.loads(printed)["records"]]
    assert ["first" in text for text in texts] == [True, False]
    assert ["second" in text for text in texts] == [False, True]


@pytest.mark.parametrize("broken", ["a folder", "garbage", "log is a folder"])
def test_a_broken_queue_prints_nothing(hooks: Hooks, broken: str) -> None:
    if broken == "garbage":
        hooks.home.queue_db.write_bytes(b"no database at all" * 1000)
    else:
        hooks.home.queue_db.mkdir()
    if broken == "log is a folder":
        (hooks.home.logs / "hook.log").mkdir()

    assert hooks.run("SessionEnd", {"session_id": SESSION}).is_silent


def test_a_package_that_cannot_be_imported_prints_nothing(hooks: Hooks, tmp_path: Path) -> None:
    copy = tmp_path / "enqueue.py"
    source = Path(hooks.commands["SessionEnd"].split(" -P ")[1].split(" flush <&3")[0])
    copy.write_text(source.read_text().replace("from engram.paths", "from engram.nowhere"))
    hooks.commands["SessionEnd"] = hooks.commands["SessionEnd"].replace(str(source), str(copy))

    assert hooks.run("SessionEnd", {"session_id": SESSION}).is_silent
