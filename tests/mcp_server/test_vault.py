"""The tools work on a vault in its project's folder, and don't know of it anywhere else."""

from __future__ import annotations

from pathlib import Path

import pytest

from engram.enums import Actor, Importance, Scope
from engram.errors import BadRequest, EngramError
from engram.forgetting.whole_project import move_into_vault, move_out_of_vault
from engram.memories.save import save_memory
from engram.models.engine.transaction import Store
from engram.models.memories.memory_records import all_memories
from engram.models.open_memory import open_store
from engram.models.projects.projects import ensure_project, find_project
from engram.paths import Home, user_home
from engram.redaction import redact
from engram.settings import load
from engram.vaults import find_vault, with_flags
from engram_mcp import tools
from engram_mcp.access import open_access
from engram_mcp.catalog import answer
from engram_mcp.session import AccessOnce


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """The folder of a project in a vault, with a worktree beside it."""
    root = tmp_path / "src" / "acme"
    (root / ".git" / "worktrees" / "fix").mkdir(parents=True)
    (root / ".git" / "HEAD").write_text("ref: refs/heads/main\n")
    tree = tmp_path / "trees" / "fix"
    tree.mkdir(parents=True)
    (tree / ".git").write_text(f"gitdir: {root}/.git/worktrees/fix\n")
    (root / ".git" / "worktrees" / "fix" / "commondir").write_text("../..\n")
    (root / ".git" / "worktrees" / "fix" / "gitdir").write_text(f"{tree}/.git\n")
    settings = load().settings
    settings.places.prepare()
    with open_store(settings.places.memory_db) as store:
        with store.transaction() as tx:
            project = ensure_project(tx, str(root), "acme", str(root))
        save_memory(store, "The tariff table is rounded down.", redact, actor=Actor.USER, project_id=project.id)
        move_into_vault(store, settings, project)
    return root


def test_inside_and_outside(root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def recall(folder: Path, project: str | None = None) -> str:
        monkeypatch.setenv("CLAUDE_PROJECT_DIR", str(folder))
        return tools.recall(open_access(), "tariff table", 5, project)

    for inside in (root, root / "deeper", tmp_path / "trees" / "fix"):
        assert "rounded down" in recall(inside)
    assert "rounded down" not in recall(tmp_path)
    with pytest.raises(EngramError, match="no project"):
        recall(tmp_path, "acme")


def test_what_is_saved_inside_stays_inside(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CLAUDE_PROJECT_DIR", str(root))
    settings = load().settings

    tools.save(open_access(), "The client pays late.", Scope.GLOBAL, Importance.NORMAL)

    vault = find_vault(settings.places, "acme")
    assert vault is not None
    with Store(vault.home.memory_db).open() as inner, Store(settings.places.memory_db).open() as outer:
        assert len(all_memories(inner)) == 2
        assert all_memories(outer) == []


@pytest.mark.parametrize("scope", ["project", "global", "note"])
def test_what_is_in_a_vault_is_not_saved_outside_of_it(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, scope: str
) -> None:
    monkeypatch.setenv("CLAUDE_PROJECT_DIR", str(tmp_path))
    access = open_access()

    with pytest.raises(BadRequest, match="kept apart"):
        tools.save(access, "The client pays late.", scope, "normal", cwd=str(root))

    with Store(access.settings.places.memory_db).open() as outer:
        assert all_memories(outer) == []
    assert not list(access.settings.places.notes.rglob("*.md"))


@pytest.mark.parametrize("scope", ["project", "note"])
def test_what_is_saved_with_a_relative_folder_makes_no_project_and_is_not_global(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, scope: str
) -> None:
    monkeypatch.setenv("CLAUDE_PROJECT_DIR", str(tmp_path))
    access = open_access()

    with pytest.raises(BadRequest, match="is not an absolute path"):
        tools.save(access, "The proxy listens on 8081.", scope, "normal", cwd="src/acme")

    with Store(access.settings.places.memory_db).open() as outer:
        assert all_memories(outer) == []
        assert find_project(outer, "acme") is None


def test_a_session_follows_its_project_into_a_vault_and_out_of_it(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CLAUDE_PROJECT_DIR", str(root))
    settings = load().settings
    access = AccessOnce(open_access)
    assert "rounded down" in answer(access, "memory_recall", {"query": "tariff table"})[0]

    with open_store(settings.places.memory_db) as store:
        vault = find_vault(settings.places, "acme")
        assert vault is not None
        move_out_of_vault(store, settings, vault)
    assert "rounded down" in answer(access, "memory_recall", {"query": "tariff table"})[0]

    with open_store(settings.places.memory_db) as store:
        project = find_project(store, "acme")
        assert project is not None
        move_into_vault(store, settings, project)
    saved = {"content": "The client pays late.", "scope": "project", "importance": "normal"}
    assert not answer(access, "memory_save", saved)[1]
    with Store(settings.places.memory_db).open() as outer:
        assert all_memories(outer) == []


def test_a_command_in_an_answer_works_on_the_memory_that_answered(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = load().settings.home

    def answered(folder: Path, name: str, **arguments: object) -> str:
        monkeypatch.setenv("CLAUDE_PROJECT_DIR", str(folder))
        return answer(open_access, name, arguments)[0]

    assert f"`engram --home {home} --vault acme status --json`" in answered(
        root, "memory_recall", query="x", project="n"
    )
    assert f"`engram --home {home} status --json`" in answered(tmp_path, "memory_recall", query="x", project="n")
    said = answered(root, "memory_status")
    assert f"`engram --home {home} up`" in said
    assert "--vault acme up" not in said
    assert with_flags("Run `engram review`, not /opt/engram review", Home(tmp_path / "a b")) == (
        f"Run `engram --home '{tmp_path}/a b' review`, not /opt/engram review"
    )
    assert with_flags("`engram up`", Home(user_home() / ".claude-memory")) == "`engram up`"
