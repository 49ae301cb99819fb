"""Whether a branch was merged: proved, disproved, or unknown; in real repositories."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from engram.enums import BranchState
from engram.transcripts.git_commands import BranchReading, KnownBranch, read_branch_state, read_refs
from tests.repositories import Repository

LINES = "".join(f"line {number}\n" for number in range(20))


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    repository = Repository.make(tmp_path / "repo")
    repository.commit("base", a=LINES, b=LINES, c=LINES)
    return repository


def state_of(repository: Repository, name: str, **known: object) -> BranchState:
    return reading_of(repository, name, **known).state


def reading_of(repository: Repository, name: str, **known: object) -> BranchReading:
    refs = read_refs(repository.root)
    assert refs is not None
    return read_branch_state(repository.root, refs, KnownBranch(name, **known))  # type: ignore[arg-type]


def branch_off(repository: Repository, name: str = "feat/x") -> str:
    """Make a branch with a commit to the files ``a`` and ``b``, and return to main."""
    repository.git("switch", "-q", "-c", name)
    repository.commit("one", a=LINES + "ours\n")
    tip = repository.commit("two", b=LINES + "ours\n")
    repository.git("switch", "-q", "main")
    return tip


def test_a_branch_with_its_own_commits_is_open(repository: Repository) -> None:
    tip = branch_off(repository)
    repository.commit("elsewhere", c="other\n")

    assert reading_of(repository, "feat/x") == BranchReading(BranchState.OPEN, tip, True)


def test_a_new_branch_without_a_commit_is_open(repository: Repository) -> None:
    repository.git("branch", "feat/x")

    assert state_of(repository, "feat/x") is BranchState.OPEN


def test_a_branch_without_commits_that_followed_main_is_unknown(repository: Repository) -> None:
    repository.git("branch", "feat/x")
    repository.commit("further", c="new\n")
    repository.git("switch", "-q", "feat/x")
    repository.git("merge", "-q", "--ff-only", "main")

    assert state_of(repository, "feat/x") is BranchState.UNKNOWN


@pytest.mark.parametrize("name", ["", "HEAD", "main", "master"])
def test_main_a_detached_head_and_no_branch_count_as_merged(repository: Repository, name: str) -> None:
    assert state_of(repository, name) is BranchState.MERGED


def test_the_default_branch_of_the_remote_counts_as_merged(tmp_path: Path) -> None:
    origin = Repository.make(tmp_path / "origin", branch="next")
    origin.git("clone", "-q", str(origin.root), str(tmp_path / "clone"))

    assert state_of(Repository(tmp_path / "clone"), "next") is BranchState.MERGED


def merge(repository: Repository) -> None:
    repository.commit("elsewhere", c="other\n")
    repository.git("merge", "-q", "--no-ff", "feat/x")


def fast_forward(repository: Repository) -> None:
    repository.git("merge", "-q", "--ff-only", "feat/x")


def rebase(repository: Repository) -> None:
    repository.commit("elsewhere", c="other\n")
    repository.git("cherry-pick", "main..feat/x")


def squash(repository: Repository) -> None:
    repository.commit("elsewhere", c="other\n")
    repository.git("merge", "-q", "--squash", "feat/x")
    repository.commit("feat/x squashed")


MERGES = [merge, fast_forward, rebase, squash]


@pytest.mark.parametrize("merging", MERGES)
def test_a_merge_is_seen_in_whatever_way_it_was_made(
    repository: Repository, merging: Callable[[Repository], None]
) -> None:
    branch_off(repository)

    merging(repository)
    repository.commit("later", a="something else\n")

    assert state_of(repository, "feat/x") is BranchState.MERGED


@pytest.mark.parametrize("merging", MERGES)
def test_a_merge_is_seen_after_the_branch_was_deleted(
    repository: Repository, merging: Callable[[Repository], None]
) -> None:
    tip = branch_off(repository)
    merging(repository)

    repository.git("branch", "-q", "-D", "feat/x")

    assert state_of(repository, "feat/x", tip=tip, has_commits=True) is BranchState.MERGED
    assert state_of(repository, "feat/x", commits=(tip[:9],)) is BranchState.MERGED
    assert state_of(repository, "feat/x") is BranchState.UNKNOWN


def test_a_deleted_branch_that_is_not_seen_in_main_is_unknown(repository: Repository) -> None:
    tip = branch_off(repository)
    repository.git("branch", "-q", "-D", "feat/x")

    assert state_of(repository, "feat/x", tip=tip, has_commits=True) is BranchState.UNKNOWN
    assert state_of(repository, "feat/x", commits=("--all", "0000000")) is BranchState.UNKNOWN


def test_a_squash_whose_files_were_changed_on_the_way_is_unknown(repository: Repository) -> None:
    branch_off(repository)

    repository.commit("squashed, with a repair", a="repaired\n" + LINES + "ours\n", b=LINES + "ours\nrepaired\n")

    assert state_of(repository, "feat/x") is BranchState.UNKNOWN


def test_a_branch_that_continues_after_its_first_part_was_squashed_is_unknown(repository: Repository) -> None:
    branch_off(repository)
    squash(repository)
    repository.git("switch", "-q", "feat/x")

    repository.commit("three", d="new\n")

    assert state_of(repository, "feat/x") is BranchState.UNKNOWN


def test_a_branch_whose_upstream_is_gone_is_unknown(repository: Repository, tmp_path: Path) -> None:
    repository.git("clone", "-q", "--bare", str(repository.root), str(tmp_path / "origin"))
    repository.git("remote", "add", "origin", str(tmp_path / "origin"))
    branch_off(repository)
    repository.git("push", "-q", "--set-upstream", "origin", "feat/x")
    assert state_of(repository, "feat/x") is BranchState.OPEN

    Repository(tmp_path / "origin").git("branch", "-q", "-D", "feat/x")
    repository.git("fetch", "-q", "--prune", "origin")

    assert state_of(repository, "feat/x") is BranchState.UNKNOWN


def test_a_merge_at_the_remote_is_seen_after_a_fetch(repository: Repository, tmp_path: Path) -> None:
    repository.git("clone", "-q", str(repository.root), str(tmp_path / "clone"))
    clone = Repository(tmp_path / "clone")
    clone.git("switch", "-q", "-c", "feat/x")
    clone.commit("ours", a="ours\n")
    assert state_of(clone, "feat/x") is BranchState.OPEN
    repository.git("fetch", "-q", str(clone.root), "feat/x")
    repository.git("merge", "-q", "--no-ff", "FETCH_HEAD")

    clone.git("fetch", "-q", "origin")

    assert state_of(clone, "feat/x") is BranchState.MERGED


def test_without_a_default_branch_or_a_common_history_nothing_is_known(tmp_path: Path) -> None:
    repository = Repository.make(tmp_path / "repo", branch="trunk")
    repository.git("branch", "feat/x")

    assert state_of(repository, "feat/x") is BranchState.UNKNOWN
    repository.git("switch", "-q", "--orphan", "main")
    repository.commit("anew", z="z\n")
    assert state_of(repository, "feat/x") is BranchState.UNKNOWN


def test_a_damaged_repository_is_not_a_repository(repository: Repository) -> None:
    branch_off(repository)
    shutil.rmtree(repository.root / ".git" / "objects")

    assert read_refs(repository.root) is None
