"""What is not committed is read from real working trees, and nothing that they name is run."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from engram.transcripts.git_commands import WorkTree, read_work_tree
from engram.transcripts.git_files import read_branch
from tests.repositories import Repository


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    return Repository.make(tmp_path / "repo")


def test_a_clean_working_tree_is_clean(repository: Repository) -> None:
    tree = read_work_tree(str(repository.root))

    assert tree == WorkTree("main")
    assert tree.is_clean


def test_changed_staged_deleted_and_unknown_files_are_told(repository: Repository) -> None:
    repository.commit("more", one="1\n", two="2\n", three="3\n")
    repository.git("switch", "-q", "-c", "feat/x")
    repository.write("one", "changed\n")
    repository.write("a name with spaces", "staged\n")
    repository.git("add", "a name with spaces")
    (repository.root / "two").unlink()
    repository.write("new/deep/file", "new\n")

    tree = read_work_tree(str(repository.root))

    assert tree is not None
    assert tree.branch == "feat/x"
    assert sorted(tree.changed) == ["a name with spaces", "one", "two"]
    assert tree.untracked == ("new/",)


def test_a_conflict_is_told(repository: Repository) -> None:
    repository.git("switch", "-q", "-c", "feat/x")
    repository.commit("ours", README="ours\n")
    repository.git("switch", "-q", "main")
    repository.commit("theirs", README="theirs\n")
    with pytest.raises(Exception, match="merge"):
        repository.git("merge", "feat/x")

    tree = read_work_tree(str(repository.root))

    assert tree is not None
    assert tree.changed == ("README",)


def test_commits_that_the_upstream_lacks_are_counted(repository: Repository, tmp_path: Path) -> None:
    repository.git("clone", "-q", str(repository.root), str(tmp_path / "clone"))
    clone = Repository(tmp_path / "clone")
    clone.commit("one", a="1\n")
    clone.commit("two", a="2\n")

    tree = read_work_tree(str(clone.root))

    assert tree is not None
    assert tree.unpushed == 2


def test_a_detached_head_a_worktree_and_no_repository(repository: Repository, tmp_path: Path) -> None:
    repository.git("worktree", "add", "-q", "-b", "feat/y", str(tmp_path / "tree"))
    (tmp_path / "tree" / "sub").mkdir()
    repository.git("switch", "-q", "--detach")
    outside = tmp_path / "outside"
    outside.mkdir()

    assert read_branch(str(repository.root)) == "HEAD"
    assert read_branch(str(tmp_path / "tree" / "sub")) == "feat/y"
    assert read_branch(str(outside)) == ""
    assert read_branch("relative") == ""
    detached, tree = read_work_tree(str(repository.root)), read_work_tree(str(tmp_path / "tree"))
    assert (detached, tree) == (WorkTree("HEAD"), WorkTree("feat/y"))
    assert read_work_tree(str(outside)) is None
    assert read_work_tree(str(tmp_path / "missing")) is None


def test_without_time_there_is_no_answer(repository: Repository) -> None:
    assert read_work_tree(str(repository.root), seconds=0.0) is None


def test_programs_that_a_hostile_repository_names_are_not_run(repository: Repository, tmp_path: Path) -> None:
    """Filters, monitors, hooks and submodules: git runs each of them for a status, unless it is told not to."""
    trap = tmp_path / "trap"
    trap.write_text(f"#!/bin/sh\ntouch {tmp_path}/sprung\ncat\n")
    trap.chmod(0o700)
    repository.commit("attributes", **{".gitattributes": "* filter=evil\nx filter=Other.dotted\n", "x": "1\n"})
    for key in ("filter.evil.clean", "filter.Other.dotted.clean", "core.fsmonitor", "core.pager", "core.editor"):
        repository.git("config", key, str(trap))
    repository.git("config", "filter.evil.process", str(trap))
    repository.git("config", "filter.evil.required", "true")
    (repository.root / ".git" / "info" / "attributes").write_text("* filter=evil\n")
    for hook in ("post-index-change", "pre-auto-gc", "fsmonitor-watchman"):
        path = repository.root / ".git" / "hooks" / hook
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(trap.read_bytes())
        path.chmod(0o700)
    repository.write("README", "changed\n")
    repository.write("x", "2\n")
    before = (repository.root / ".git" / "index").read_bytes()
    # The content must be compared: the size is the same, and the time says nothing.
    os.utime(repository.root / "x", (1, 1))

    tree = read_work_tree(str(repository.root))

    assert not (tmp_path / "sprung").exists()
    assert tree is not None
    assert sorted(tree.changed) == ["README", "x"]
    assert (repository.root / ".git" / "index").read_bytes() == before
    # The trap works: git itself walks into it.
    repository.git("-c", "filter.evil.process=", "-c", "filter.evil.required=false", "status")
    assert (tmp_path / "sprung").exists()


def test_variables_of_git_in_the_environment_point_nowhere_else(
    repository: Repository, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    Repository.make(tmp_path / "other", branch="elsewhere")
    monkeypatch.setenv("GIT_DIR", str(tmp_path / "other" / ".git"))
    monkeypatch.setenv("GIT_WORK_TREE", str(tmp_path / "other"))

    assert read_work_tree(str(repository.root)) == WorkTree("main")
