"""The relays (UserPromptSubmit, SessionStart): a complete answer or nothing, status 0 whatever is broken."""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hook_runs import Hooks, Serve

from engram.paths import Home
from engram.recollection.render_bites import hook_output
from engram.system.socketpath import socket_address
from engram.worker.request_reader import close_listener, open_listener
from engram.worker.worker_client import announce_worker
from engram_hooks import briefing, prompt
from engram_hooks.block import relay_command

RELAYS = ("UserPromptSubmit", "SessionStart", "SubagentStart")
UNANSWERED = (
    "PreToolUse",
    "PreToolUse(Agent)",
    "PostToolUseFailure",
    "SessionEnd",
    "Stop",
    "SessionStart(compact)",
    "SessionStart(startup)",
)
ASKED = b'{"hook_event_name":"UserPromptSubmit","session_id":"s1","prompt":"how does the lock work"}'
TAKES_SIGNS = prompt.TAKES_SIGNS
ANSWER = hook_output("UserPromptSubmit", 'It said "no" \\ and \U0001f512 went home.\nTwo lines.')


@pytest.mark.parametrize("event", RELAYS)
def test_the_answer_of_the_worker_is_printed_whole(hooks: Hooks, serve: Serve, event: str) -> None:
    heard: list[bytes] = []
    serve(hooks.home, lambda request: heard.append(request) or ANSWER)

    run = hooks.run(event, ASKED)

    assert heard == [TAKES_SIGNS + ASKED]
    assert run.context == 'It said "no" \\ and \U0001f512 went home.\nTwo lines.'
    assert (run.status, run.errors) == (0, b"")


@pytest.mark.parametrize("word", ["stop", "decision", "continued"])
def test_an_answer_whose_text_begins_like_a_refused_key_is_printed(hooks: Hooks, serve: Serve, word: str) -> None:
    serve(hooks.home, lambda _: hook_output("UserPromptSubmit", word))

    assert hooks.run("UserPromptSubmit", ASKED).context == word


@pytest.mark.parametrize("blanks", [b" ", b"  \n ", b"\t" * 50])
def test_signs_of_life_before_the_answer_are_not_printed(hooks: Hooks, serve: Serve, blanks: bytes) -> None:
    serve(hooks.home, lambda _: blanks + ANSWER)

    assert hooks.run("UserPromptSubmit", ASKED).output == ANSWER


