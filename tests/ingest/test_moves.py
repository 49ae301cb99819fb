"""A project's folder that was renamed or moved: joined where both hints agree and the former folder is gone, else
not.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from engram.embedding.hashed import HashedEmbedder
from engram.enums import Actor
from engram.ingest.project_moves import find_clones, find_moves, join_moved, read_hints
from engram.ingest.read_sources import ingest_all
from engram.ingest.session_project import scope_of_folder
from engram.models.engine.transaction import Store
from engram.models.memories.memory_changes import add_memory
from engram.models.memories.memory_records import Memory, new_memory_id
from engram.models.projects.project_folders import link_folder, list_hints
from engram.models.projects.projects import ProjectRow, list_projects
from engram.redaction import redact
from engram.search.searcher import Query, Searcher
from engram.search.vectors.loaded_vectors import embed_missing
from engram.settings import Settings
from engram.transcripts.git_commands import GitHints, normal_address, read_git_hints

REMOTE = "https://someone:a-token@Code.Example/team/harbor.git"
FACT = "The parser keeps its cursor in the database"

MakeRepository = Callable[..., Path]


def git(folder: Path, *arguments: str) -> None:
    """Run git as somebody without settings."""
    environment = {
        "PATH": os.environ["PATH"],
        "GIT_CONFIG_GLOBAL": os.devnull,
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_AUTHOR_NAME": "a",
        "GIT_AUTHOR_EMAIL": "a@b.example",
        "GIT_COMMITTER_NAME": "a",
        "GIT_COMMITTER_EMAIL": "a@b.example",
        "GIT_AUTHOR_DATE": "2026-01-01T00:00:00Z",
        "GIT_COMMITTER_DATE": "2026-01-01T00:00:00Z",
    }
    subprocess.run(["git", "-C", str(folder), *arguments], check=True, capture_output=True, env=environment)


@pytest.fixture
def make_repository(tmp_path: Path) -> MakeRepository:
    """Makes a repository with one commit of its own and a remote."""

    def make(name: str, remote: str = REMOTE, message: str = "") -> Path:
        folder = tmp_path / "work" / name
        folder.mkdir(parents=True)
        git(folder, "init", "-q")
        git(folder, "commit", "-q", "--allow-empty", "-m", message or name)
        git(folder, "remote", "add", "origin", remote)
        return folder

    return make


def project_of(store: Store, settings: Settings, folder: Path) -> ProjectRow:
    """The project of a folder, made where it is new."""
    found = scope_of_folder(store, settings, str(folder), make=True).project
    assert found is not None
    return found


def keep(store: Store, project: ProjectRow, text: str = FACT) -> Memory:
    """A memory of a project."""
    with store.transaction() as tx:
        return add_memory(tx, Memory(new_memory_id(), "fact", text, text, project_id=project.id), [], actor=Actor.MODEL)


def test_a_renamed_folder_joins_its_project_by_itself_and_finds_its_memories(
    store: Store, settings: Settings, make_repository: MakeRepository
) -> None:
    folder = make_repository("harbor")
    former = project_of(store, settings, folder)
    kept = keep(store, former)
    embedder = HashedEmbedder()
    embed_missing(store, embedder, 10)
    searcher = Searcher(store, settings, embedder=embedder)
    searcher.refresh()
    assert read_hints(store) == 1
    moved = folder.rename(folder.with_name("harbour"))
    new = project_of(store, settings, moved)
    later = keep(store, new, "The parser reads the whole file, cursor or not")
    embed_missing(store, embedder, 10)
    searcher.refresh()

    read_hints(store)
    assert join_moved(store) == ["harbor"]

    assert [one.name for one in list_projects(store)] == ["harbor"]
    assert project_of(store, settings, moved) == project_of(store, settings, moved / "sub") == former
    searcher.refresh()
    found = searcher.recall(Query("Where does the parser keep its cursor?", project_id=former.id))
    assert {hit.id for hit in found} == {kept.episode_id, later.episode_id}
    assert all(hit.cosine is not None for hit in found)
    assert join_moved(store) == []


def test_reading_everything_once_joins_a_renamed_folder(
    store: Store, settings: Settings, make_repository: MakeRepository
) -> None:
    folder = make_repository("harbor")
    former = project_of(store, settings, folder)
    ingest_all(store, settings=settings, redact=redact, sources=[])
    new = project_of(store, settings, folder.rename(folder.with_name("harbour")))
    assert new != former

    ingest_all(store, settings=settings, redact=redact, sources=[])

    assert list_projects(store) == [project_of(store, settings, folder.with_name("harbour"))]
    assert list_projects(store)[0].id == former.id


def test_a_project_may_move_twice(store: Store, settings: Settings, make_repository: MakeRepository) -> None:
    folder = make_repository("harbor")
    former = project_of(store, settings, folder)
    for name in ("second", "third"):
        read_hints(store)
        folder = folder.rename(folder.with_name(name))
        project_of(store, settings, folder)
        read_hints(store)
        assert join_moved(store) == ["harbor"]

    assert project_of(store, settings, folder) == former


@pytest.mark.parametrize("claim", ["remote", "history", "both while the other is there", "nothing"])
def test_a_made_up_folder_that_claims_another_ones_remote_or_history_joins_nothing(
    store: Store, settings: Settings, make_repository: MakeRepository, claim: str, tmp_path: Path
) -> None:
    folder = make_repository("harbor")
    keep(store, project_of(store, settings, folder))
    read_hints(store)
    if claim in ("history", "both while the other is there"):
        made_up = tmp_path / "work" / "made-up"
        git(tmp_path, "clone", "-q", str(folder), str(made_up))
        git(made_up, "remote", "set-url", "origin", REMOTE if claim != "history" else "https://else.example/x")
    else:
        made_up = make_repository("made-up", REMOTE if claim == "remote" else "https://else.example/x")
    if "is there" not in claim:
        folder.rename(tmp_path / "put-away")
    other = project_of(store, settings, made_up)
    read_hints(store)

    assert join_moved(store) == []
    assert project_of(store, settings, made_up) == other
    proposed = [(move.former.project.name, move.present.project.name, move.is_certain) for move in find_moves(store)]
    assert proposed == ([("harbor", "made-up", False)] if claim in ("remote", "history") else [])


def test_of_two_folders_that_fit_none_joins(
    store: Store, settings: Settings, make_repository: MakeRepository, tmp_path: Path
) -> None:
    folder = make_repository("harbor")
    project_of(store, settings, folder)
    read_hints(store)
    for name in ("one", "other"):
        git(tmp_path, "clone", "-q", str(folder), str(tmp_path / "work" / name))
        git(tmp_path / "work" / name, "remote", "set-url", "origin", REMOTE)
    folder.rename(tmp_path / "put-away")
    for name in ("one", "other"):
        project_of(store, settings, tmp_path / "work" / name)
    read_hints(store)

    assert join_moved(store) == []
    assert len(find_moves(store)) == 2


def test_clones_of_one_repository_are_named_and_stay_apart(
    store: Store, settings: Settings, make_repository: MakeRepository, tmp_path: Path
) -> None:
    first, other = make_repository("harbor"), make_repository("lantern", remote="git@example.org:team/lantern.git")
    clones = [Path(shutil.copytree(first, tmp_path / name)) for name in ("second", "third")]
    projects = [project_of(store, settings, folder) for folder in (first, other, *clones)]

    read_hints(store, 10)

    named = [(clone.id, of.id) for clone, of in find_clones(store)]
    assert named == [(project.id, projects[0].id) for project in projects[2:]]
    assert (find_moves(store), join_moved(store)) == ([], [])
    shutil.rmtree(first)
    assert [(clone.id, of.id) for clone, of in find_clones(store)] == [(projects[3].id, projects[2].id)]


def test_credentials_are_not_kept(store: Store, settings: Settings, make_repository: MakeRepository) -> None:
    project_of(store, settings, make_repository("harbor"))

    read_hints(store)

    (hints,) = list_hints(store)
    assert hints.remote == "code.example/team/harbor"
    assert len(hints.first_commit) == 40


def test_a_shallow_clone_has_no_first_commit(make_repository: MakeRepository, tmp_path: Path) -> None:
    folder = make_repository("harbor")
    git(folder, "commit", "-q", "--allow-empty", "-m", "second")
    git(tmp_path, "clone", "-q", "--depth", "1", f"file://{folder}", str(tmp_path / "shallow"))

    assert read_git_hints(folder).first_commit
    assert read_git_hints(tmp_path / "shallow").first_commit == ""
    assert read_git_hints(tmp_path) == GitHints()


def test_nothing_that_a_repository_names_is_run(make_repository: MakeRepository, tmp_path: Path) -> None:
    folder = make_repository("harbor")
    git(folder, "config", "core.fsmonitor", f"touch {tmp_path}/ran")
    git(folder, "config", "core.sshCommand", f"touch {tmp_path}/ran")
    git(folder, "config", "alias.rev-list", f"!touch {tmp_path}/ran")

    assert read_git_hints(folder).first_commit
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize(
    ("address", "normal"),
    [
        ("git@Code.Example:team/harbor.git", "code.example/team/harbor"),
        ("ssh://git@code.example:22/team/harbor", "code.example/team/harbor"),
        ("https://u:p@code.example/team/harbor.git/", "code.example/team/harbor"),
        ("https://code.example:8443/team/harbor", "code.example:8443/team/harbor"),
        ("/srv/git/harbor.git", "/srv/git/harbor"),
        ("file:///srv/git/harbor.git", "/srv/git/harbor"),
        ("", ""),
        ("https://[bad", ""),
        ("a\nb", ""),
    ],
)
def test_all_ways_to_write_a_remote_are_one(address: str, normal: Any) -> None:
    assert normal_address(address) == normal


# -- another repository at the path of a known one


@pytest.mark.parametrize("first_remote", [REMOTE, ""])
@pytest.mark.parametrize("second", ["other remote", "no remote", "no repository", "no commit", "other, packed"])
@pytest.mark.parametrize("has_scanned", [True, False])
def test_another_repository_at_a_known_path_is_another_project(
    store: Store,
    settings: Settings,
    make_repository: MakeRepository,
    tmp_path: Path,
    first_remote: str,
    second: str,
    has_scanned: bool,
) -> None:
    folder = make_repository("workspace", first_remote, "the first")
    first = project_of(store, settings, folder)
    if has_scanned:
        read_hints(store)
    folder.rename(tmp_path / "first")
    if second == "no repository":
        folder.mkdir()
    elif second == "no commit":
        folder.mkdir()
        git(folder, "init", "-q")
    else:
        make_repository("workspace", "" if second == "no remote" else "https://else.example/b", "the second")
    if "packed" in second:
        git(folder, "gc", "-q")

    assert scope_of_folder(store, settings, str(folder)).project is None
    read_hints(store)
    other = project_of(store, settings, folder)

    assert other.id != first.id
    assert (other.root, other.name) == (str(folder), "workspace-2")
    assert {one.name: one.root for one in list_projects(store)} == {"workspace": "", "workspace-2": str(folder)}
    assert project_of(store, settings, folder) == other
    read_hints(store)
    assert find_moves(store) == []
    shutil.rmtree(folder)
    (tmp_path / "first").rename(folder)
    again = project_of(store, settings, folder)
    assert (again.id, again.root) == (first.id, str(folder))
    assert {one.name: one.root for one in list_projects(store)} == {"workspace": str(folder), "workspace-2": ""}


@pytest.mark.parametrize("change", ["clone", "shallow", "new address", "history that was cut", "workspace gone"])
def test_the_same_repository_at_its_path_stays_the_same_project(
    store: Store, settings: Settings, make_repository: MakeRepository, tmp_path: Path, change: str
) -> None:
    folder = make_repository("workspace")
    first = project_of(store, settings, folder)
    read_hints(store)
    if change in ("clone", "shallow"):
        git(folder, "commit", "-q", "--allow-empty", "-m", "second")
        source = folder.rename(tmp_path / "source")
        depth = ["--depth=1"] * (change == "shallow")
        git(tmp_path, "clone", "-q", *depth, source.as_uri(), str(folder))
        git(folder, "remote", "set-url", "origin", REMOTE.replace("https", "ssh"))
    elif change == "new address":
        git(folder, "remote", "set-url", "origin", "https://else.example/b")
        git(folder, "gc", "-q")
    elif change == "history that was cut":
        git(folder, "checkout", "-q", "--orphan", "anew")
        git(folder, "commit", "-q", "--allow-empty", "-m", "anew")
        git(folder, "remote", "set-url", "origin", "https://else.example/b")
    else:
        folder.rename(tmp_path / "away")

    assert project_of(store, settings, folder) == first
    read_hints(store)
    assert project_of(store, settings, folder) == first
    assert len(list_projects(store)) == 1


def test_two_shallow_clones_at_one_path_are_distinguished_by_their_remotes(
    store: Store, settings: Settings, make_repository: MakeRepository, tmp_path: Path
) -> None:
    sources = [make_repository(name) for name in ("one", "two")]
    for source in sources:
        git(source, "commit", "-q", "--allow-empty", "-m", "second")
    found = []
    for source in sources:
        git(tmp_path, "clone", "-q", "--depth=1", source.as_uri(), str(tmp_path / "workspace"))
        found.append(project_of(store, settings, tmp_path / "workspace").name)
        read_hints(store)
        shutil.rmtree(tmp_path / "workspace")

    assert found == ["workspace", "workspace-2"]


def test_a_folder_that_a_person_joined_to_a_project_may_hold_another_repository(
    store: Store, settings: Settings, make_repository: MakeRepository
) -> None:
    first = project_of(store, settings, make_repository("harbor"))
    fork = make_repository("fork", "https://else.example/fork")
    with store.transaction() as tx:
        link_folder(tx, first, str(fork), str(fork), "by hand")
    read_hints(store)

    assert project_of(store, settings, fork) == first


def test_a_repository_in_a_folder_that_was_known_without_one_stays_its_project(
    store: Store, settings: Settings, tmp_path: Path
) -> None:
    folder = tmp_path / "notes"
    folder.mkdir()
    first = project_of(store, settings, folder)
    read_hints(store)
    git(folder, "init", "-q")
    git(folder, "commit", "-q", "--allow-empty", "-m", "begin")

    assert project_of(store, settings, folder) == first
