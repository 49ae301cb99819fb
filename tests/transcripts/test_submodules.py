"""A submodule is one project in every worktree of the repository that contains it, and nobody else's."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from repositories import Repository

from engram.transcripts.project import KnownRoot, find_repository, identify_project

WITH_FILES = ("-c", "protocol.file.allow=always")


@pytest.fixture
def engine(tmp_path: Path) -> Path:
    """A repository with a submodule, one within it, and a worktree in which both are checked out."""
    gear, library, engine = (Repository.make(tmp_path / "sources" / name) for name in ("gear", "library", "engine"))
    library.git(*WITH_FILES, "submodule", "--quiet", "add", str(gear.root), "gear")
    library.commit("add the gear")
    engine.git(*WITH_FILES, "submodule", "--quiet", "add", str(library.root), "vendor/lib")
    engine.commit("add the library")
    engine.git(*WITH_FILES, "submodule", "--quiet", "update", "--init", "--recursive")
    tree = engine.root / ".claude" / "worktrees" / "fix"
    engine.git("worktree", "add", "-q", str(tree))
    Repository(tree).git(*WITH_FILES, "submodule", "--quiet", "update", "--init", "--recursive")
    (tree / "vendor" / "lib" / "src").mkdir()
    return engine.root


PATHS = ["vendor/lib", "vendor/lib/src", "vendor/lib/gear"]


@pytest.mark.parametrize("path", PATHS)
def test_in_a_worktree_it_is_the_project_of_the_main_one(engine: Path, path: str) -> None:
    tree = engine / ".claude" / "worktrees" / "fix"
    root = str(engine / path.removesuffix("/src"))

    assert identify_project(str(tree / path)).identity == identify_project(root).identity == root
    assert identify_project(str(tree)).identity == str(engine)
    assert identify_project(str(tree / path), join_worktrees=False).identity == str(tree / path.removesuffix("/src"))


@pytest.mark.parametrize("is_pruned", [True, False])
@pytest.mark.parametrize("path", PATHS)
def test_it_still_is_when_the_worktree_is_gone(engine: Path, path: str, is_pruned: bool) -> None:
    tree = engine / ".claude" / "worktrees" / "fix"
    shutil.rmtree(tree)
    if is_pruned:
        Repository(engine).git("worktree", "prune")
    known = [KnownRoot(str(engine), True), KnownRoot(str(engine / "vendor" / "lib"), True)]

    found = identify_project(str(tree / path), known_roots=known).identity

    # Where git has no record of it any more, only its place within the repository is known.
    assert found == (str(engine) if is_pruned else str(engine / path.removesuffix("/src")))
    assert identify_project(str(tree / "docs"), known_roots=known).identity == str(engine)


def test_one_that_the_main_worktree_does_not_have_is_a_project_of_its_own(engine: Path) -> None:
    Repository(engine).git("submodule", "--quiet", "deinit", "--all", "--force")
    shutil.rmtree(engine / ".git" / "modules")
    folder = engine / ".claude" / "worktrees" / "fix" / "vendor" / "lib"

    assert identify_project(str(folder)).identity == str(folder)


@pytest.mark.parametrize("claim", ["a link", "a copy", "a git folder of its own"])
def test_a_folder_that_claims_to_be_one_is_not(engine: Path, tmp_path: Path, claim: str) -> None:
    inner = engine / ".git" / "worktrees" / "fix" / "modules" / "vendor" / "lib"
    folder = tmp_path / "downloads" / "evil"
    folder.mkdir(parents=True)
    if claim == "a link":
        (folder / ".git").symlink_to(engine / ".claude" / "worktrees" / "fix" / "vendor" / "lib" / ".git")
    elif claim == "a copy":
        (folder / ".git").write_text(f"gitdir: {inner}\n")
    else:
        made = tmp_path / "downloads" / "worktrees" / "x" / "modules" / "lib"
        shutil.copytree(inner, made)
        (made / "config").write_text(f"[core]\n\tworktree = {folder}\n")
        (folder / ".git").write_text(f"gitdir: {made}\n")
        module = tmp_path / "downloads" / "modules" / "lib"
        shutil.copytree(engine / ".git" / "modules" / "vendor" / "lib", module)
        (module / "config").write_text(f"[core]\n\tworktree = {engine / 'vendor' / 'lib'}\n")

    assert find_repository(folder) == folder
