"""The real Claude Code with the plugin: what reaches the model, what may be called, and what runs twice."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from claude_binary import StandInServer
from claude_lab import BITE, FACT, FAILING, TASK, Lab, is_of_subagent, tool_results

from engram.enums import Channel

pytestmark = pytest.mark.timeout(300)

PROMPT = "Why does the watcher wake every 40 s although inotify tells it of file events?"
TOOL = "mcp__plugin_engram_engram__memory_{}"
Model = Callable[..., StandInServer]


def mains(server: StandInServer) -> list[dict[str, Any]]:
    """The requests of the main conversation."""
    return [request for request in server.requests if request.get("tools") and not is_of_subagent(request)]


def results(server: StandInServer) -> str:
    """Every tool result of the main conversation, as text."""
    last = mains(server)[-1]
    contents = [message["content"] for message in last["messages"] if isinstance(message["content"], list)]
    return json.dumps([block for blocks in contents for block in blocks if block.get("type") == "tool_result"])


def test_briefing_bites_and_tools_are_in_the_first_request_and_work(lab: Lab, model: Model) -> None:
    lab.connect(by_plugin=True)
    server = model([(TOOL.format("recall"), {"query": PROMPT}), ("Skill", {"skill": "engram:memory"})])

    lab.run(server, PROMPT)

    told = json.dumps(mains(server)[0]["messages"])
    assert "SessionStart hook additional context" in told
    assert "UserPromptSubmit hook additional context" in told
    assert (told.count(FACT), told.count(BITE)) == (1, 1)
    names = {tool["name"] for tool in mains(server)[0]["tools"]}
    assert {TOOL.format(name) for name in ("recall", "expand", "save")} <= names
    assert BITE in results(server)
    assert "supersedes" in json.dumps(server.requests[-1]["messages"])


def test_a_command_that_needs_approval_still_needs_it(lab: Lab, model: Model) -> None:
    lab.allowed = []
    lab.connect(by_plugin=True, by_settings=True)
    marker = lab.project / "marker"
    server = model([("Bash", {"command": f"touch {marker}", "description": "x"})])

    answer = lab.run(server, PROMPT, "--permission-mode", "default")

    assert not marker.exists()
    assert [denial["tool_name"] for denial in answer["permission_denials"]] == ["Bash"]
    assert BITE in json.dumps(mains(server)[0]["messages"])


def test_registered_twice_each_thing_is_shown_once(lab: Lab, model: Model) -> None:
    lab.connect(by_settings=True, by_plugin=True)
    agent = {"description": "look", "prompt": TASK, "subagent_type": "general-purpose"}
    failing = ("Bash", {"command": FAILING, "description": "x"})
    server = model([failing, ("Agent", agent)], [])

    lab.run(server, PROMPT)

    told = json.dumps(mains(server)[-1]["messages"])
    assert (told.count(FACT), told.count(BITE)) == (1, 1)
    assert told.count("PostToolUseFailure:Bash hook additional context") == 1
    agents = json.dumps(next(request for request in server.requests if is_of_subagent(request))["messages"])
    assert agents.count("SubagentStart hook additional context") == 1
    shown = [(row.channel, row.prompt_key, row.episode_id) for row in lab.injected()]
    assert len(shown) == len(set(shown))
    assert {Channel.ERROR, Channel.AGENT} <= {channel for channel, _, _ in shown}
    assert tool_results(mains(server)[-1]) == 2
