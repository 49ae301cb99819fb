"""Hooks against the worker's own server: bites in the same turn, or at the next tool call, never twice, never three
more.
"""

from __future__ import annotations

import json
import os
import threading
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest
from hook_runs import HookRun, Hooks, Payload, sent_before

from engram.enums import Actor, Kind
from engram.models.engine.transaction import Store
from engram.models.memories.memory_changes import add_memory
from engram.models.memories.memory_records import Evidence, Memory, new_memory_id
from engram.models.open_memory import open_store
from engram.models.projects import projects
from engram.models.shown import injections
from engram.recollection.recollection_service import RecollectionService
from engram.recollection.render_bites import hook_output
from engram.search.searcher import Hit, Query, Searcher
from engram.search.support import Support
from engram.settings import Settings
from engram.tasks.runtime import Runtime
from engram.worker.socket_server import RecallServer

#: Sessions in which an answer may be too late for the hooks.
MAX_ATTEMPTS = 20
PROMPT = "Why does the watcher hold a flock and no PID file?"


@dataclass
class SlowSearcher:
    """The real search, that can be held up."""

    searcher: Searcher
    go_on: threading.Event = field(default_factory=threading.Event)

    def recall(self, query: Query) -> list[Hit]:
        """Wait until it may go on, then search."""
        self.go_on.wait(60)
        return self.searcher.recall(query)

    def support(self, query: Query, hits: Sequence[Hit]) -> Support:
        """As the real one."""
        return self.searcher.support(query, hits)

    def refresh(self) -> int:
        """As the real one."""
        return self.searcher.refresh()


@dataclass
class Live:
    """A served memory."""

    store: Store
    search: SlowSearcher
    server: RecallServer

    def keep(self, summary: str, **fields: Any) -> Memory:
        """Keep a decision, which every hook tells."""
        made = Memory(new_memory_id(), Kind.DECISION, summary, summary, **({"quality": 0.75} | fields))
        with self.store.transaction() as tx:
            return add_memory(tx, made, [Evidence("11111111-1111-1111-1111-111111111111")], actor=Actor.MODEL)


@pytest.fixture
def live(hooks: Hooks) -> Iterator[Live]:
    """The worker's server over a memory with one project and one fact."""
    settings = Settings(home=hooks.home.root, embedding_model="hashed")
    store = open_store(hooks.home.memory_db)
    search = SlowSearcher(Searcher(store, settings))
    search.go_on.set()
    recollection = RecollectionService(store, search, settings)
    server = RecallServer(Runtime(settings, store, search, recollection)).start()  # type: ignore[arg-type]
    found = Live(store, search, server)
    with store.transaction() as tx:
        project = projects.ensure_project(tx, "/home/dev/lab/proj", "proj", "/home/dev/lab/proj")
    found.keep("The watcher holds watcher.lock by flock, never by a PID file", project_id=project.id)
    yield found
    search.go_on.set()
    server.close()
    store.close()


def asked(payload: Payload, text: str = PROMPT, **fields: Any) -> dict[str, Any]:
    """A real payload with another prompt."""
    return payload("UserPromptSubmit-0") | {"prompt": text} | fields


def test_a_real_payload_gets_bites_in_the_same_turn_and_leaves_nothing_pending(
    hooks: Hooks, live: Live, payload: Payload
) -> None:
    sent, first = answered(hooks, "UserPromptSubmit", asked(payload))

    assert "watcher.lock by flock" in first.context
    assert hooks.run("UserPromptSubmit", sent).is_silent
    assert hooks.run("PreToolUse", payload("PreToolUse-Bash-0"), session=sent["session_id"]).is_silent


def answered(hooks: Hooks, event: str, sent: dict[str, Any]) -> tuple[dict[str, Any], HookRun]:
    """Send a payload in new sessions until it is answered in time, which a busy machine may prevent.

    Return the payload that was answered, and its run.
    """
    for _ in range(MAX_ATTEMPTS):
        tried = sent | {"session_id": str(uuid.uuid4())}
        run = hooks.run(event, tried)
        assert (run.status, run.errors) == (0, b"")
        if run.output:
            return tried, run
    raise AssertionError(f"no hook was answered in {MAX_ATTEMPTS} sessions")


def at_once(hooks: Hooks, event: str, sent: dict[str, Any], number: int = 2) -> list[bytes]:
    """What several hooks say that get the same payload at the same moment, as where they are registered twice."""
    payloads = [sent_before(json.dumps(sent).encode()) for _ in range(number)]
    started = [hooks.start(event, session=sent["session_id"], stdin=payload) for payload in payloads]
    for payload in payloads:
        os.close(payload)
    said = [hook.stdout.read() for hook in started]
    for hook in started:
        assert (hook.wait(60), hook.stderr.read()) == (0, b"")
        hook.stdout.close()
        hook.stderr.close()
    return [output for output in said if output]


