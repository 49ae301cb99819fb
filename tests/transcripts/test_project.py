"""A project is a repository by identity; nothing is run to find out."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import unicodedata
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from engram.transcripts.git_files import has_commit, read_first_commit, read_remote
from engram.transcripts.project import KnownRoot, Project, find_repository, identify_project, is_excluded, one_run
from tests.each_case import each_case


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    root = tmp_path / "code" / "engine"
    (root / ".git").mkdir(parents=True)
    (root / ".git" / "HEAD").write_text("ref: refs/heads/main\n")
    (root / "src" / "deep").mkdir(parents=True)
    return root


def run_git(*arguments: str) -> str:
    """Run git as somebody without settings; returns what it prints."""
    settings = {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1"}
    person = {f"GIT_{who}_{what}": "a@b.example" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
    done = subprocess.run(
        ["git", "-c", "protocol.file.allow=always", *arguments],
        check=True,
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
        env={"PATH": os.environ["PATH"]} | settings | person,
    )
    return done.stdout.strip()


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


def test_a_folder_beside_a_repository_is_not_a_worktree_by_its_name_alone(repository: Path) -> None:
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


def test_a_folder_that_is_gone_belongs_to_the_longest_known_repository_above_it() -> None:
    roots = [KnownRoot(root, had_branch=True) for root in ("/gone/group/engine", "/gone/eng", "", "/", "c:\\gone")]
    roots += [KnownRoot("/gone/group"), KnownRoot("/home/somebody", had_branch=True)]

    assert identify_project("/gone/group/engine/src", known_roots=roots).identity == "/gone/group/engine"
    assert identify_project("C:\\gone\\x", known_roots=roots).identity == "c:\\gone"
    for apart in ("/else/where", "/gone/group/other", "/home/somebody/work/client"):
        assert identify_project(apart, known_roots=roots).identity == apart


def test_a_folder_that_is_there_never_joins_a_root_above_it(tmp_path: Path) -> None:
    (tmp_path / "inner").mkdir()
    roots = [KnownRoot(str(tmp_path), is_repository=True)]

    assert identify_project(str(tmp_path / "inner"), known_roots=roots).identity == str(tmp_path / "inner")


def test_a_session_started_in_a_root_folder_itself_has_global_scope(repository: Path) -> None:
    roots = (str(repository.parent),)

    assert identify_project(str(repository.parent), root_folders=roots).is_global
    assert not identify_project(str(repository), root_folders=roots).is_global


def test_without_a_folder_there_is_no_project() -> None:
    assert identify_project("  ").identity == ""


@each_case("cwd", [".", "..", "src", "./src", "~/src", "file:///src", "C:src"])
def test_a_relative_folder_is_not_looked_for_where_the_process_runs(
    repository: Path, monkeypatch: pytest.MonkeyPatch, cwd: str
) -> None:
    (repository / "src").mkdir(exist_ok=True)
    monkeypatch.chdir(repository)

    assert identify_project(cwd, known_roots=[KnownRoot("src"), KnownRoot(str(repository))]) == Project("", "", "")


@pytest.mark.parametrize("content", [b"", b"gitdir: ", b"nonsense", b"gitdir: \0", b"gitdir: /nowhere\n"])
def test_a_damaged_git_link_leaves_the_folder_itself(tmp_path: Path, content: bytes) -> None:
    (tmp_path / ".git").write_bytes(content)

    assert find_repository(tmp_path) == tmp_path


def test_a_missing_or_unusable_folder_is_not_a_repository(tmp_path: Path) -> None:
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


# -- bare repositories


@pytest.mark.parametrize(
    ("bare", "has_pointer", "project"),
    [
        ("orchard/.bare", True, "orchard"),
        ("orchard/.bare", False, "orchard"),
        ("orchard/orchard.git", True, "orchard"),
        ("orchard/repo.git", False, "orchard/repo.git"),
        ("hosting/orchard.git", False, "hosting/orchard.git"),
        ("orchard/.git", False, "orchard"),
    ],
)
def test_a_bare_repository_with_worktrees_is_one_project_of_its_name(
    tmp_path: Path, bare: str, has_pointer: bool, project: str
) -> None:
    folder = tmp_path / bare
    folder.parent.mkdir(parents=True)
    run_git("init", "-q", "--bare", str(folder))
    tree = run_git("--git-dir", str(folder), "hash-object", "-t", "tree", "-w", "--stdin")
    commit = run_git("--git-dir", str(folder), "commit-tree", "-m", "begin", tree)
    if has_pointer:
        (folder.parent / ".git").write_text(f"gitdir: ./{folder.name}\n")
    for name in ("main", "feat"):
        run_git("--git-dir", str(folder), "worktree", "add", "-q", "-b", name, str(folder.parent / name), commit)
    run_git("--git-dir", str(folder), "worktree", "add", "-q", "-b", "far", str(tmp_path / "far"), commit)
    (folder.parent / "main" / "src").mkdir()

    places = ["main", "main/src", "feat", "../far", folder.name]
    places += ["."] * (has_pointer or folder.name in (".bare", ".git"))
    found = {identify_project(str(folder.parent / place)) for place in places}

    assert {(one.identity, one.name) for one in found} == {(str(tmp_path / project), "orchard")}


def test_the_worktree_of_a_submodule_belongs_to_the_submodule(tmp_path: Path) -> None:
    for name in ("library", "engine"):
        run_git("init", "-q", str(tmp_path / name))
        run_git("-C", str(tmp_path / name), "commit", "-q", "--allow-empty", "-m", "begin")
    run_git("-C", str(tmp_path / "engine"), "submodule", "--quiet", "add", str(tmp_path / "library"), "vendor/lib")
    run_git("-C", str(tmp_path / "engine" / "vendor" / "lib"), "worktree", "add", "-q", str(tmp_path / "side"))

    assert identify_project(str(tmp_path / "side")).identity == str(tmp_path / "engine" / "vendor" / "lib")


# -- folders that are gone


@pytest.mark.parametrize(
    "gone",
    [
        "old",
        "src/old/deeper",
        "thirsty-leavitt-21670b",
        ".claude/worktree/f1",
        ".claude/worktrees/f1/src",
        ".wt/f5",
        "worktrees/feat",
        ".git/worktrees/w9",
        "../engine-worktrees/feat/src",
    ],
)
@pytest.mark.parametrize("is_known", [True, False])
def test_a_folder_that_is_gone_belongs_to_the_repository_that_was_around_it(
    repository: Path, gone: str, is_known: bool
) -> None:
    roots = [KnownRoot(str(repository), True, True), KnownRoot(str(repository / "old"), False, True)] * is_known

    assert identify_project(str(repository / gone), known_roots=roots).identity == str(repository)


def test_a_folder_that_is_gone_does_not_belong_to_a_folder_without_a_repository(tmp_path: Path) -> None:
    (tmp_path / "work").mkdir()
    roots = [KnownRoot(str(tmp_path / "work"), had_branch=True)]
    folders = [str(tmp_path / "work" / client / "site") for client in ("acme", "other")]

    assert [identify_project(folder, known_roots=roots).identity for folder in folders] == folders


def test_a_repository_that_is_gone_keeps_its_folders_inside_another_one(repository: Path) -> None:
    roots = [KnownRoot(str(repository / "clients" / "acme"), is_repository=True)]
    inner = repository / "clients" / "acme"

    assert identify_project(str(inner / "src"), known_roots=roots).identity == str(inner)
    assert identify_project(str(repository / "clients" / "b"), known_roots=roots).identity == str(repository)


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "somebody"
    folder.mkdir()
    monkeypatch.setenv("HOME", str(folder))
    return folder


def test_a_run_asks_once_what_is_above_a_folder_that_is_gone(tmp_path: Path) -> None:
    gone = str(tmp_path / "app" / "gone")
    with one_run():
        assert identify_project(gone).root == gone
        make_repositories(tmp_path / "app")
        assert identify_project(gone).root == gone
        assert identify_project(str(tmp_path / "app")).is_repository
    assert identify_project(gone).root == str(tmp_path / "app")


def make_repositories(*folders: Path) -> list[KnownRoot]:
    for folder in folders:
        (folder / ".git").mkdir(parents=True)
        (folder / ".git" / "HEAD").write_text("ref: refs/heads/main\n")
    return [KnownRoot(str(folder), True, True) for folder in folders]


CENTRAL = [
    ".claude-worktrees/{name}/brave-fox",
    ".codex/worktrees/1a2b/{name}",
    ".cursor/worktrees/{name}/x1/src/deep",
    "worktrees/{name}/feat",
    ".worktrees/{name}/feat",
    "conductor/workspaces/{name}/oslo",
    ".superset/worktrees/{name}/feat",
]


@pytest.mark.parametrize("place", CENTRAL)
def test_a_deleted_worktree_in_a_central_place_joins_the_only_repository_of_its_name(home: Path, place: str) -> None:
    harbor, acme = home / "src" / "harbor", home / "src" / "acme"
    known = [*make_repositories(harbor, acme), KnownRoot(str(home), had_branch=True), KnownRoot("/gone/b", True)]

    for name, folder in (("harbor", str(harbor)), ("acme", str(acme)), ("b", "/gone/b")):
        assert identify_project(str(home / place.format(name=name)), known_roots=known).identity == folder


@pytest.mark.parametrize("place", CENTRAL)
@pytest.mark.parametrize("doubt", ["none known", "two known", "a folder of the name", "only the tool's folder is one"])
def test_a_deleted_worktree_that_nothing_proves_is_a_separate_project(home: Path, place: str, doubt: str) -> None:
    known = [KnownRoot(str(home), had_branch=True), *make_repositories(home / "src" / "acme")]
    if doubt == "two known":
        known += make_repositories(home / "a" / "harbor", home / "b" / "harbor")
    elif doubt == "a folder of the name":
        known += [*make_repositories(home / "a" / "harbor"), KnownRoot(str(home / "notes" / "harbor"))]
    elif doubt == "only the tool's folder is one":
        known += make_repositories(home / place.partition("/")[0])

    found = [
        identify_project(str(home / place.format(name="harbor")), known_roots=known),
        identify_project(str(home / place.format(name="tide")), known_roots=known),
        identify_project(str(home / place.replace("brave-fox", "owl").replace("feat", "b").format(name="acme2"))),
    ]

    assert len({one.identity for one in found}) == 3
    assert {one.identity for one in found}.isdisjoint(root.path for root in known)
    assert found[0].name.startswith("harbor-")


def test_worktrees_of_other_machines_never_become_the_folder_of_a_person() -> None:
    for home in ("/home/mara", "/Users/mara", "/root", "C:\\Users\\mara"):
        for place in ("worktrees/harbor/x", ".worktrees/harbor/x", ".codex/worktrees/1a/harbor", ".trees/harbor/x"):
            slash = "\\" if home.startswith("C") else "/"
            found = identify_project(home + slash + place.replace("/", slash))
            assert found.identity not in (home, home.lower())
            assert found.name == ("harbor-1a" if "codex" in place else "harbor-x")


def test_git_s_own_record_of_a_worktree_proves_where_it_belonged(repository: Path, home: Path) -> None:
    known = [KnownRoot(str(repository)), *make_repositories(home / "a" / "feat", home / "b" / "feat")]
    for name, folder in (("w1", home / "worktrees" / "feat" / "x"), ("w2", home / "src" / "engine-next")):
        git = repository / ".git" / "worktrees" / name
        git.mkdir(parents=True)
        (git / "gitdir").write_text(f"{folder / '.git'}\n")

        assert identify_project(str(folder / "src"), known_roots=known).identity == str(repository)
        assert identify_project(str(folder), known_roots=[]).identity == str(folder)


def move(repository: Path, worktree: Path, *moved: tuple[Path, Path]) -> None:
    """Let git make a worktree, then move folders without telling git."""
    shutil.rmtree(repository / ".git")
    run_git("init", "--quiet", str(repository))
    run_git("-C", str(repository), "commit", "--quiet", "--allow-empty", "--message", "one")
    run_git("-C", str(repository), "worktree", "add", "--quiet", "-b", "fox", str(worktree))
    for before, after in moved:
        before.rename(after)


def test_a_worktree_in_a_repository_that_moved_is_part_of_it(repository: Path, tmp_path: Path) -> None:
    now = tmp_path / "engine"
    move(repository, repository / ".trees" / "fox", (repository, now))
    (now / ".trees" / "fox" / "src").mkdir()
    shutil.rmtree(now / ".git" / "worktrees")

    for folder in (now / ".trees" / "fox", now / ".trees" / "fox" / "src"):
        assert identify_project(str(folder)).identity == str(now)
    assert identify_project(str(folder), join_worktrees=False).identity == str(folder.parent)


def test_a_worktree_of_a_repository_that_was_renamed_is_found_by_the_repositorys_record(
    repository: Path, tmp_path: Path
) -> None:
    worktree, now = tmp_path / "fox", tmp_path / "code" / "pier"
    move(repository, worktree, (repository, now))

    assert identify_project(str(worktree), known_roots=[KnownRoot(str(now))]).identity == str(now)
    assert identify_project(str(worktree)).identity == str(worktree)


def test_a_repository_and_its_worktree_that_moved_together_belong_together(repository: Path, tmp_path: Path) -> None:
    now = tmp_path / "work"
    move(repository, tmp_path / "code" / "fox", (tmp_path / "code", now))
    known = [KnownRoot(str(now / "engine"))]
    # Somebody else's folder that copies the link lies elsewhere.
    other = now / "other" / "fox"
    other.mkdir(parents=True)
    shutil.copy(now / "fox" / ".git", other / ".git")

    assert identify_project(str(now / "fox"), known_roots=known).identity == str(now / "engine")
    assert identify_project(str(other), known_roots=known).identity == str(other)


def test_each_worktree_is_a_separate_project_where_the_user_wants_that(repository: Path) -> None:
    known = [KnownRoot(str(repository), True)]
    gone = repository / ".claude" / "worktrees" / "fox" / "src"

    found = identify_project(str(gone), known_roots=known, join_worktrees=False)

    assert found.identity == str(gone.parent)


# -- links


def test_a_link_and_the_folder_that_it_points_to_are_one_project(repository: Path, tmp_path: Path) -> None:
    plain = tmp_path / "notes"
    (plain / "deep").mkdir(parents=True)
    (tmp_path / "link").symlink_to(plain)
    (tmp_path / "by-link").symlink_to(repository / "src")

    assert identify_project(str(tmp_path / "link")).identity == str(plain)
    assert identify_project(str(tmp_path / "link" / "deep")) == identify_project(str(plain / "deep"))
    assert identify_project(str(tmp_path / "link" / "gone")).identity == str(plain / "gone")
    assert identify_project(str(tmp_path / "by-link" / "gone")).identity == str(repository)


# -- a repository at the home folder


@pytest.mark.parametrize("version", [2, 3, 4])
@pytest.mark.parametrize("kind", ["folder", "file"])
def test_a_repository_at_the_home_folder_holds_only_what_it_tracks(home: Path, version: int, kind: str) -> None:
    run_git("init", "-q", *(["--separate-git-dir", str(home / ".dotfiles")] if kind == "file" else []), str(home))
    for file in (".config/editor/init.lua", ".config/editor/lua/keys.lua", ".profile", "bin/tool"):
        (home / file).parent.mkdir(parents=True, exist_ok=True)
        (home / file).write_text("x\n")
        run_git("-C", str(home), "add", file)
    if version == 3:
        (home / "bin" / "later").write_text("x\n")
        run_git("-C", str(home), "add", "--intent-to-add", "bin/later")
    run_git("-C", str(home), "update-index", "--index-version", str(version))
    for folder in ("src/client", "src/other", ".config/editor/pack", ".config/mail"):
        (home / folder).mkdir(parents=True)
    (repository,) = make_repositories(home / "src" / "harbor")

    for folder in ("", ".config/editor", ".config/editor/lua", "bin", ".config/editor/gone"):
        assert identify_project(str(home / folder)).identity == str(home)
    for folder in (
        "src/client",
        "src/other",
        "src",
        ".config/editor/pack",
        ".config/mail",
        "gone",
        "src/gone",
        "confi",
    ):
        assert identify_project(str(home / folder)).identity == str(home / folder)
    assert identify_project(str(home / "src" / "harbor" / "x")).identity == repository.path


def test_a_damaged_index_at_the_home_folder_claims_nothing(home: Path) -> None:
    make_repositories(home)
    (home / "src").mkdir()
    for content in (b"", b"DIRC", b"DIRC\0\0\0\x02\0\0\0\x09src/", b"DIRC\0\0\0\x63\0\0\0\x01" + b"src/a\0" * 20):
        (home / ".git" / "index").write_bytes(content)
        assert identify_project(str(home / "src")).identity == str(home / "src")


# -- Jujutsu


def make_jujutsu(folder: Path) -> Path:
    (folder / ".jj" / "repo" / "store").mkdir(parents=True)
    (folder / "src").mkdir()
    return folder


def add_workspace(main: Path, folder: Path, *, operation: bytes = b"", is_relative: bool = False) -> Path:
    (folder / ".jj" / "working_copy").mkdir(parents=True)
    (folder / "src").mkdir()
    store = main / ".jj" / "repo"
    (folder / ".jj" / "repo").write_text(os.path.relpath(store, folder / ".jj") if is_relative else str(store))
    if operation:
        (folder / ".jj" / "working_copy" / "checkout").write_bytes(b"\x12\x40" + operation + b"\x1a\x04side")
    return folder


@pytest.mark.parametrize("is_relative", [True, False])
def test_every_workspace_of_jujutsu_is_one_project(tmp_path: Path, is_relative: bool) -> None:
    main, operation = make_jujutsu(tmp_path / "code" / "engine"), bytes(range(64))
    (main / ".jj" / "repo" / "op_store" / "operations").mkdir(parents=True)
    (main / ".jj" / "repo" / "op_store" / "operations" / operation.hex()).write_bytes(b"")
    add_workspace(main, tmp_path / "code" / "engine-next", is_relative=is_relative)
    add_workspace(main, main / "spaces" / "inside", is_relative=is_relative)
    add_workspace(main, tmp_path / "far" / "away", operation=operation, is_relative=is_relative)

    for folder in (main, main / "src", tmp_path / "code" / "engine-next" / "src", main / "spaces" / "inside"):
        assert identify_project(str(folder)).identity == str(main)
    assert identify_project(str(tmp_path / "far" / "away" / "src" / "gone")).identity == str(main)
    alone = identify_project(str(tmp_path / "code" / "engine-next" / "src"), join_worktrees=False)
    assert alone.identity == str(tmp_path / "code" / "engine-next")


def test_a_workspace_of_jujutsu_beside_git_s_folder_is_the_same_project(repository: Path) -> None:
    make_jujutsu(repository / "x").rename(repository.parent / "moved")
    (repository / ".jj" / "repo").mkdir(parents=True)
    add_workspace(repository, repository.parent / "second")

    for folder in (repository, repository / "src", repository.parent / "second"):
        assert identify_project(str(folder)).identity == str(repository)


@pytest.mark.parametrize(
    "claim", ["the store alone", "an unknown operation", "by a link", "a store elsewhere", "nothing"]
)
def test_a_folder_that_claims_to_be_a_workspace_of_jujutsu_is_its_own_project(tmp_path: Path, claim: str) -> None:
    main = make_jujutsu(tmp_path / "code" / "engine")
    folder = add_workspace(main, tmp_path / "downloads" / "x", operation=b"o" * 64 * (claim == "an unknown operation"))
    file = folder / ".jj" / "repo"
    if claim == "by a link":
        file.rename(folder / "file")
        file.symlink_to(folder / "file")
    elif claim == "a store elsewhere":
        file.write_text(str(main / ".jj" / "repo" / "store"))
    elif claim == "nothing":
        file.write_text("")

    assert identify_project(str(folder / "src")).identity == str(folder)


# -- what a repository says in its own files


def test_what_git_would_say_is_read_from_its_files(tmp_path: Path) -> None:
    one, clone, borrowing = tmp_path / "one", tmp_path / "clone", tmp_path / "borrowing"
    run_git("init", "-q", str(one))
    run_git("-C", str(one), "commit", "-q", "--allow-empty", "-m", "begin")
    first = run_git("-C", str(one), "rev-parse", "HEAD")
    run_git("-C", str(one), "commit", "-q", "--allow-empty", "-m", "go on")
    run_git("-C", str(one), "remote", "add", "other", "https://else.example/x.git")
    run_git("-C", str(one), "remote", "add", "origin", "https://me:secret@Code.Example/team/harbor.git")
    run_git("clone", "-q", "--bare", "--no-local", str(one), str(clone))
    run_git("-C", str(clone), "repack", "-q", "-a", "-d")
    run_git("clone", "-q", "--shared", str(clone), str(borrowing))

    assert read_remote(one) == "code.example/team/harbor"
    assert read_first_commit(one) == first
    assert not read_first_commit(clone)
    assert [has_commit(folder, first) for folder in (one, clone, borrowing)] == [True, True, True]
    assert has_commit(one, "0" * 40) is False
    assert has_commit(tmp_path / "gone", first) is None
    assert has_commit(one, "no commit") is None


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("C:\\Users\\mara\\harbor", "/mnt/c/Users/mara/harbor"),
        ("c:/users/mara/harbor/", "/mnt/c/Users/Mara/Harbor"),
        ("\\\\wsl$\\Ubuntu\\srv\\gone\\harbor", "/srv/gone/harbor"),
        ("\\\\wsl.localhost\\Debian\\srv\\gone\\harbor", "\\\\wsl$\\Debian\\srv\\gone\\harbor"),
        ("//wsl.localhost/Ubuntu/srv/gone/harbor", "/srv/gone/harbor"),
        ("\\\\?\\C:\\Users\\mara\\harbor", "c:\\users\\mara\\harbor"),
        ("//?/D:/harbor", "D:\\harbor"),
        ("\\\\?\\UNC\\server\\share\\harbor", "\\\\server\\share\\harbor"),
        ("\\\\?\\UNC\\wsl.localhost\\Ubuntu\\srv\\gone\\harbor", "/srv/gone/harbor"),
    ],
)
def test_a_folder_that_linux_and_windows_name_differently_is_one(first: str, second: str) -> None:
    assert identify_project(first).identity == identify_project(second).identity


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("D:\\harbor", "/mnt/d/harbor"),
        ("C:\\Users\\mara\\harbor", "/mnt/d/Users/mara/harbor"),
        ("\\\\server\\share\\harbor", "/share/harbor"),
        ("\\\\wsl$\\Ubuntu\\home\\mara\\harbor", "/home/mara/pier"),
    ],
)
def test_a_disk_or_share_of_another_machine_is_none_of_this_one(first: str, second: str) -> None:
    assert identify_project(first).identity != identify_project(second).identity


def test_a_folder_of_a_drive_is_the_one_that_is_mounted_here(monkeypatch: pytest.MonkeyPatch) -> None:
    is_folder = os.path.isdir
    monkeypatch.setattr(os.path, "isdir", lambda path: path == "/mnt/q" or is_folder(path))

    assert identify_project("Q:\\code\\harbor").identity == identify_project("/mnt/q/code/harbor").identity
    assert identify_project("Q:\\code\\harbor").root == "/mnt/q/code/harbor"


#: A name with its letters composed, and with their marks apart, as a Mac's file system lists it.
COMPOSED, APART = (unicodedata.normalize(form, "Äpfel-dépôt") for form in ("NFC", "NFD"))


@pytest.mark.parametrize("name", [COMPOSED, f"{COMPOSED}/src", f"./{COMPOSED}"])
@pytest.mark.parametrize("is_gone", [True, False])
def test_both_spellings_of_a_folder_are_one_project(tmp_path: Path, name: str, *, is_gone: bool) -> None:
    if not is_gone:
        run_git("init", "-q", str(tmp_path / COMPOSED))
    composed, apart = (identify_project(f"{tmp_path}/{unicodedata.normalize(form, name)}") for form in ("NFC", "NFD"))

    assert apart == composed
    assert unicodedata.is_normalized("NFC", composed.identity)


@pytest.mark.skipif(sys.platform == "darwin", reason="a Mac has one folder for both spellings")
def test_two_folders_with_the_spellings_of_a_name_are_two_projects(tmp_path: Path) -> None:
    for name in (COMPOSED, APART):
        run_git("init", "-q", str(tmp_path / name))

    roots = [identify_project(str(tmp_path / name)).root for name in (COMPOSED, APART)]

    assert roots == [str(tmp_path / COMPOSED), str(tmp_path / APART)]


@pytest.mark.skipif(sys.platform == "darwin", reason="a Mac has one folder for both spellings")
def test_a_folder_that_has_only_the_other_spelling_is_found(tmp_path: Path) -> None:
    run_git("init", "-q", str(tmp_path / APART))

    assert identify_project(str(tmp_path / APART)).is_repository
    assert identify_project(str(tmp_path / APART / "gone")).root == str(tmp_path / APART)


@pytest.mark.parametrize(("glob", "cwd"), [(COMPOSED, APART), (APART, COMPOSED), (f"{COMPOSED[:3]}*", APART)])
def test_a_folder_is_excluded_in_either_spelling(glob: str, cwd: str) -> None:
    assert is_excluded(f"/work/{cwd}/src", [f"/work/{glob}"])
