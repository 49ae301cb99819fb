"""The status line: one short line by the shell alone, whatever is broken, and the figures that the worker writes."""

from __future__ import annotations

import json
import os
import socket
import stat
import subprocess
from pathlib import Path
from typing import Any

import pytest
import showing

from engram.enums import Actor, Kind
from engram.models.engine.transaction import Store
from engram.models.memories.memory_changes import add_memory
from engram.models.memories.memory_records import Evidence, Memory, new_memory_id
from engram.models.open_memory import open_store
from engram.models.sessions import sessions
from engram.paths import Home
from engram.recollection.recollection_service import RecollectionService
from engram.search.searcher import Searcher
from engram.settings import Settings
from engram.setup.agents.plugin import is_our_statusline, plan_statusline, statusline_entry
from engram.setup.edits.install_steps import JsonEntry
from engram.system.socketpath import socket_address
from engram.tasks.runtime import Runtime
from engram.worker.hook_answers import Vaults
from engram.worker.housekeeping import StatusLines

SESSION = "4d5305c0-d908-490f-9de8-316cdfa26529"


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path / "it's home").prepare()


def status(used: object = 12.5, session: str = SESSION, **more: Any) -> dict[str, Any]:
    """What Claude Code gives a status line."""
    return {
        "session_id": session,
        "model": {"id": "m", "display_name": "M"},
        "rate_limits": {"five_hour": {"used_percentage": 99}},
        "context_window": {"current_usage": {"input_tokens": 5}, "used_percentage": used},
        **more,
    }


def show(home: Home, given: dict[str, Any] | bytes | None = None, **environment: str) -> str:
    """Run the command of the status line where no program can be started; returns what it prints."""
    data = given if isinstance(given, bytes) else json.dumps(given or status(), separators=(",", ":")).encode()
    done = subprocess.run(
        ["/bin/sh", "-c", statusline_entry(home)["command"]],
        input=data,
        capture_output=True,
        env={"PATH": "/nowhere", **environment},
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, b"")
    return done.stdout.decode()


def put(home: Home, line: str) -> None:
    (home.recollections / f"{SESSION}.statusline").write_text(line)


def test_the_figures_of_the_session_are_shown(home: Home) -> None:
    put(home, f"{os.getpid()} 3 2\n")

    assert show(home) == "Engram: 3 shown, 2 kept\n"


@pytest.mark.parametrize(
    ("used", "marker"), [(79.9, ""), (80, " · context 80 % full"), (97.31, " · context 97 % full")]
)
def test_a_context_that_fills_is_marked(home: Home, used: float, marker: str) -> None:
    put(home, f"{os.getpid()} 3 2\n")

    assert show(home, status(used)) == f"Engram: 3 shown, 2 kept{marker}\n"


def test_what_is_wrong_goes_first(home: Home) -> None:
    put(home, f"{os.getpid()} 3 2 watcher\n")
    assert show(home) == "Engram: problem with watcher, see engram doctor\n"

    ended = subprocess.Popen(["true"])
    ended.wait()
    put(home, f"{ended.pid} 3 2\n")
    assert "not running" in show(home)


def test_a_new_session_asks_for_its_figures_with_its_own_empty_file(home: Home) -> None:
    assert "not running" in show(home)
    path = home.recollections / f"{SESSION}.statusline"
    assert (path.read_bytes(), stat.S_IMODE(path.stat().st_mode)) == (b"", 0o600)

    with socket.socket(socket.AF_UNIX) as listener, socket_address(home.recall_socket) as address:
        listener.bind(address)
        assert show(home) == "Engram\n"


@pytest.mark.parametrize(
    "given",
    [b"", b"{}", b"[]", b"\xff\x00", status(session="../../x"), status(session="x" * 129), status(session="")],
    ids=repr,
)
def test_without_a_session_nothing_is_printed_and_nothing_written(home: Home, given: dict[str, Any] | bytes) -> None:
    assert show(home, given) == ""
    assert list(home.recollections.iterdir()) == []


@pytest.mark.parametrize("line", ["", "no figures at all", "-1 2 3", "1 2 x", "\0\0", "$(touch x) `id` *"])
def test_a_file_of_another_form_is_no_figure(home: Home, line: str) -> None:
    put(home, line)

    assert show(home) == "Engram: not running, start it with engram up\n"


@pytest.mark.parametrize("used", [None, "full", -3, {}])
def test_an_unknown_share_of_the_context_is_not_marked(home: Home, used: object) -> None:
    put(home, f"{os.getpid()} 0 0\n")

    assert show(home, status(used)) == "Engram: 0 shown, 0 kept\n"


