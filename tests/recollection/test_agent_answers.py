"""A subagent gets what belongs to its task: once, in its own budget, without touching what its parent gets."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest
from recollecting import FACT, PROMPT, Scene

from engram.enums import Channel, Verdict
from engram.models.sessions.prompt_outcomes import outcomes_of_session
from engram.models.shown import injections
from engram.models.work import work
from engram.recollection.subagents import MAX_AGENT_TOKENS, MAX_TASKS, AgentTask, AgentTasks

TASK = "Find out why the watcher holds a flock and no PID file, and report the reason."


def call(memory: Scene, prompt: object = TASK, *, tool: str = "Agent", kind: str = "Explore", **fields: Any) -> str:
    """The parent calls the tool that starts a subagent."""
    return memory.answer(
        {
            "hook_event_name": "PreToolUse",
            "session_id": "s1",
            "cwd": "/dev/lab/proj",
            "tool_name": tool,
            "tool_input": {"description": "look", "prompt": prompt, "subagent_type": kind},
        }
        | fields
    )


def begin(memory: Scene, agent: str = "a1", kind: str = "Explore", **fields: Any) -> str:
    """What SubagentStart would show; "" for silence."""
    return memory.answer(
        {
            "hook_event_name": "SubagentStart",
            "session_id": "s1",
            "cwd": "/dev/lab/proj",
            "agent_id": agent,
            "agent_type": kind,
        }
        | fields
    )


@pytest.mark.parametrize("tool", ["Agent", "Task"])
def test_a_subagent_gets_what_belongs_to_its_task_and_its_parent_nothing(memory: Scene, tool: str) -> None:
    kept = memory.keep()

    assert call(memory, tool=tool) == ""
    text = begin(memory)

    assert f"[{kept.episode_id}]" in text
    assert FACT in text


def test_it_gets_it_once_and_the_next_one_by_its_own_task(memory: Scene) -> None:
    memory.keep()
    other = memory.keep("The release tag is signed with the key of the maintainer on the build server")
    call(memory)
    call(memory, "Describe how the release tag is signed on the build server.")

    first, second = begin(memory), begin(memory, "a2")

    assert FACT in first
    assert other.episode_id in second
    assert FACT not in second
    assert begin(memory) == ""
    assert begin(memory, "a3") == ""


def test_parallel_subagents_get_the_tasks_of_their_types(memory: Scene) -> None:
    memory.keep()
    call(memory, kind="Explore")
    call(memory, "Write a poem about the green sea in spring.", kind="general-purpose")

    assert begin(memory, "a2", "general-purpose") == ""
    assert FACT in begin(memory, "a1", "Explore")


def test_the_parent_keeps_its_own_bites_and_its_limit(make_memory: Callable[..., Scene]) -> None:
    memory = make_memory(bites=1)
    memory.keep()
    call(memory)
    assert FACT in begin(memory)

    assert FACT in memory.ask(PROMPT)


def test_what_waits_for_the_parent_keeps_waiting(memory: Scene) -> None:
    memory.keep()
    waiting = memory.settings.places.recollections / "s1.pending"
    waiting.parent.mkdir(exist_ok=True)
    waiting.write_bytes(b"waits")
    call(memory)

    assert begin(memory)
    assert waiting.read_bytes() == b"waits"


def test_what_the_parent_was_shown_is_new_to_the_subagent(memory: Scene) -> None:
    memory.keep()
    assert FACT in memory.ask(PROMPT)
    call(memory)

    assert FACT in begin(memory)


def test_it_stands_in_the_ledger_under_the_subagent(memory: Scene) -> None:
    kept = memory.keep()
    call(memory)
    begin(memory)

    (told,) = injections.injections_of_session(memory.store, "s1")
    assert (told.channel, told.prompt_key, told.episode_id) == (Channel.AGENT, "agent:a1", kept.episode_id)
    assert injections.injected_ids(memory.store, "s1") == set()
    (outcome,) = outcomes_of_session(memory.store, "s1")
    assert (outcome.channel, outcome.verdict) == (Channel.AGENT, Verdict.SHOWN)
    assert [candidate.episode_id for candidate in outcome.considered] == [kept.episode_id]


def test_its_budget_is_its_own_and_small(memory: Scene) -> None:
    for number in range(6):
        memory.keep(f"{FACT}, as was decided for reason {'abcdef'[number] * 6} " + "after long tests " * 12)
    call(memory)

    lines = [line for line in begin(memory).splitlines() if line.startswith("- ")]

    assert 1 <= len(lines) <= 3
    assert sum(len(line.partition(": ")[2]) for line in lines) <= MAX_AGENT_TOKENS * 4 + 60


@pytest.mark.parametrize(
    "fields",
    [
        {"tool_name": "Bash"},
        {"tool_input": {"prompt": 7, "subagent_type": "Explore"}},
        {"tool_input": "x"},
        {"session_id": "../x"},
        {"tool_input": {"prompt": "ok", "subagent_type": "Explore"}},
        {"tool_input": {"prompt": "Paint the sea in green colours like Turner did.", "subagent_type": "Explore"}},
    ],
)
def test_without_a_task_that_a_memory_belongs_to_there_is_silence(memory: Scene, fields: dict[str, Any]) -> None:
    memory.keep()
    call(memory, **fields)

    assert begin(memory) == ""


@pytest.mark.parametrize("fields", [{"agent_type": ""}, {"agent_id": ""}, {"agent_id": None}, {"session_id": "s2"}])
def test_helpers_of_claude_code_itself_get_nothing_and_take_no_task(memory: Scene, fields: dict[str, Any]) -> None:
    memory.keep()
    call(memory)

    assert begin(memory, **fields) == ""
    assert FACT in begin(memory)


def test_switched_off_or_paused_there_is_silence(memory: Scene) -> None:
    memory.keep()
    work.pause(memory.store, "", memory.store.now_ms() + 60_000)
    call(memory)

    assert begin(memory) == ""
    assert outcomes_of_session(memory.store, "s1") == []


def test_an_answer_that_came_too_late_was_not_shown(memory: Scene) -> None:
    memory.keep()
    call(memory)
    payload = {"hook_event_name": "SubagentStart", "session_id": "s1", "agent_id": "a1", "agent_type": "Explore"}

    assert memory.service.answer_hook(payload | {"cwd": "/dev/lab/proj"})
    memory.service.came_too_late(payload)
    memory.service.write_down()

    assert injections.injections_of_session(memory.store, "s1") == []
    assert [outcome.verdict for outcome in outcomes_of_session(memory.store, "s1")] == [Verdict.TOO_LATE]


def test_hooks_that_are_registered_twice_give_one_answer(memory: Scene) -> None:
    memory.keep()
    memory.keep("The release tag is signed with the key of the maintainer on the build server")
    for _ in range(2):
        call(memory, tool_use_id="toolu_1")
    for _ in range(2):
        call(memory, "Describe how the release tag is signed on the build server.", tool_use_id="toolu_2")

    answers = [begin(memory, agent) for agent in ("a1", "a1", "a2", "a2")]

    assert [FACT in answer for answer in answers] == [True, False, False, False]
    assert ["release tag" in answer for answer in answers] == [False, False, True, False]


def test_the_task_of_a_refused_call_is_not_given_to_the_subagent_of_another_prompt(memory: Scene) -> None:
    memory.keep()
    call(memory, "Describe how the release tag is signed on the build server.", prompt_id="p1")
    call(memory, prompt_id="p2")

    assert FACT in begin(memory, prompt_id="p2")


def test_a_start_that_is_faster_than_its_task_waits_for_it() -> None:
    tasks = AgentTasks()
    taken: list[str] = []
    waiting = threading.Thread(target=lambda: taken.append(tasks.take("s1", "a1", "Explore", wait_seconds=60)))

    waiting.start()
    tasks.note("s1", AgentTask("c1", "Plan", "", "another"))
    tasks.note("s1", AgentTask("c2", "Explore", "", "look"))
    waiting.join(60)

    assert taken == ["look"]


def test_tasks_without_subagents_are_bounded() -> None:
    tasks = AgentTasks()
    for number in range(100):
        tasks.note("s1", AgentTask(f"c{number}", "Explore", "", f"task {number}"))

    assert tasks.take("s1", "a1", "Explore") == f"task {100 - MAX_TASKS}"
