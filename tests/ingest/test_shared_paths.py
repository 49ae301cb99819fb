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
from engram.ingest.project_moves import plan_sorting, read_hints
from engram.ingest.session_project import scope_of_folder
from engram.models.engine.transaction import Store
from engram.models.projects.project_folders import link_folder, merge_projects
from engram.models.projects.projects import ProjectRow, list_projects, project_by_id
from engram.models.sessions.sessions import find_session
from engram.recollection.recollection_service import RecollectionService
from engram.search.searcher import Searcher
from engram.settings import Settings

#: Before and after the sessions of ``make_transcript``.
BEFORE, AFTER = "2025-06-01T00:00:00Z", "2026-06-01T00:00:00Z"


@dataclass
class Workspace:
    """The path at which containers mount what they work on; everything else is put away."""

    folder: Path
    read: Callable[..., ProjectRow]
    store: Store
    settings: Settings
    made: dict[str, Path] = field(default_factory=dict)
    mounted: str = ""

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
            for word in ("winch", "rudder")
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

    def read(name: str, word: str, branch: str = "main") -> ProjectRow:
        """Read and extract a session at the path; returns its project."""
        transcript = make_transcript(name, cwd=str(made.folder))
        transcript.user(f"We always use the {word} library 4.2 here, never 5.", gitBranch=branch)
        transcript.says(f"Understood: {word}.", gitBranch=branch)
        ingest(transcript, close=True)
        extract_session(store, name, extractor=LocalExtractor(), embedder=HashedEmbedder(), settings=settings)
        session = find_session(store, name)
        assert session is not None
        project = project_by_id(store, session.project_id or 0)
        assert project is not None
        return project

    made = Workspace(tmp_path / "containers" / "workspace", read, store, settings)
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
    for name, word in (("one", "winch"), ("two", "rudder")):
        a_clone(workspace, name)
        workspace.mount(name)
        workspace.read(name, word)
    workspace.mount("")

    alone = workspace.read("s3", "capstan")

    assert len(list_projects(store)) == 3
    assert (alone.name, alone.root) == ("workspace-3", "")
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
    found = []
    for name, word in (("one", "winch"), ("two", "rudder")):
        a_clone(workspace, name)
        workspace.mount(name)
        found.append(workspace.read(name, word))
    workspace.mount("")
    if is_merged:
        merge_projects(store, found[1], found[0], "by hand", actor=Actor.USER)
    else:
        with store.transaction() as tx:
            link_folder(tx, found[1], str(workspace.folder), str(workspace.folder), "by hand")

    assert workspace.read("s3", "capstan").id == found[1].id