def test_switched_off_or_without_a_home_nothing_is_printed(home: Home, tmp_path: Path) -> None:
    assert show(home, ENGRAM_DISABLE="1") == ""
    assert show(Home(tmp_path / "nowhere")) == ""
    assert not (tmp_path / "nowhere").exists()


def make_runtime(home: Home, store: Store) -> Runtime:
    settings = Settings(home=home.root, embedding_model="hashed")
    search = Searcher(store, settings)
    return Runtime(settings, store, search, RecollectionService(store, search, settings))


def test_the_worker_writes_what_is_asked_for_and_again_when_the_memory_changed(home: Home) -> None:
    with open_store(home.memory_db) as store:
        runtime = make_runtime(home, store)
        lines = StatusLines(runtime, Vaults(runtime))
        assert lines.write(has_changed=True) == 0
        show(home)

        assert lines.write(has_changed=False) == 1
        # Neither watcher nor worker holds its lock here.
        assert show(home) == "Engram: problem with watcher, see engram doctor\n"
        assert lines.write(has_changed=False) == 0
        assert lines.write(has_changed=True) == 1


def test_the_figures_are_those_of_the_session(home: Home) -> None:
    with open_store(home.memory_db) as store:
        with store.transaction() as tx:
            sessions.ensure_session(
                tx, SESSION, agent="claude-code", project_id=None, is_global=False, cwd="/w", at_ms=1
            )
            made = Memory(new_memory_id(), Kind.FACT, "a fact", "a fact", session_id=SESSION)
            add_memory(tx, made, [Evidence("11111111-1111-1111-1111-111111111111")], actor=Actor.MODEL)
        showing.show(store, made.episode_id, SESSION)
        runtime = make_runtime(home, store)
        lines = StatusLines(runtime, Vaults(runtime))
        show(home)
        lines.write(has_changed=True)

    assert (home.recollections / f"{SESSION}.statusline").read_text() == f"{os.getpid()} 1 1 watcher\n"


def test_another_tools_status_line_stays(tmp_path: Path, home: Home) -> None:
    theirs = {"statusLine": {"type": "command", "command": "ccstatusline"}}
    assert not is_our_statusline(theirs["statusLine"])

    refused = plan_statusline(tmp_path, theirs, home)

    assert refused.is_empty
    assert "another tool" in refused.notes[0]
    (change,) = plan_statusline(tmp_path, {}, home).changes
    assert change.path == tmp_path / "settings.json"
    (entry,) = change.edit.add  # type: ignore[union-attr]
    assert (entry.path, entry.value) == (("statusLine",), statusline_entry(home))


def test_our_own_status_line_is_renewed_and_never_put_back(tmp_path: Path, home: Home) -> None:
    ours = {"statusLine": statusline_entry()}
    assert is_our_statusline(ours["statusLine"])

    (change,) = plan_statusline(tmp_path, ours, home).changes

    assert change.edit.drop == (JsonEntry(("statusLine",), statusline_entry()),)  # type: ignore[union-attr]
    assert change.edit.add[0].value == statusline_entry(home)  # type: ignore[union-attr]


@pytest.mark.parametrize(
    "line",
    [
        f"{os.getpid()} 3 2 {'watcher ' * 10_000}\n",
        f"{os.getpid()} 3 2 watcher\x1b[31m\n",
        f"{os.getpid()} 3 2 Wächter\n",
        f"{os.getpid()} {'9' * 70_000} 2\n",
        f"{os.getpid()} 3 {'9' * 12}\n",
        f"{'1' * 30} 3 2\n",
    ],
    ids=["long", "escape", "letters", "shown", "kept", "pid"],
)
@pytest.mark.parametrize("used", [12, "9" * 5000])
def test_the_line_is_short_and_plain_whatever_the_file_and_the_payload_hold(
    home: Home, line: str, used: object
) -> None:
    put(home, line)
    given = json.dumps(status(), separators=(",", ":")).replace('"used_percentage":12.5', f'"used_percentage":{used}')

    shown = show(home, given.encode())

    assert len(shown) <= 80
    assert shown.rstrip("\n").isprintable()
    assert shown.startswith("Engram: ")


def test_a_killed_worker_is_off_although_its_socket_is_there(home: Home) -> None:
    ended = subprocess.Popen(["true"])
    ended.wait()
    home.worker_lock.write_text(f"{ended.pid}\n0.1.0\n")
    with socket.socket(socket.AF_UNIX) as listener, socket_address(home.recall_socket) as address:
        listener.bind(address)
        assert "not running" in show(home)
        home.worker_lock.write_text(f"{os.getpid()}\n0.1.0\n")
        assert show(home) == "Engram\n"
