"""The real Claude Code with the hooks and a worker's server: what reaches the model after an error, and a subagent."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from claude_binary import StandInServer
from claude_lab import FACT, FAILING, TASK, Call, Lab, calling, is_of_subagent, open_lab, tool_results
from hook_runs import Hooks

from engram.enums import Channel

pytestmark = pytest.mark.timeout(300)

#: Sessions that are tried until one is told something.
MAX_SESSIONS = 4


@pytest.fixture
def lab(hooks: Hooks, tmp_path: Path) -> Iterator[Lab]:
    with open_lab(tmp_path, hooks.home) as opened:
        opened.connect(by_settings=True)
        yield opened


@pytest.fixture
def model() -> Iterator[Callable[[list[Call], list[Call]], StandInServer]]:
    """Starts a model that makes the given calls in the main conversation and in that of a subagent."""
    servers: list[StandInServer] = []

    def start(calls: list[Call], of_subagent: list[Call]) -> StandInServer:
        servers.append(calling(calls, of_subagent))
        return servers[-1]

    yield start
    for server in servers:
        server.close()


def run_until_told(lab: Lab, start: Callable[[], StandInServer], channel: Channel) -> StandInServer:
    """Run sessions until one was told something; returns its model. A hook on a busy machine is silent in time."""
    for _ in range(MAX_SESSIONS):
        server = start()
        lab.run(server)
        if any(row.channel == channel for row in lab.injected()):
            break
    return server


def test_after_a_failing_command_the_next_request_has_the_line(lab: Lab, model: Callable[..., StandInServer]) -> None:
    calls = [("Bash", {"command": FAILING, "description": "x"})]

    server = run_until_told(lab, lambda: model(calls, []), Channel.ERROR)

    (after,) = [request for request in server.requests if tool_results(request) == 1]
    text = json.dumps(after["messages"])
    assert "PostToolUseFailure:Bash hook additional context" in text
    assert "failed like this and passed as" in text
    (told,) = [row for row in lab.injected() if row.channel == Channel.ERROR]
    assert told.state == "shown"


def test_a_subagent_has_its_bites_in_its_first_request_and_its_parent_has_none(
    lab: Lab, model: Callable[..., StandInServer]
) -> None:
    given = {"description": "look", "prompt": TASK, "subagent_type": "general-purpose"}

    server = run_until_told(lab, lambda: model([("Agent", given)], []), Channel.AGENT)

    first = next(request for request in server.requests if is_of_subagent(request))
    assert FACT in json.dumps(first["messages"])
    assert "SubagentStart hook additional context" in json.dumps(first["messages"])
    parents = [request["messages"] for request in server.requests if not is_of_subagent(request)]
    assert "SubagentStart hook" not in json.dumps(parents)
    (told,) = [row for row in lab.injected() if row.channel == Channel.AGENT]
    assert told.prompt_key.startswith("agent:")


def test_a_subagents_failing_command_gets_the_line_in_its_own_context(
    lab: Lab, model: Callable[..., StandInServer]
) -> None:
    given = {"description": "look", "prompt": TASK, "subagent_type": "general-purpose"}
    failing = [("Bash", {"command": FAILING, "description": "x"})]

    server = run_until_told(lab, lambda: model([("Agent", given)], failing), Channel.ERROR)

    told = [request for request in server.requests if "failed like this and passed as" in json.dumps(request)]
    assert told
    assert all(is_of_subagent(request) for request in told)
