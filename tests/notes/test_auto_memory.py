"""Claude Code's auto memory is read from the folder that its settings name, with history, and never written."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from engram.models.engine.transaction import Store
from engram.models.projects.notes import list_standing_files
from engram.models.projects.projects import ensure_project
from engram.notes.user_files import auto_memory_folder, read_standing_files
from engram.redaction import redact
from engram.settings import Settings


@pytest.fixture
def root(tmp_path: Path, store: Store) -> Path:
    root = tmp_path / "src" / "harbor"
    root.mkdir(parents=True)
    with store.transaction() as tx:
        ensure_project(tx, str(root), "harbor", str(root))
    return root


def configure(path: Path, **values: object) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(values))


def write_memory(folder: Path, text: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "ropes.md"
    path.write_text(f"---\nname: ropes\ntype: project\n---\n{text}\n")
    return path


def read(store: Store, settings: Settings) -> dict[str, int | None]:
    read_standing_files(store, settings, redact)
    return {file.path: file.project_id for file in list_standing_files(store)}


def test_the_default_folder_is_the_projects_and_what_disappears_is_kept(
    store: Store, settings: Settings, root: Path
) -> None:
    folder = auto_memory_folder(settings.claude_folder, root)
    assert folder is not None
    path = write_memory(folder, "Ropes are bought from Ann, never from Bob.")
    before = path.read_bytes()

    assert read(store, settings)[str(path)] is not None
    assert path.read_bytes() == before
    path.unlink()
    assert str(path) not in read(store, settings)

    (saved,) = settings.places.saved_notes.glob("*.md")
    assert "never from Bob" in saved.read_text()


def test_a_project_may_name_its_own_folder(store: Store, settings: Settings, root: Path) -> None:
    configure(root / ".claude" / "settings.json", autoMemoryDirectory=".claude/memory")
    default = settings.claude_folder / "projects" / str(root).replace("/", "-") / "memory"
    write_memory(default, "old")
    path = write_memory(root / ".claude" / "memory", "new")

    found = read(store, settings)

    assert set(found) == {str(path)}
    assert found[str(path)] is not None


def test_a_folder_in_the_users_settings_is_shared_by_all_projects(store: Store, settings: Settings, root: Path) -> None:
    configure(settings.claude_folder / "settings.json", autoMemoryDirectory="~/memories")
    path = write_memory(Path.home() / "memories", "shared")

    assert read(store, settings) == {str(path): None}


@pytest.mark.parametrize("where", ["user", "project"])
def test_what_is_switched_off_is_not_read(store: Store, settings: Settings, root: Path, where: str) -> None:
    folder = auto_memory_folder(settings.claude_folder, root)
    assert folder is not None
    write_memory(folder, "text")
    configure(
        (settings.claude_folder if where == "user" else root / ".claude") / "settings.json", autoMemoryEnabled=False
    )

    assert read(store, settings) == {}
    assert not list(settings.places.saved_notes.glob("*.md"))


def test_a_broken_setting_counts_as_none(settings: Settings, root: Path) -> None:
    default = auto_memory_folder(settings.claude_folder, root)
    for text in ("{", "[]", '{"autoMemoryDirectory": 5}', '{"autoMemoryDirectory": " "}'):
        configure(root / ".claude" / "settings.json")
        (root / ".claude" / "settings.json").write_text(text)
        assert auto_memory_folder(settings.claude_folder, root) == default