def answered_once(hooks: Hooks, event: str, sent: dict[str, Any]) -> str:
    """Send a payload twice at the same moment, in new sessions until one is answered in time; return that session.

    On a busy machine both hooks may give up before the answer.
    """
    for _ in range(MAX_ATTEMPTS):
        session_id = str(uuid.uuid4())
        said = at_once(hooks, event, sent | {"session_id": session_id})
        assert len(said) <= 1
        if said:
            return session_id
    raise AssertionError(f"no hook was answered in {MAX_ATTEMPTS} sessions")


@pytest.mark.parametrize("prompt_id", ["p1", None])
def test_two_hooks_at_once_give_one_answer_for_a_prompt(
    hooks: Hooks, live: Live, payload: Payload, prompt_id: str | None
) -> None:
    for word in ("socket", "queue", "database", "folder", "daemon", "supervisor"):
        live.keep(f"{word} {word} flock watcher PID file", scope="global")
    sent = asked(payload)
    if prompt_id is None:
        del sent["prompt_id"]

    session_id = answered_once(hooks, "UserPromptSubmit", sent)
    assert len(injections.injections_of_session(live.store, session_id)) <= 3


@pytest.mark.parametrize("name", ["startup-0", "clear-0", "compact-0"])
def test_two_hooks_at_once_give_one_briefing(hooks: Hooks, live: Live, payload: Payload, name: str) -> None:
    answered_once(hooks, "SessionStart", payload(f"SessionStart-{name}"))


def test_two_hooks_at_once_hand_over_once_what_waits(hooks: Hooks, live: Live, payload: Payload) -> None:
    call = payload("PreToolUse-Bash-0")
    (hooks.home.recollections / f"{call['session_id']}.pending").write_bytes(hook_output("PreToolUse", "one note"))

    assert len(at_once(hooks, "PreToolUse", call, 4)) == 1


def test_another_project_sees_global_memories_alone(hooks: Hooks, live: Live, payload: Payload) -> None:
    elsewhere = {"session_id": "another-session", "cwd": "/home/dev/lab/other"}
    assert hooks.run("UserPromptSubmit", asked(payload, **elsewhere)).is_silent

    live.keep("flock is used for every PID file question of a watcher", scope="global")

    asked_next = asked(payload, **elsewhere, prompt_id="the-next-prompt")
    assert "every PID file question" in hooks.run("UserPromptSubmit", asked_next).context


def test_an_answer_that_comes_too_late_is_handed_over_at_the_next_tool_call_once(
    hooks: Hooks, live: Live, payload: Payload
) -> None:
    sent = asked(payload)
    session = sent["session_id"]
    live.search.go_on.clear()
    assert hooks.run("UserPromptSubmit", sent).is_silent

    live.search.go_on.set()
    pending = hooks.home.recollections / f"{session}.pending"
    waited = threading.Event()
    for _ in range(600):
        if pending.exists():
            break
        waited.wait(0.05)

    call = payload("PreToolUse-Bash-0")
    assert hooks.run("PreToolUse", call | {"agent_id": "a1"}, session=session).is_silent
    assert "watcher.lock by flock" in hooks.run("PreToolUse", call, session=session).context
    assert hooks.run("PreToolUse", call, session=session).is_silent
    assert len(injections.injections_of_session(live.store, session)) == 1


@pytest.mark.parametrize(
    ("name", "is_briefed"),
    [("startup-0", True), ("clear-0", True), ("compact-0", True), ("resume-0", False), ("fork-0", False)],
)
def test_a_session_is_briefed_at_its_start_and_not_where_it_is_replayed(
    hooks: Hooks, live: Live, payload: Payload, name: str, is_briefed: bool
) -> None:
    sent = payload(f"SessionStart-{name}")

    if not is_briefed:
        assert hooks.run("SessionStart", sent).is_silent
        return
    _, run = answered(hooks, "SessionStart", sent)
    assert b"watcher.lock by flock" in run.output
    assert json.loads(run.output)["hookSpecificOutput"]["hookEventName"] == "SessionStart"


@pytest.mark.parametrize("sent", [b"[]", b"\xff", b"{", b'{"hook_event_name":7}', b'{"op":"status"}'])
def test_what_is_not_a_hook_payload_prints_nothing(hooks: Hooks, live: Live, sent: bytes) -> None:
    assert hooks.run("UserPromptSubmit", sent).is_silent


def test_a_memory_that_cannot_be_read_prints_nothing(hooks: Hooks, live: Live, payload: Payload) -> None:
    with live.store.transaction() as tx:
        tx.run("DROP TABLE injection")

    assert hooks.run("UserPromptSubmit", asked(payload)).is_silent
