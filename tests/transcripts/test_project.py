"""A project is a repository by identity; nothing is run to find out."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from engram.transcripts.project import find_repository, identify_project, is_excluded


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    root = tmp_path / "code" / "engine"
    (root / ".git").mkdir(parents=True)
    (root / ".git" / "HEAD").write_text("ref: refs/heads/main\n")
    (root / "src" / "deep").mkdir(parents=True)
    return root


def add_worktree(repository: Path, folder: Path, name: str = "w1") -> Path:
    git = repository / ".git" / "worktrees" / name
    git.mkdir(parents=True)
    (git / "commondir").write_text("../..\n")
    (git / "gitdir").write_text(f"{folder / '.git'}\n")
    folder.mkdir(parents=True)
    (folder / ".git").write_text(f"gitdir: {git}\n")
    return folder


def test_every_folder_of_a_repository_is_the_same_project(repository: Path) -> None:
    found = {identify_project(str(folder)).identity for folder in (repository, repository / "src" / "deep")}

    assert found == {str(repository)}


def test_a_worktree_belongs_to_its_repository_unless_told_otherwise(repository: Path, tmp_path: Path) -> None:
    worktree = add_worktree(repository, tmp_path / "elsewhere" / "branch")

    assert identify_project(str(worktree)).identity == str(repository)
    assert identify_project(str(worktree), join_worktrees=False).identity == str(worktree)


def test_worktrees_and_submodules_that_git_made_are_recognised(tmp_path: Path) -> None:
    run = partial(subprocess.run, check=True, capture_output=True)
    git = ["git", "-c", "user.name=t", "-c", "user.email=t@example.org", "-c", "protocol.file.allow=always"]
    engine, library = tmp_path / "engine", tmp_path / "library"
    for folder in (engine, library):
        run([*git, "init", "-q", str(folder)])
        run([*git, "-C", str(folder), "commit", "-q", "--allow-empty", "-m", "begin"])
    run([*git, "-C", str(engine), "worktree", "add", "-q", str(tmp_path / "side" / "branch")])
    run([*git, "-C", str(engine), "submodule", "--quiet", "add", str(library), "vendor/lib"])
    run([*git, "init", "-q", f"--separate-git-dir={tmp_path / 'store'}", str(tmp_path / "apart")])
    (tmp_path / "by-link").symlink_to(tmp_path / "side" / "branch")

    identities = {
        name: identify_project(str(tmp_path / name)).identity
        for name in ("engine", "side/branch", "by-link", "engine/vendor/lib", "apart")
    }

    assert identities == {
        "engine": str(engine),
        "side/branch": str(engine),
        "by-link": str(engine),
        "engine/vendor/lib": str(engine / "vendor" / "lib"),
        "apart": str(tmp_path / "apart"),
    }


def plant_link(folder: Path, target: Path) -> None:
    (folder / ".git").write_text(f"gitdir: {target}\n")


def plant_own_git_folder(folder: Path, commondir: Path) -> None:
    """A git folder of one's own that names another repository as its common one, and names the folder back."""
    inner = folder / ".hidden" / "worktrees" / "w1"
    inner.mkdir(parents=True)
    (inner / "commondir").write_text(f"{commondir}\n")
    (inner / "gitdir").write_text(f"{folder / '.git'}\n")
    (inner / "HEAD").write_text("ref: refs/heads/main\n")
    plant_link(folder, inner)


@pytest.mark.parametrize(
    "plant",
    [
        lambda folder, victim: plant_link(folder, victim / ".git" / "worktrees" / "w1"),
        lambda folder, victim: plant_link(folder, victim / ".git"),
        lambda folder, victim: plant_own_git_folder(folder, victim / ".git"),
        lambda folder, victim: plant_own_git_folder(folder, Path("../../../../code/engine/.git")),
        lambda folder, victim: (folder / ".git").symlink_to(victim / ".git"),
        lambda folder, victim: (folder / ".git").symlink_to(victim.parent / "branch" / ".git"),
        lambda folder, victim: (folder / ".git").hardlink_to(victim.parent / "branch" / ".git"),
        lambda folder, victim: (folder / "commondir").write_text(f"{victim / '.git'}\n"),
    ],
    ids=[
        "another's worktree",
        "the repository itself",
        "planted commondir",
        "planted relative commondir",
        "symlinked git folder",
        "symlinked git file",
        "copied git file",
        "commondir without git file",
    ],
)
def test_a_folder_that_claims_another_repository_is_its_own_project(
    repository: Path, tmp_path: Path, plant: Callable[[Path, Path], object]
) -> None:
    worktree = add_worktree(repository, repository.parent / "branch")
    folder = tmp_path / "download"
    folder.mkdir()

    plant(folder, repository)

    assert identify_project(str(folder)).identity == str(folder)
    assert identify_project(str(worktree)).identity == str(repository)


