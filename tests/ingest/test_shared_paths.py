"""Several containers mount their repositories at one path: what was said in one of them is shown in no other."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from growing_transcript import Ingest, MakeTranscript

from engram.embedding.hashed import HashedEmbedder
from engram.enums import Actor
from engram.extraction.extracting import extract_session
from engram.extraction.local.local_extractor import LocalExtractor
from engram.forgetting.whole_project import forget_project, move_into_vault
from engram.ingest.project_moves import plan_sorting, read_hints
from engram.ingest.session_project import scope_of_folder, spans_of, why_not
from engram.models import tables
from engram.models.engine.transaction import Store
from engram.models.projects.project_folders import link_folder, merge_projects
from engram.models.projects.projects import ProjectRow, list_projects, project_by_id
from engram.models.sessions.sessions import find_session
from engram.models.work.work import FOREVER_MS, pause
from engram.recollection.recollection_service import RecollectionService
from engram.search.searcher import Searcher
from engram.settings import Settings

#: Before and after the sessions of ``make_transcript``.
BEFORE, AFTER = "2025-06-01T00:00:00Z", "2026-06-01T00:00:00Z"


@dataclass
class Workspace:
    """The path at which containers mount what they work on; everything else is put away."""

    folder: Path
    say: Callable[..., None]
    store: Store
    settings: Settings
    made: dict[str, Path] = field(default_factory=dict)
    mounted: str = ""

    def read(self, name: str, word: str, branch: str = "main") -> ProjectRow:
        """Read and extract a session at the path; returns its project."""
        self.say(name, word, branch)
        extract_session(self.store, name, extractor=LocalExtractor(), embedder=HashedEmbedder(), settings=self.settings)
        session = find_session(self.store, name)
        assert session is not None
        project = project_by_id(self.store, session.project_id or 0)
        assert project is not None
        return project

    def mount(self, name: str) -> Path:
        """Mount what was made under a name; nothing for ""."""
        if self.mounted:
            self.folder.rename(self.made[self.mounted])
        if name:
            self.made[name].rename(self.folder)
        self.mounted = name
        return self.folder

    def make(self, name: str) -> Path:
        self.made[name] = self.folder.parent / "away" / name
        self.made[name].mkdir(parents=True)
        return self.made[name]

    def repository(self, name: str, remote: str = "", at: str = BEFORE) -> None:
        folder = self.make(name)
        git(folder, "init", "-q", "-b", "main")
        git(folder, "commit", "-q", "--allow-empty", "-m", f"begin {name}", at=at)
        if remote:
            git(folder, "remote", "add", "origin", remote)

    def shallow(self, name: str, remote: str = "") -> None:
        self.repository(f"{name} source")
        git(self.made[f"{name} source"], "commit", "-q", "--allow-empty", "-m", "second")
        folder = self.make(name)
        git(folder.parent, "clone", "-q", "--depth=1", self.made[f"{name} source"].as_uri(), str(folder))
        git(folder, "remote", *(("set-url", "origin", remote) if remote else ("remove", "origin")))

    def link(self, name: str, target: str) -> None:
        """A worktree or submodule without the repository to which it belongs, which is on the host."""
        (self.make(name) / ".git").write_text(f"gitdir: {target}\n")

    def shown(self) -> str:
        """Everything that hooks and searches would tell a session here."""
        searcher = Searcher(self.store, self.settings, embedder=HashedEmbedder())
        searcher.refresh()
        service = RecollectionService(self.store, searcher, self.settings, embedder=HashedEmbedder())
        payload = {"cwd": str(self.folder), "session_id": "33333333-aaaa-4bbb-8ccc-000000000003", "source": "startup"}
        asked = [payload | {"hook_event_name": "SessionStart"}]
        asked += [
            payload | {"hook_event_name": "UserPromptSubmit", "prompt": f"which {word} library do we use here?"}
            for word in ("winch", "rudder", "capstan")
        ]
        return "".join(service.answer_hook(one).decode() for one in asked)


def git(folder: Path, *arguments: str, at: str = BEFORE) -> None:
    identity = {f"GIT_{who}_{what}": "x@y" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
    dates = {"GIT_AUTHOR_DATE": at, "GIT_COMMITTER_DATE": at}
    environment = {"PATH": os.environ["PATH"], "GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1"}
    environment |= identity | dates
    subprocess.run(["git", "-C", str(folder), *arguments], check=True, capture_output=True, env=environment)


@pytest.fixture
def workspace(
    store: Store, settings: Settings, tmp_path: Path, make_transcript: MakeTranscript, ingest: Ingest
) -> Workspace:
    """An empty place to mount something."""

    def say(name: str, word: str, branch: str = "main") -> None:
        """Read a session at the path."""
        transcript = make_transcript(name, cwd=str(made.folder))
        transcript.user(f"We always use the {word} library 4.2 here, never 5.", gitBranch=branch)
        transcript.says(f"Understood: {word}.", gitBranch=branch)
        ingest(transcript, close=True)

    made = Workspace(tmp_path / "containers" / "workspace", say, store, settings)
    return made


def a_local(workspace: Workspace, name: str) -> None:
    workspace.repository(name)


def a_clone(workspace: Workspace, name: str) -> None:
    workspace.repository(name, f"https://git.example/{name}.git")


def a_shallow_clone(workspace: Workspace, name: str) -> None:
    workspace.shallow(name, f"https://git.example/{name}.git")


def a_worktree(workspace: Workspace, name: str) -> None:
    workspace.link(name, f"/Users/ida/{name}/.git/worktrees/fix")


def a_submodule(workspace: Workspace, name: str) -> None:
    workspace.link(name, f"../.git/modules/{name}")


def two_clones(workspace: Workspace) -> list[ProjectRow]:
    """Two repositories, each of which was mounted for a session."""
    found = []
    for name, word in (("one", "winch"), ("two", "rudder")):
        a_clone(workspace, name)
        workspace.mount(name)
        found.append(workspace.read(name, word))
    return found


KINDS = [a_local, a_clone, a_shallow_clone, a_worktree, a_submodule]


@pytest.mark.parametrize("second", KINDS)
@pytest.mark.parametrize("first", KINDS)
def test_two_repositories_at_one_path_are_two_projects(
    workspace: Workspace, store: Store, first: Callable[..., None], second: Callable[..., None]
) -> None:
    first(workspace, "one")
    second(workspace, "two")

    workspace.mount("one")
    projects = [workspace.read("s1", "winch")]
    workspace.mount("two")
    assert "winch" not in workspace.shown()
    projects.append(workspace.read("s2", "rudder"))
    read_hints(store)
    told = workspace.shown()
    workspace.mount("one")
    projects.append(workspace.read("s3", "winch"))

    assert [project.id for project in projects] == [projects[0].id, projects[1].id, projects[0].id]
    assert projects[0].id != projects[1].id
    assert ("rudder" in told, "winch" in told) == (True, False)
    assert ("rudder" in workspace.shown(), "winch" in workspace.shown()) == (False, True)


def test_two_worktrees_of_a_repository_that_is_not_mounted_are_one_project(workspace: Workspace) -> None:
    for name in ("fix", "feature"):
        workspace.link(name, f"/Users/ida/harbor/.git/worktrees/{name}")

    workspace.mount("fix")
    first = workspace.read("s1", "winch")
    workspace.mount("feature")

    assert workspace.read("s2", "rudder") == first


@pytest.mark.parametrize(
    ("branch", "at", "is_other"),
    [("HEAD", BEFORE, True), ("HEAD", AFTER, False), ("main", BEFORE, False), ("", BEFORE, False)],
)
def test_a_repository_that_is_older_than_sessions_outside_any_was_elsewhere(
    workspace: Workspace, store: Store, branch: str, at: str, is_other: bool
) -> None:
    workspace.make("plain")
    workspace.repository("two", at=at)
    workspace.mount("plain")
    first = workspace.read("s1", "winch", branch)
    read_hints(store)

    workspace.mount("two")
    read_hints(store)
    second = workspace.read("s2", "rudder")

    assert (first.id != second.id) == is_other
    assert ("winch" in workspace.shown()) != is_other
    workspace.mount("plain")
    assert workspace.read("s3", "winch", branch).id == first.id


def test_a_session_at_a_path_of_several_repositories_is_of_none_while_nothing_is_mounted(
    workspace: Workspace, store: Store, settings: Settings
) -> None:
    two_clones(workspace)
    workspace.mount("")

    alone = workspace.read("s3", "capstan")

    assert len(list_projects(store)) == 3
    assert (alone.name, alone.root) == ("workspace (unknown repository)", "")
    assert workspace.read("s4", "capstan") == alone
    told = workspace.shown()
    assert [word for word in ("winch", "rudder") if word in told] == []
    assert plan_sorting(store, settings) == []
    workspace.make("plain")
    for name in ("one", "two", "plain"):
        workspace.mount(name)
        assert "capstan" not in workspace.shown()
    plain = scope_of_folder(store, settings, str(workspace.folder), make=True).project
    assert plain is not None
    assert plain.id not in {project.id for project in (alone,)}


def test_a_path_of_one_repository_is_still_its_when_it_is_gone(workspace: Workspace, store: Store) -> None:
    a_clone(workspace, "one")
    workspace.mount("one")
    first = workspace.read("s1", "winch")
    read_hints(store)
    workspace.mount("")

    assert workspace.read("s2", "rudder") == first


@pytest.mark.parametrize("is_merged", [True, False])
def test_what_a_person_joined_decides_for_a_path_that_is_gone(
    workspace: Workspace, store: Store, settings: Settings, is_merged: bool
) -> None:
    found = two_clones(workspace)
    workspace.mount("")
    if is_merged:
        merge_projects(store, found[1], found[0], "by hand", actor=Actor.USER)
    else:
        with store.transaction() as tx:
            link_folder(tx, found[1], str(workspace.folder), str(workspace.folder), "by hand")

    assert workspace.read("s3", "capstan").id == found[1].id


# -- A pause, a forgotten project and a vault hold while nothing is mounted.


@pytest.mark.parametrize("number", [0, 1])
@pytest.mark.parametrize("how", ["paused", "forgotten", "vault"])
def test_nothing_is_stored_that_may_be_of_a_withheld_project(
    workspace: Workspace, store: Store, settings: Settings, how: str, number: int
) -> None:
    projects = two_clones(workspace)
    workspace.mount("")
    if how == "vault":
        move_into_vault(store, settings, projects[number])
    elif how == "forgotten":
        forget_project(store, settings.places, projects[number], actor=Actor.USER)
    else:
        pause(store, projects[number].identity, FOREVER_MS)
    turns = count_turns(store)

    workspace.say("s3", "capstan")

    assert count_turns(store) == turns


def test_what_may_be_of_a_paused_project_is_neither_continued_nor_shown(
    workspace: Workspace, store: Store, settings: Settings
) -> None:
    first, _ = two_clones(workspace)
    workspace.mount("")
    alone = workspace.read("s3", "capstan")
    assert "capstan" in workspace.shown()

    pause(store, first.identity, FOREVER_MS)

    assert why_not(store, "s3", settings) == "paused"
    assert spans_of(store, alone.identity) == spans_of(store, first.identity) != []
    assert "capstan" not in workspace.shown()


def count_turns(store: Store) -> int:
    return len(store.fetch(tables.Turn.select(tables.Turn.id)))


# -- A repository that changes stays one project.


def a_detached_clone(workspace: Workspace) -> Path:
    workspace.repository("source")
    folder = workspace.make("one")
    git(folder.parent, "clone", "-q", str(workspace.made["source"]), str(folder))
    git(folder, "remote", "remove", "origin")
    git(folder, "checkout", "-q", "--detach")
    return workspace.mount("one")


@pytest.mark.parametrize("is_read", [True, False])
def test_a_repository_that_was_only_seen_detached_stays_one_project(
    workspace: Workspace, store: Store, is_read: bool
) -> None:
    folder = a_detached_clone(workspace)
    found = []
    for number in range(3):
        found.append(workspace.read(f"s{number}", "winch", "HEAD"))
        if is_read:
            read_hints(store)
    git(folder, "checkout", "-q", "main")

    assert [*found, workspace.read("s3", "winch")] == [found[0]] * 4
    assert [project.root for project in list_projects(store)] == [str(folder)]


ORIGIN = "https://git.example/one.git"


def a_full_clone(workspace: Workspace) -> None:
    workspace.repository("source")
    folder = workspace.make("one")
    git(folder.parent, "clone", "-q", str(workspace.made["source"]), str(folder))
    git(folder, "remote", "set-url", "origin", ORIGIN)


def an_empty_repository(workspace: Workspace) -> None:
    git(workspace.make("one"), "init", "-q", "-b", "main")
    git(workspace.made["one"], "remote", "add", "origin", ORIGIN)


def a_shallow_one(workspace: Workspace) -> None:
    workspace.shallow("one", ORIGIN)


def a_lone_submodule(workspace: Workspace) -> None:
    workspace.link("one", "../.git/modules/one")


def its_remote_is_removed(folder: Path) -> None:
    git(folder, "remote", "remove", "origin")


def its_remote_is_renamed(folder: Path) -> None:
    git(folder, "remote", "rename", "origin", "upstream")


def it_gets_a_commit_and_loses_its_remote(folder: Path) -> None:
    git(folder, "commit", "-q", "--allow-empty", "-m", "begin", at=AFTER)
    git(folder, "remote", "remove", "origin")


def its_repository_is_there(folder: Path) -> None:
    git(folder.parent, "init", "-q", "--bare", str(folder.parent / ".git" / "modules" / "one"))
    git(folder.parent / ".git" / "modules" / "one", "remote", "add", "origin", ORIGIN)


def it_fetches_a_shallow_history(folder: Path) -> None:
    other = folder.parent / "other"
    other.mkdir()
    git(other, "init", "-q", "-b", "main")
    for message in ("first", "second"):
        git(other, "commit", "-q", "--allow-empty", "-m", message)
    git(folder, "remote", "add", "origin", other.as_uri())
    git(folder, "fetch", "-q", "--depth", "1", "origin")


@pytest.mark.parametrize("is_read", [True, False])
@pytest.mark.parametrize(
    ("make", "change"),
    [
        (a_shallow_one, its_remote_is_removed),
        (a_shallow_one, its_remote_is_renamed),
        (a_full_clone, its_remote_is_removed),
        (a_full_clone, its_remote_is_renamed),
        (an_empty_repository, it_gets_a_commit_and_loses_its_remote),
        (lambda workspace: a_local(workspace, "one"), it_fetches_a_shallow_history),
        (a_lone_submodule, its_repository_is_there),
    ],
)
def test_a_repository_that_changes_stays_one_project(
    workspace: Workspace,
    store: Store,
    make: Callable[[Workspace], None],
    change: Callable[[Path], None],
    is_read: bool,
) -> None:
    make(workspace)
    folder = workspace.mount("one")
    first = workspace.read("s1", "winch")
    if is_read:
        read_hints(store)

    change(folder)

    assert workspace.read("s2", "rudder") == first
    read_hints(store)
    assert workspace.read("s3", "capstan") == first