@pytest.fixture
def waits(hooks: Hooks, serve: Serve, monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The waits of a hook in this process, whose worker listens from the second one on."""
    slept: list[float] = []

    def sleep(seconds: float) -> None:
        slept.append(seconds)
        if len(slept) == 2:
            serve(hooks.home, lambda _: ANSWER)

    monkeypatch.setattr(prompt.time, "sleep", sleep)
    monkeypatch.chdir(hooks.home.root)
    return slept


def test_a_prompt_waits_for_a_worker_that_is_being_started_again(hooks: Hooks, waits: list[float]) -> None:
    announce_worker(hooks.home)

    connection = prompt._connect(time.monotonic() + 60, True)

    assert connection is not None
    assert len(waits) == 2


@pytest.mark.parametrize("left", ["", "engram.sock"])
@pytest.mark.parametrize("age_seconds", [None, 11, 86_400, -3_600])
def test_it_does_not_wait_where_none_was_announced_or_long_ago(
    hooks: Hooks, waits: list[float], age_seconds: int | None, left: str
) -> None:
    if left:
        with socket.socket(socket.AF_UNIX) as dead, socket_address(hooks.home.root / left) as address:
            dead.bind(address)
    if age_seconds is not None:
        announce_worker(hooks.home)
        os.utime(hooks.home.worker_coming, (time.time() - age_seconds,) * 2)

    assert prompt._connect(time.monotonic() + 60, True) is None
    assert waits == []


@pytest.mark.parametrize("put", [os.mkfifo, os.mkdir, lambda path: path.symlink_to("/dev/null")])
def test_only_a_file_announces_a_worker(hooks: Hooks, waits: list[float], put: Callable[[Path], None]) -> None:
    put(hooks.home.worker_coming)

    assert prompt._connect(time.monotonic() + 60, True) is None
    assert waits == []


def test_a_session_that_begins_while_a_worker_is_started_again_is_not_told_that_engram_is_off(hooks: Hooks) -> None:
    begins = {"hook_event_name": "SessionStart", "source": "startup"}
    hooks.home.memory_db.touch()

    said = hooks.run("SessionStart", begins).context
    assert "is off" in said
    assert f"`engram --home {hooks.home.root} service start`" in said
    announce_worker(hooks.home)
    assert hooks.run("SessionStart", begins).output == b""


@pytest.mark.parametrize(
    ("folder", "flag"),
    [
        ("/work/memory-2.d", "--home /work/memory-2.d "),
        ("/work/a & b;c", "--home '/work/a & b;c' "),
        ("/work/$(id)~", "--home '/work/$(id)~' "),
        ("memory", ""),
        ("~/memory", ""),
    ],
)
def test_the_command_that_a_session_is_told_names_the_folder_as_a_shell_takes_it(
    monkeypatch: pytest.MonkeyPatch, folder: str, flag: str
) -> None:
    monkeypatch.setitem(briefing.posix.environ, b"ENGRAM_HOME", folder.encode())

    assert briefing._flag().decode() == flag


def run_with_limits(hooks: Hooks, first: float, life: float, end: float) -> bytes:
    """What the hook prints with other limits than its own, in seconds."""
    code = (
        f"import sys; sys.dont_write_bytecode = True; sys.path.insert(0, {str(Path(prompt.__file__).parent)!r}); "
        f"import prompt; prompt.SECONDS, prompt.LIFE_SECONDS, prompt.MAX_SECONDS = {first}, {life}, {end}; "
        "prompt.main()"
    )
    environment = {"ENGRAM_HOME": str(hooks.home.root)}
    run = subprocess.run(
        [sys.executable, "-I", "-S", "-c", code], input=ASKED, env=environment, stdout=subprocess.PIPE, check=True
    )
    return run.stdout


@pytest.fixture
def slow_worker() -> Iterator[Callable[[Home, Callable[[socket.socket], None]], None]]:
    """A worker that does with each request what it is told."""
    with contextlib.ExitStack() as stack:

        def start(home: Home, act: Callable[[socket.socket], None]) -> None:
            listener = open_listener(home.recall_socket)

            def answer_one() -> None:
                with contextlib.suppress(OSError):
                    connection, _ = listener.accept()
                    with connection:
                        while connection.recv(65_536):
                            pass
                        act(connection)

            thread = threading.Thread(target=answer_one, daemon=True)
            thread.start()
            stack.callback(thread.join, 60)
            stack.callback(close_listener, listener)

        yield start


def test_a_sign_of_life_makes_the_hook_wait_longer(
    hooks: Hooks, slow_worker: Callable[[Home, Callable[[socket.socket], None]], None]
) -> None:
    def act(connection: socket.socket) -> None:
        connection.sendall(b" ")
        threading.Event().wait(1.5)
        connection.sendall(ANSWER)

    slow_worker(hooks.home, act)

    assert run_with_limits(hooks, first=1.0, life=60.0, end=60.0) == ANSWER


@pytest.mark.parametrize("before", [b"", b"  "])
def test_an_answer_that_begins_and_does_not_end_is_not_waited_for(
    hooks: Hooks, slow_worker: Callable[[Home, Callable[[socket.socket], None]], None], before: bytes
) -> None:
    def act(connection: socket.socket) -> None:
        connection.sendall(before)
        while True:
            connection.sendall(b"{")
            threading.Event().wait(0.02)

    slow_worker(hooks.home, act)

    assert run_with_limits(hooks, first=0.3, life=60.0, end=60.0) == b""


def test_signs_of_life_do_not_keep_the_hook_for_ever(
    hooks: Hooks, slow_worker: Callable[[Home, Callable[[socket.socket], None]], None]
) -> None:
    def act(connection: socket.socket) -> None:
        while True:
            connection.sendall(b" ")
            threading.Event().wait(0.02)

    slow_worker(hooks.home, act)

    assert run_with_limits(hooks, first=0.5, life=60.0, end=0.3) == b""


@pytest.mark.parametrize("event", RELAYS)
def test_without_a_worker_nothing_is_said(hooks: Hooks, event: str) -> None:
    assert hooks.run(event, ASKED).is_silent


@pytest.mark.parametrize(
    "answer",
    [
        b"",
        b"{}",
        b'{"error": "nothing"}',
        ANSWER[:-5],
        ANSWER[: len(ANSWER) // 2],
        b"Traceback (most recent call last):",
        b"\0" * 100,
        ANSWER + b"x" * 70_000,
        b'{"hookSpecificOutput":{"hookEventName":"X","additionalContext":"y","permissionDecision":"allow"}}',
        b'{"hookSpecificOutput":{"additionalContext":"y"},"continue":false,"x":{}}',
        b'{"hookSpecificOutput":{"updatedInput":{}}}',
        b'{"hookSpecificOutput":{"a":1},"decision":{"b":2}}',
    ],
)
def test_anything_but_one_complete_context_prints_nothing(hooks: Hooks, serve: Serve, answer: bytes) -> None:
    serve(hooks.home, lambda _: answer)

    assert hooks.run("UserPromptSubmit", ASKED).is_silent


@pytest.mark.parametrize("event", RELAYS)
def test_a_hung_worker_is_left_after_a_moment(hooks: Hooks, serve: Serve, event: str) -> None:
    never = threading.Event()
    serve(hooks.home, lambda _: bytes(never.wait(30)))

    run = hooks.run(event, ASKED)
    never.set()

    assert run.is_silent


@pytest.mark.parametrize("kind", ["fifo", "folder", "file", "link to nowhere"])
def test_something_else_in_place_of_the_socket_prints_nothing(hooks: Hooks, kind: str) -> None:
    place = hooks.home.recall_socket
    {
        "fifo": lambda: os.mkfifo(place),
        "folder": place.mkdir,
        "file": lambda: place.write_bytes(ANSWER),
        "link to nowhere": lambda: place.symlink_to("/nowhere/at/all"),
    }[kind]()

    assert hooks.run("UserPromptSubmit", ASKED).is_silent


@pytest.mark.parametrize("data", [b"", b"\xff\xfe\0\x01" * 1000, b"[]", b"null", b"{" * 5000], ids=repr)
def test_a_payload_that_is_none_reaches_the_worker_at_most_as_it_is(hooks: Hooks, serve: Serve, data: bytes) -> None:
    heard: list[bytes] = []
    serve(hooks.home, lambda request: heard.append(request) or b"")

    assert hooks.run("UserPromptSubmit", data).is_silent
    assert heard == ([TAKES_SIGNS + data] if data else [])


@pytest.mark.parametrize("event", [*RELAYS, "SessionEnd", "Stop", "SessionStart(compact)", "SessionStart(startup)"])
def test_a_hundred_megabytes_on_stdin_are_silence(hooks: Hooks, serve: Serve, event: str) -> None:
    serve(hooks.home, lambda _: ANSWER)
    hook = hooks.start(event)

    chunk = b'{"prompt":"' + b"x" * 1_000_000
    try:
        for _ in range(100):
            hook.stdin.write(chunk)
        hook.stdin.close()
    except BrokenPipeError:
        pass

    assert (hook.wait(60), hook.stdout.read(), hook.stderr.read()) == (0, b"", b"")
    hook.stdout.close()
    hook.stderr.close()


@pytest.mark.parametrize("event", [*RELAYS, *UNANSWERED])
@pytest.mark.parametrize("sent", [b"", b'{"session_id":"s1","prompt":'])
def test_a_stdin_that_never_closes_is_left_after_a_moment(hooks: Hooks, serve: Serve, event: str, sent: bytes) -> None:
    serve(hooks.home, lambda _: ANSWER)
    (hooks.home.recollections / "s1.pending").write_bytes(ANSWER)
    (hooks.home.recollections / "s1.failures").write_bytes(b"prompt\n")
    hook = hooks.start(event, session="s1")
    with contextlib.suppress(BrokenPipeError):  # a busy machine: the moment was over before this wrote
        hook.stdin.write(sent)
        hook.stdin.flush()

    assert (hook.wait(60), hook.stdout.read(), hook.stderr.read()) == (0, b"", b"")
    for stream in (hook.stdin, hook.stdout, hook.stderr):
        with contextlib.suppress(BrokenPipeError):  # what was not written then is tried once more
            stream.close()


@pytest.mark.parametrize("event", [*RELAYS, *UNANSWERED])
@pytest.mark.parametrize("broken", ["no home", "no HOME at all", "home is a file", "switched off"])
def test_a_broken_home_prints_nothing_and_nothing_is_made(
    hooks: Hooks, serve: Serve, event: str, broken: str, tmp_path: Path
) -> None:
    serve(hooks.home, lambda _: ANSWER)
    (hooks.home.recollections / "s1.pending").write_bytes(ANSWER)
    if broken == "no home":
        hooks.environment["ENGRAM_HOME"] = str(tmp_path / "nowhere" / "at all")
    elif broken == "no HOME at all":
        del hooks.environment["ENGRAM_HOME"]
        hooks.environment.pop("HOME", None)
    elif broken == "home is a file":
        (tmp_path / "file").write_text("no folder")
        hooks.environment["ENGRAM_HOME"] = str(tmp_path / "file")
    else:
        hooks.environment["ENGRAM_DISABLE"] = "1"

    run = hooks.run(event, ASKED, session="s1")

    assert run.is_silent
    assert not (tmp_path / "nowhere").exists()
    assert not hooks.home.queue_db.exists()


@pytest.mark.parametrize("broken", ["missing", "a folder", "no program", "no permission"])
def test_a_broken_interpreter_prints_nothing(hooks: Hooks, serve: Serve, broken: str) -> None:
    serve(hooks.home, lambda _: ANSWER)
    link = hooks.home.python_link
    link.unlink()
    if broken == "a folder":
        link.mkdir()
    elif broken != "missing":
        link.write_text("\0 no program")
        link.chmod(0o700 if broken == "no program" else 0o600)

    assert hooks.run("UserPromptSubmit", ASKED).is_silent


def test_a_hook_whose_file_is_gone_does_not_block_the_prompt(hooks: Hooks, tmp_path: Path) -> None:
    """Python ends with status 2 then, and Claude Code takes that as: refuse the prompt."""
    hooks.commands["UserPromptSubmit"] = relay_command(tmp_path / "moved away" / "prompt.py")

    assert hooks.run("UserPromptSubmit", ASKED).is_silent


def test_a_home_with_a_long_path_and_blanks_works(
    hooks_in: Callable[[Path], Hooks], serve: Serve, tmp_path: Path
) -> None:
    hooks = hooks_in(tmp_path / "a path with blanks, 'quotes' and $signs" / ("long " * 30).strip() / "home")
    serve(hooks.home, lambda _: ANSWER)

    assert hooks.run("UserPromptSubmit", ASKED).output == ANSWER


def test_the_relay_loads_none_of_the_heavy_modules(hooks: Hooks) -> None:
    code = (
        f"import sys; sys.path.insert(0, {str(Path(prompt.__file__).parent.parent)!r}); import engram_hooks.prompt; "
        "print(' '.join(sys.modules))"
    )
    done = subprocess.run([hooks.home.python_link, "-I", "-S", "-c", code], capture_output=True, check=True, text=True)

    heavy = {"json", "socket", "huey", "click", "peewee", "logging", "re", "dataclasses", "sqlite3", "engram"}
    assert heavy.isdisjoint(done.stdout.split())


def test_whole_answers_are_told_from_parts() -> None:
    assert prompt.is_whole(ANSWER)
    assert not any(prompt.is_whole(ANSWER[:cut]) for cut in range(len(ANSWER) - 2))
