"""Branch truth: what was learned on a branch that was never merged is known as such, and a merge confirms it."""

from __future__ import annotations

from pathlib import Path

import pytest

from engram.consolidation.consolidation_run import consolidate
from engram.consolidation.git_staleness import read_branches
from engram.enums import Actor, BranchState, Kind, Scope, Source, Status
from engram.forgetting.whole_project import forget_project
from engram.models.memories import branches
from engram.models.memories.branches import MAX_BRANCHES, open_branches
from engram.models.memories.memory_history import history_of
from engram.models.open_memory import open_store
from engram.models.work.work import pause
from engram.settings import Settings
from tests.branch_sessions import Workshop, todo_list


def commit_on(workshop: Workshop, branch: str, **files: str) -> str:
    """Make a branch with a commit, and return to main."""
    workshop.repository.git("switch", "-q", "-c", branch)
    commit = workshop.repository.commit(f"work on {branch}", **files)
    workshop.repository.git("switch", "-q", "main")
    return commit


def read(workshop: Workshop) -> int:
    return read_branches(workshop.store, workshop.settings, only_lively=True)


def states(workshop: Workshop) -> dict[str, BranchState]:
    return {row.name: row.state for row in branches.branches_of_project(workshop.store, workshop.project.id)}


def test_a_memory_of_an_open_branch_is_known_as_such_until_the_merge(workshop: Workshop) -> None:
    commit_on(workshop, "feat/x", a="1\n")
    workshop.work("feat/x", session="one")
    workshop.work("main", session="two")
    there, here = workshop.learn("on the branch"), workshop.learn("on main", ["two"])
    both = workshop.learn("on both", ["one", "two"])
    ids = [there.id, here.id, both.id]

    read(workshop)

    assert states(workshop) == {"feat/x": BranchState.OPEN, "main": BranchState.MERGED}
    assert open_branches(workshop.store, ids) == {there.id: "feat/x"}
    workshop.repository.git("merge", "-q", "--no-ff", "feat/x")
    read(workshop)
    assert states(workshop)["feat/x"] is BranchState.MERGED
    assert open_branches(workshop.store, ids) == {}


def test_a_merge_confirms_what_was_done_and_decided(workshop: Workshop) -> None:
    commit_on(workshop, "feat/x", a="1\n")
    workshop.work("feat/x")
    doubtful = workshop.learn("the cache holds a week", status=Status.PROVISIONAL, confidence=0.3)
    state = workshop.learn("the pull request is open", kind=Kind.STATE)
    read(workshop)
    assert workshop.stored(doubtful).confirmations == 0

    workshop.repository.git("merge", "-q", "--squash", "feat/x")
    workshop.repository.commit("squashed")
    read(workshop)
    read(workshop)

    confirmed = workshop.stored(doubtful)
    assert (confirmed.status, confirmed.confirmations, confirmed.confidence) == (Status.ACTIVE, 1, 0.75)
    assert history_of(workshop.store, doubtful.episode_id)[-1].reason == "branch feat/x was merged"
    assert workshop.stored(state).confirmations == 0


@pytest.mark.parametrize(
    "fields",
    [
        {"kind": Kind.PREFERENCE},
        {"scope": Scope.GLOBAL},
        {"source": Source.MANUAL},
        {"is_pinned": True},
    ],
)
def test_global_and_saved_memories_are_bound_to_no_branch(workshop: Workshop, fields: dict[str, object]) -> None:
    commit_on(workshop, "feat/x", a="1\n")
    workshop.work("feat/x")
    memory = workshop.learn("whatever", **fields)

    read(workshop)

    assert open_branches(workshop.store, [memory.id]) == {}


def test_a_branch_that_is_gone_is_unknown_and_one_that_was_merged_stays_so(workshop: Workshop) -> None:
    for name in ("feat/gone", "feat/merged"):
        commit_on(workshop, name, **{name.replace("/", "-"): "1\n"})
        workshop.work(name, session=name)
    memory = workshop.learn("on a branch that goes", ["feat/gone"])
    workshop.repository.git("merge", "-q", "--no-ff", "feat/merged")
    read(workshop)
    assert states(workshop) == {"feat/gone": BranchState.OPEN, "feat/merged": BranchState.MERGED}

    workshop.repository.git("branch", "-q", "-D", "feat/gone", "feat/merged")
    workshop.repository.git("reset", "-q", "--hard", "HEAD~1")
    read(workshop)

    assert states(workshop) == {"feat/gone": BranchState.UNKNOWN, "feat/merged": BranchState.MERGED}
    assert open_branches(workshop.store, [memory.id]) == {}


def test_a_branch_that_was_merged_and_deleted_before_is_found_by_the_commit_that_a_transcript_reports(
    workshop: Workshop,
) -> None:
    commit = commit_on(workshop, "feat/x", a="1\n")
    report = f"[feat/x {commit[:7]}] work on feat/x\n 1 file changed"
    workshop.work("feat/x", "Commit it", ("Bash", {"command": "git commit -am work"}, report, False))
    workshop.repository.git("merge", "-q", "--no-ff", "feat/x")
    workshop.repository.git("branch", "-q", "-d", "feat/x")

    read(workshop)

    assert states(workshop) == {"feat/x": BranchState.MERGED}


def test_git_is_asked_again_only_if_something_moved(workshop: Workshop) -> None:
    commit_on(workshop, "feat/x", a="1\n")
    workshop.work("feat/x")

    assert read(workshop) == 1
    assert read(workshop) == 0
    workshop.repository.commit("elsewhere", z="1\n")
    assert read(workshop) == 1


def test_a_project_without_a_late_turn_is_left_to_the_consolidation(workshop: Workshop) -> None:
    commit_on(workshop, "feat/x", a="1\n")
    workshop.work("feat/x")
    workshop.clock.advance(7_200)

    assert read(workshop) == 0
    consolidate(workshop.store, workshop.settings, is_dry=True)
    assert states(workshop) == {}
    consolidate(workshop.store, workshop.settings, is_forced=True)

    assert states(workshop) == {"feat/x": BranchState.OPEN}


def test_a_paused_or_excluded_folder_is_not_read(workshop: Workshop) -> None:
    commit_on(workshop, "feat/x", a="1\n")
    workshop.work("feat/x")
    excluding = Settings(
        home=workshop.settings.home,
        claude_folder=workshop.settings.claude_folder,
        exclude=(str(workshop.repository.root),),
    )

    assert read_branches(workshop.store, excluding, only_lively=True) == 0
    pause(workshop.store, workshop.project.identity, workshop.clock.now_ms() + 60_000)
    assert read(workshop) == 0


def test_branches_are_bounded(workshop: Workshop, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("engram.consolidation.git_staleness.MAX_BRANCHES", 2)
    for name in ("a", "b", "c"):
        workshop.work(name, session=name)
        read(workshop)

    assert MAX_BRANCHES > 2
    assert set(states(workshop)) == {"b", "c"}


def test_forgetting_a_project_takes_its_branches(workshop: Workshop) -> None:
    commit_on(workshop, "feat/zanzibar", a="1\n")
    workshop.work("feat/zanzibar", "Begin", todo_list(quokkafied="pending"))
    read(workshop)
    path: Path = workshop.settings.places.memory_db

    forget_project(workshop.store, workshop.settings.places, workshop.project, actor=Actor.USER)

    assert branches.branches_of_project(workshop.store, workshop.project.id) == []
    workshop.store.close()
    open_store(path).close()
    assert b"zanzibar" not in path.read_bytes()
    assert b"quokkafied" not in path.read_bytes()
