"""PreToolUse: what is pending is handed over once, to the session itself, and nothing else ever is."""

from __future__ import annotations

import os
import subprocess
import threading
import time
from pathlib import Path

import pytest
from hook_runs import Hooks, Payload
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from engram.paths import Home
from engram.recollection.hook_files import RecollectionFiles
from engram.recollection.render_bites import hook_output

BITES = hook_output("PreToolUse", "A note about \"flock\" with a \\ and 'quotes'.\nAnd a second line: $HOME `id` %s")
SESSION = "4d5305c0-d908-490f-9de8-316cdfa26529"
CALL = b'{"session_id":"4d5305c0-d908-490f-9de8-316cdfa26529","tool_name":"Read","tool_input":{"file_path":"/a"}}'


def test_nothing_pending_prints_nothing(hooks: Hooks) -> None:
    assert hooks.run("PreToolUse", CALL, session=SESSION).is_silent


def test_what_is_pending_is_handed_over_exactly_once_and_leaves_a_receipt(hooks: Hooks) -> None:
    files = RecollectionFiles(hooks.home.recollections)
    files.put(SESSION, BITES)

    first, second = (hooks.run("PreToolUse", CALL, session=SESSION) for _ in range(2))

    assert first.output == BITES
    assert first.context.startswith('A note about "flock"')
    assert second.is_silent
    assert [receipt.session_id for receipt in files.receipts()] == [SESSION]


def test_what_is_pending_in_a_vault_is_handed_over_from_there(hooks: Hooks) -> None:
    for name in ("acme", "my client"):
        Home(hooks.home.root / "vaults" / name).prepare()
    files = RecollectionFiles(hooks.home.root / "vaults" / "my client" / "recollections")
    files.put(SESSION, BITES)

    first, second = (hooks.run("PreToolUse", CALL, session=SESSION) for _ in range(2))

    assert (first.output, second.is_silent) == (BITES, True)
    assert [receipt.session_id for receipt in files.receipts()] == [SESSION]
    assert list(hooks.home.recollections.iterdir()) == []


@pytest.mark.parametrize("name", ["PreToolUse-Read-0", "PreToolUse-Bash-0", "PreToolUse-Agent-0"])
def test_a_real_payload_gets_what_is_pending(hooks: Hooks, payload: Payload, name: str) -> None:
    sent = payload(name)
    RecollectionFiles(hooks.home.recollections).put(sent["session_id"], BITES)

    run = hooks.run("PreToolUse", sent, session=sent["session_id"])

    assert run.output == (b"" if "agent_id" in sent else BITES)


def test_a_subagents_call_leaves_the_bites_of_its_parent_alone(hooks: Hooks, payload: Payload) -> None:
    sent = {"agent_id": "a1", "agent_type": "Explore"} | payload("PreToolUse-Read-0")
    files = RecollectionFiles(hooks.home.recollections)
    files.put(sent["session_id"], BITES)

    assert hooks.run("PreToolUse", sent, session=sent["session_id"]).is_silent
    assert files.is_pending(sent["session_id"])


@pytest.mark.parametrize("name", ["PreToolUse-Read-0", "PreToolUse-Bash-0", "PreToolUse-Agent-0"])
def test_a_call_of_a_mod_leaves_the_bites_to_the_session(hooks: Hooks, payload: Payload, name: str) -> None:
    sent = {key: value for key, value in payload(name).items() if key != "agent_id"} | {"tool_use_id": "toolu_plugin_1"}
    files = RecollectionFiles(hooks.home.recollections)
    files.put(sent["session_id"], BITES)

    assert hooks.run("PreToolUse", sent, session=sent["session_id"]).is_silent
    assert files.is_pending(sent["session_id"])
    assert hooks.run("PreToolUse", sent | {"tool_use_id": "toolu_01"}, session=sent["session_id"]).output == BITES


def test_of_many_calls_at_once_one_gets_the_bites(hooks: Hooks) -> None:
    RecollectionFiles(hooks.home.recollections).put(SESSION, BITES)
    outputs: list[bytes] = []
    threads = [
        threading.Thread(target=lambda: outputs.append(hooks.run("PreToolUse", CALL, session=SESSION).output))
        for _ in range(6)
    ]

    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert sorted(outputs) == [b""] * 5 + [BITES]


