"""A memory of a branch that was never merged is not told on another branch as true."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner

from engram.cli.main import engram
from engram.consolidation.git_staleness import read_branches
from engram.models.memories.memory_records import Memory
from engram.recollection.recollection_service import RecollectionService
from engram.search.hit_lines import remarks_of
from engram.search.hits import PublicHit
from engram.search.question import Query
from engram.search.searcher import Searcher
from engram_mcp import tools
from engram_mcp.access import Access
from tests.branch_sessions import Workshop

SUMMARY = "The watcher holds watcher.lock by flock, never by a PID file"
PROMPT = "Why does the watcher hold a flock and no PID file?"
NOTE = "on branch feat/x, not merged"


@pytest.fixture
def learned(workshop: Workshop) -> Memory:
    """A memory of a session on a branch with a commit; the repository is on main."""
    workshop.repository.git("switch", "-q", "-c", "feat/x")
    workshop.repository.commit("work", a="1\n")
    workshop.repository.git("switch", "-q", "main")
    workshop.work("feat/x", "How should the watcher hold its lock, by flock or by a PID file?", SUMMARY)
    memory = workshop.learn(SUMMARY)
    read_branches(workshop.store, workshop.settings, only_lively=True)
    return memory


def ask(workshop: Workshop, session: str = "s1") -> str:
    """What UserPromptSubmit shows in the repository."""
    searcher = Searcher(workshop.store, workshop.settings)
    service = RecollectionService(workshop.store, searcher, workshop.settings)
    payload = {
        "hook_event_name": "UserPromptSubmit",
        "session_id": session,
        "cwd": str(workshop.repository.root),
        "prompt": PROMPT,
    }
    output = service.answer_hook(payload)
    return str(json.loads(output)["hookSpecificOutput"]["additionalContext"]) if output else ""


def test_a_bite_says_on_another_branch_that_its_own_was_not_merged(workshop: Workshop, learned: Memory) -> None:
    assert f"{learned.episode_id}] " in ask(workshop)
    assert NOTE in ask(workshop, "s2")


@pytest.mark.parametrize("branch", ["main", "feat/x"])
def test_a_subagent_is_told_of_the_branch_only_on_another_one(workshop: Workshop, learned: Memory, branch: str) -> None:
    workshop.repository.git("switch", "-q", branch)
    service = RecollectionService(workshop.store, Searcher(workshop.store, workshop.settings), workshop.settings)
    asked = {"session_id": "s1", "cwd": str(workshop.repository.root)}
    call = {"tool_name": "Agent", "tool_input": {"prompt": PROMPT, "subagent_type": "Explore"}}
    service.answer_hook(asked | call | {"hook_event_name": "PreToolUse"})
    begun = {"hook_event_name": "SubagentStart", "agent_id": "a1", "agent_type": "Explore"}
    told = service.answer_hook(asked | begun).decode()

    assert learned.episode_id in told
    assert (NOTE in told) == (branch == "main")


def test_on_its_own_branch_and_after_the_merge_it_is_told_as_true(workshop: Workshop, learned: Memory) -> None:
    workshop.repository.git("switch", "-q", "feat/x")
    own = ask(workshop, "s3")
    workshop.repository.git("switch", "-q", "main")
    workshop.repository.git("merge", "-q", "--no-ff", "feat/x")
    read_branches(workshop.store, workshop.settings, only_lively=True)
    merged = ask(workshop, "s4")

    assert learned.episode_id in own
    assert learned.episode_id in merged
    assert "not merged" not in own + merged


def test_expand_says_it_too_by_command_and_tool(
    workshop: Workshop, learned: Memory, monkeypatch: pytest.MonkeyPatch
) -> None:
    root, settings = workshop.repository.root, workshop.settings
    monkeypatch.chdir(root)

    def expand() -> str:
        """Everything that command and tool say of the memory in the repository."""
        told = tools.expand(Access(settings, str(root)), learned.episode_id)
        printed = [
            CliRunner().invoke(engram, ["--home", str(settings.home), "expand", learned.episode_id, *flags])
            for flags in ([], ["--json"])
        ]
        assert [result.exit_code for result in printed] == [0, 0]
        assert learned.summary in told
        return f"{told}\n{printed[0].output}\n{json.loads(printed[1].output)['unmerged_branch']}"

    on_main = expand()
    workshop.repository.git("switch", "-q", "feat/x")
    on_branch = expand()
    workshop.repository.git("switch", "-q", "main")
    workshop.repository.git("merge", "-q", "--no-ff", "feat/x")
    read_branches(workshop.store, settings, only_lively=True)

    assert on_main.count(NOTE) == 2
    assert on_main.endswith("\nfeat/x")
    assert "not merged" not in on_branch + expand()


def test_it_sinks_below_a_memory_that_holds_here(workshop: Workshop, learned: Memory) -> None:
    workshop.work("main", session="two")
    here = workshop.learn(SUMMARY.replace("watcher.lock", "its lock"), ["two"])
    searcher = Searcher(workshop.store, workshop.settings)

    on_main = searcher.recall(Query("watcher.lock flock PID", project_id=workshop.project.id, branch="main"))
    on_branch = searcher.recall(Query("watcher.lock flock PID", project_id=workshop.project.id, branch="feat/x"))

    assert [hit.id for hit in on_main] == [here.episode_id, learned.episode_id]
    assert [hit.id for hit in on_branch] == [learned.episode_id, here.episode_id]
    assert on_main[1].parts["branch"] < 0
    assert remarks_of(PublicHit.of(on_main[1])) == [NOTE]
    assert remarks_of(PublicHit.from_json(PublicHit.of(on_main[1]).to_json())) == [NOTE]
    assert [remarks_of(PublicHit.of(hit)) for hit in on_branch] == [[], []]