def test_a_git_folder_that_names_another_repository_is_its_own(repository: Path, tmp_path: Path) -> None:
    folder = tmp_path / "download"
    (folder / ".git").mkdir(parents=True)
    (folder / ".git" / "HEAD").write_text("ref: refs/heads/main\n")
    (folder / ".git" / "commondir").write_text(f"{repository / '.git'}\n")
    (folder / ".git" / "config").write_text(f"[core]\n\tworktree = {repository}\n")

    assert identify_project(str(folder)).identity == str(folder)


def test_a_folder_beside_a_repository_is_no_worktree_by_its_name_alone(repository: Path) -> None:
    folder = repository.parent / "engine-worktrees" / "unpacked"
    folder.mkdir(parents=True)

    assert identify_project(str(folder)).identity == str(folder)


def test_a_submodule_is_its_own_project(repository: Path) -> None:
    module = repository / "vendor" / "lib"
    module.mkdir(parents=True)
    (repository / ".git" / "modules" / "lib").mkdir(parents=True)
    (module / ".git").write_text("gitdir: ../../.git/modules/lib\n")

    assert identify_project(str(module)).identity == str(module)


def test_two_repositories_of_one_name_are_two_projects(tmp_path: Path) -> None:
    for owner in ("a", "b"):
        (tmp_path / owner / "app" / ".git").mkdir(parents=True)
        (tmp_path / owner / "app" / ".git" / "HEAD").write_text("x")

    one, two = (identify_project(str(tmp_path / owner / "app")) for owner in ("a", "b"))

    assert one.name == two.name == "app"
    assert one.identity != two.identity


@pytest.mark.parametrize(
    ("cwd", "identity"),
    [
        ("/gone/engine", "/gone/engine"),
        ("/gone/engine/.claude/worktrees/brave-fox", "/gone/engine"),
        ("/gone/engine/.claude/worktrees/brave-fox/src", "/gone/engine"),
        ("/gone/engine/.worktrees/1", "/gone/engine"),
        ("/gone/engine-worktrees/feature-x", "/gone/engine"),
        ("/gone/engine.worktrees/feature-x/src", "/gone/engine"),
        ("D:\\code\\Engine", "d:\\code\\engine"),
        ("D:\\code\\engine\\.claude\\worktrees\\brave-fox", "d:\\code\\engine"),
        ("D:/code/engine", "d:\\code\\engine"),
    ],
)
def test_a_folder_that_is_gone_counts_as_written_without_worktree_suffixes(cwd: str, identity: str) -> None:
    assert identify_project(cwd).identity == identity


def test_a_folder_that_is_gone_belongs_to_the_longest_known_root_above_it() -> None:
    roots = ["/gone", "/gone/engine", "/gone/eng", "", "/"]

    assert identify_project("/gone/engine/src", known_roots=roots).identity == "/gone/engine"
    assert identify_project("C:\\gone\\x", known_roots=[*roots, "c:\\gone"]).identity == "c:\\gone"
    assert identify_project("/else/where", known_roots=roots).identity == "/else/where"


def test_a_folder_that_is_there_never_joins_a_root_above_it(tmp_path: Path) -> None:
    (tmp_path / "inner").mkdir()

    assert identify_project(str(tmp_path / "inner"), known_roots=[str(tmp_path)]).identity == str(tmp_path / "inner")


def test_a_session_started_in_a_root_folder_itself_has_global_scope(repository: Path) -> None:
    roots = (str(repository.parent),)

    assert identify_project(str(repository.parent), root_folders=roots).is_global
    assert not identify_project(str(repository), root_folders=roots).is_global


def test_no_folder_is_no_project() -> None:
    assert identify_project("  ").identity == ""


@pytest.mark.parametrize("content", [b"", b"gitdir: ", b"nonsense", b"gitdir: \0", b"gitdir: /nowhere\n"])
def test_a_damaged_git_link_leaves_the_folder_itself(tmp_path: Path, content: bytes) -> None:
    (tmp_path / ".git").write_bytes(content)

    assert find_repository(tmp_path) == tmp_path


def test_a_missing_or_unusable_folder_is_no_repository(tmp_path: Path) -> None:
    assert find_repository(tmp_path / "gone") is None
    assert identify_project("/odd\0path").root == "/odd\0path"


@pytest.mark.parametrize(
    ("cwd", "globs", "expected"),
    [
        ("/home/me/secret", ["/home/me/secret"], True),
        ("/home/me/secret/deep/er", ["/home/me/secret"], True),
        ("/home/me/secret", ["/home/me/secret/"], True),
        ("/home/me/secrets", ["/home/me/secret"], False),
        ("/home/me/client-a/x", ["*/client-*"], True),
        ("D:\\work\\client", ["D:\\work\\*"], True),
        ("/home/me/x", [], False),
    ],
)
def test_excluded_folders_take_what_is_below_with_them(cwd: str, globs: list[str], expected: bool) -> None:
    assert is_excluded(cwd, globs) is expected


def test_the_home_folder_may_be_written_short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/me")

    assert is_excluded("/home/me/private/x", ["~/private"])
