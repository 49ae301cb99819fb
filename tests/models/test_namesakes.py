"""Every module of the models has a test of its name, or is named here with the test that says what it promises."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from engram.models import tables

REPO = Path(__file__).resolve().parents[2]
MODELS = REPO / "engram" / "models"

#: Module without a test of its name → the test that says what it promises, within tests.
TESTED_BY = {
    "commits": "search/test_origins.py",
    "conditions": "models/test_fulltext.py",
    "episode_evidence": "models/test_episode_changes.py",
    "episode_history": "models/test_episode_changes.py",
    "episode_index": "models/test_fulltext.py",
    "episode_lists": "consolidation/test_related.py",
    "episode_rows": "models/test_episode_changes.py",
    "episode_undo": "consolidation/test_undo_sticks.py",
    "erasing": "memories/test_forget.py",
    "forgetting": "memories/test_forget.py",
    "joining": "models/test_project_folders.py",
    "migration_steps": "models/test_migrations.py",
    "purging": "memories/test_purge.py",
    "recovery": "models/test_backup.py",
    "replacement": "faults/test_restore_kills.py",
    "runs": "consolidation/test_consolidation_service.py",
    "soundness": "faults/test_broken_memory.py",
    "tombstone_transfer": "models/test_backup.py",
    "tombstones": "memories/test_forget.py",
}

NAMES = sorted(path.stem for path in MODELS.glob("*.py") if path.stem != "__init__")


def namesakes(name: str) -> list[Path]:
    return list((REPO / "tests").rglob(f"test_{name}.py"))


def engram_modules(path: Path) -> set[str]:
    """The modules of Engram that a file imports, wherever in it."""
    names = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
    return {name for name in names if name.startswith("engram.")}


def reached_modules(path: Path) -> set[str]:
    """The modules of Engram that a test imports, and those that these import."""
    imported = engram_modules(path)
    files = [REPO / (name.replace(".", "/") + ".py") for name in imported]
    return imported.union(*(engram_modules(file) for file in files if file.is_file()))


@pytest.mark.parametrize("name", NAMES)
def test_a_module_has_a_test_of_its_name_or_is_named_by_one(name: str) -> None:
    if name not in TESTED_BY:
        assert namesakes(name), f"engram.models.{name} has no test_{name}.py"
        return
    test = REPO / "tests" / TESTED_BY[name]
    assert not namesakes(name), f"engram.models.{name} has a test of its name by now"
    assert f"engram.models.{name}" in reached_modules(test), f"{test.name} never gets to engram.models.{name}"


def test_no_module_is_named_that_is_gone() -> None:
    assert TESTED_BY.keys() <= set(NAMES)


def test_every_declared_table_is_among_those_that_the_test_of_tables_goes_through() -> None:
    listed = {*tables.ALL_TABLES, *tables.ALL_VIEWS, *tables.ALL_TEXT_INDEXES}
    with_tables = {model.__module__.rsplit(".", 1)[-1] for model in listed}

    assert {path.stem for path in (MODELS / "tables").glob("*.py")} - with_tables == {"__init__", "declaring"}
