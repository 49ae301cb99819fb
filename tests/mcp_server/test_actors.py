"""Every tool that changes a memory: its history names the agent, by the tool itself."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

import engram_mcp
from engram.enums import Actor, Scope
from engram.errors import BadRequest
from engram.memories.save import save_memory
from engram.models.memories.memory_history import history_of
from engram.models.open_memory import open_store
from engram.settings import Settings
from engram_mcp.access import Access
from engram_mcp.catalog import TOOLS, answer

#: Tools that change memories, each used below.
CHANGING = {"memory_save", "memory_correct", "memory_feedback", "memory_pin", "memory_forget"}
#: Tools that change none; ``memory_expand`` counts a use.
READING = {
    "memory_recall",
    "memory_expand",
    "memory_search",
    "memory_get",
    "memory_status",
    "memory_timeline",
    "memory_context",
}


class Desk:
    """The tools of one server, and the history of what they did."""

    def __init__(self, settings: Settings, folder: Path) -> None:
        self._settings = settings
        self._access = Access(settings, str(folder))

    def call(self, tool: str, **arguments: object) -> str:
        """Call a tool; returns its answer."""
        return TOOLS[tool].work(self._access, **arguments)

    def command(self, tool: str, **arguments: object) -> str:
        """Call a tool as a command that the user typed does; returns its answer."""
        return answer(lambda: self._access, tool, arguments, is_users=True)[0]

    def save(self, content: str, **arguments: object) -> str:
        """Save a memory; returns its id."""
        said = self.call("memory_save", content=content, scope="global", importance="normal", **arguments)
        return re.findall(r"ID: (ep_[0-9a-f]{12})", said)[0]

    def steps(self, episode_id: str) -> list[tuple[str, str]]:
        """``(action, actor)`` of a memory's history."""
        with open_store(self._settings.places.memory_db) as store:
            return [(step.action, step.actor) for step in history_of(store, episode_id)]


@pytest.fixture
def settings_of(tmp_path: Path) -> Settings:
    """The settings of ``desk``."""
    return Settings(home=tmp_path / "home", claude_folder=tmp_path / "claude")


@pytest.fixture
def desk(settings_of: Settings, tmp_path: Path) -> Desk:
    settings_of.places.prepare()
    open_store(settings_of.places.memory_db).close()
    (tmp_path / "work").mkdir()
    return Desk(settings_of, tmp_path / "work")


def test_every_tool_is_known_to_change_memories_or_not() -> None:
    assert set(TOOLS) == CHANGING | READING
    assert engram_mcp.READING == READING


def test_what_an_agent_does_is_the_agents(desk: Desk) -> None:
    first = desk.save("Deploy on Friday.")
    desk.call("memory_pin", id=first)
    desk.call("memory_pin", id=first, on=False)
    second = desk.save("Never deploy on Friday.", supersedes=first)
    said = desk.call("memory_correct", id=second, text="Deploy daily.", why="a better rule")
    third = re.findall(r"ID: (ep_[0-9a-f]{12})", said)[0]

    agent = str(Actor.AGENT)
    assert desk.steps(first) == [("save", agent), ("pin", agent), ("unpin", agent), ("supersede", agent)]
    assert desk.steps(second) == [("save", agent), ("supersede", agent)]
    assert desk.steps(third) == [("correct", agent)]
    desk.call("memory_feedback", id=third, verdict="helpful", why="it helped")
    assert desk.steps(third)[-1] == ("helpful", agent)

    desk.call("memory_forget", id=third)

    assert desk.steps(second)[-1] == ("restore", agent)
    assert desk.steps(third) == []


def test_what_the_users_command_does_is_the_users_and_no_agent_undoes_it(desk: Desk) -> None:
    saved = desk.save("Deploy on Friday.", pin=True)

    refused = answer_of(lambda: desk.call("memory_feedback", id=saved, verdict="wrong", why="I think so"))
    desk.command("memory_feedback", id=saved, verdict="wrong", why="it is")
    kept = answer_of(lambda: desk.call("memory_feedback", id=saved, verdict="take back", why="I think so"))
    desk.command("memory_feedback", id=saved, verdict="take back", why="it was not")
    nothing = desk.command("memory_feedback", id=saved, verdict="take back", why="again")
    desk.command("memory_pin", id=saved, on=False)
    desk.call("memory_feedback", id=saved, verdict="helpful", why="it helped")
    desk.call("memory_feedback", id=saved, verdict="take back", why="it did not")

    assert "ask the user" in refused
    assert "no agent judged" in kept
    assert "nothing to withdraw" in nothing
    user, agent = str(Actor.USER), str(Actor.AGENT)
    assert desk.steps(saved)[1:] == [
        ("bad", user),
        ("take back", user),
        ("unpin", user),
        ("helpful", agent),
        ("take back", agent),
    ]


@pytest.mark.parametrize("way", ["pinned", "saved", "pinned again"])
def test_what_the_user_pinned_no_agent_unpins(desk: Desk, settings_of: Settings, way: str) -> None:
    with open_store(settings_of.places.memory_db) as store:
        made = save_memory(
            store, "Deploy on Friday.", str, scope=Scope.GLOBAL, actor=Actor.USER, is_pinned=way == "saved"
        )
    if way == "pinned again":
        desk.call("memory_pin", id=made.episode_id)
        desk.command("memory_pin", id=made.episode_id, on=False)
    if way != "saved":
        desk.command("memory_pin", id=made.episode_id)

    refused = answer_of(lambda: desk.call("memory_pin", id=made.episode_id, on=False))

    assert f"`engram pin {made.episode_id} --off`" in refused
    assert "\n" not in refused
    desk.command("memory_pin", id=made.episode_id, on=False)
    assert desk.steps(made.episode_id)[-1] == ("unpin", str(Actor.USER))


def test_an_agent_unpins_what_an_agent_pinned(desk: Desk) -> None:
    saved = desk.save("Deploy on Friday.", pin=True)

    desk.call("memory_pin", id=saved, on=False)

    assert desk.steps(saved)[-1] == ("unpin", str(Actor.AGENT))


def answer_of(call: Callable[[], str]) -> str:
    """The error that a call ends with."""
    with pytest.raises(BadRequest) as refused:
        call()
    return str(refused.value)


def test_expand_says_who_changed_it(desk: Desk, settings_of: Settings) -> None:
    with open_store(settings_of.places.memory_db) as store:
        made = save_memory(store, "Tabs are four wide.", str, scope=Scope.GLOBAL, actor=Actor.USER).episode_id
    desk.call("memory_pin", id=made)

    shown = desk.call("memory_expand", id=made)

    assert re.search(r": save by user$", shown, re.MULTILINE)
    assert re.search(r": pin by agent: by hand$", shown, re.MULTILINE)