@pytest.mark.parametrize(
    "session",
    [
        "../outside",
        "../../home/recollections/x",
        "/etc/passwd",
        "a b",
        "a\nb",
        "*",
        "$(id)",
        "ä",
        "x" * 129,
        "a/b",
        ".",
    ],
)
def test_a_session_id_that_is_none_gets_nothing(hooks: Hooks, session: str) -> None:
    for place in (hooks.home.root / "outside.pending", hooks.home.recollections / "x.pending"):
        place.write_bytes(BITES)

    assert hooks.run("PreToolUse", CALL, session=session).is_silent
    assert (hooks.home.root / "outside.pending").exists()


def test_without_a_session_id_nothing_is_handed_over(hooks: Hooks) -> None:
    (hooks.home.recollections / ".pending").write_bytes(BITES)

    assert hooks.run("PreToolUse", CALL).is_silent


def test_bites_older_than_five_minutes_are_not_handed_over(hooks: Hooks) -> None:
    RecollectionFiles(hooks.home.recollections).put(SESSION, BITES)
    old = time.time() - 301
    os.utime(hooks.home.recollections / f"{SESSION}.pending", (old, old))

    assert hooks.run("PreToolUse", CALL, session=SESSION).is_silent


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\0\xff\xfe" * 50,
        b"plain words",
        BITES[:-4],
        BITES[10:],
        b"[" + BITES + b"]",
        BITES + b"x" * 70_000,
        b'{"hookSpecificOutput":{"hookEventName":"PreToolUse","permissionDecision":"allow","additionalContext":"x"}}',
        b'{"hookSpecificOutput":{"hookEventName":"PreToolUse","additionalContext":"x","updatedInput":{}}}',
        b'{"hookSpecificOutput":{"additionalContext":"x"},"continue":false,"a":{"b":{}}}',
        b'{"hookSpecificOutput":{"additionalContext":"x"},"decision":{"behavior":{}}}',
    ],
)
def test_a_pending_file_of_any_other_form_is_not_printed(hooks: Hooks, data: bytes) -> None:
    (hooks.home.recollections / f"{SESSION}.pending").write_bytes(data)

    assert hooks.run("PreToolUse", CALL, session=SESSION).is_silent


@pytest.mark.parametrize("kind", ["fifo", "folder", "link"])
@pytest.mark.parametrize("suffix", ["pending", "injected"])
def test_something_else_in_place_of_a_file_prints_nothing(hooks: Hooks, tmp_path: Path, kind: str, suffix: str) -> None:
    place = hooks.home.recollections / f"{SESSION}.{suffix}"
    if suffix == "injected":
        (hooks.home.recollections / f"{SESSION}.pending").write_bytes(BITES)
    if kind == "fifo":
        os.mkfifo(place)
    elif kind == "folder":
        place.mkdir()
    else:
        (tmp_path / "secret").write_bytes(BITES)
        place.symlink_to(tmp_path / "secret")

    run = hooks.run("PreToolUse", CALL, session=SESSION)

    assert (run.status, run.errors) == (0, b"")
    assert run.output in ((b"",) if suffix == "pending" else (b"", BITES))


def test_the_script_needs_nothing_but_a_shell_when_nothing_is_pending(hooks: Hooks) -> None:
    done = subprocess.run(
        ["/bin/sh", "-c", hooks.commands["PreToolUse"]],
        input=CALL,
        capture_output=True,
        env={"ENGRAM_HOME": str(hooks.home.root), "PATH": "/nowhere", "CLAUDE_CODE_SESSION_ID": SESSION},
        check=False,
    )

    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.text(min_size=1, max_size=400))
@example("stop")
def test_any_text_comes_through_as_it_is(hooks: Hooks, text: str) -> None:
    RecollectionFiles(hooks.home.recollections).put(SESSION, hook_output("PreToolUse", text))

    assert hooks.run("PreToolUse", CALL, session=SESSION).context == text
