"""Every module of the models has a test of its name."""

from __future__ import annotations

from pathlib import Path

import pytest

from engram.models import tables

REPO = Path(__file__).resolve().parents[2]
MODELS = REPO / "engram" / "models"

#: ``test_migrations.py`` runs the steps, with the files that they change.
NAMES = sorted({path.stem for path in MODELS.glob("*.py")} - {"__init__", "migration_steps"})


@pytest.mark.parametrize("name", NAMES)
def test_a_module_has_a_test_of_its_name(name: str) -> None:
    assert list((REPO / "tests").rglob(f"test_{name}.py")), f"engram.models.{name} has no test_{name}.py"


def test_every_declared_table_is_among_those_that_the_test_of_tables_goes_through() -> None:
    listed = {*tables.ALL_TABLES, *tables.ALL_VIEWS, *tables.ALL_TEXT_INDEXES}
    with_tables = {model.__module__.rsplit(".", 1)[-1] for model in listed}

    assert {path.stem for path in (MODELS / "tables").glob("*.py")} - with_tables == {"__init__", "declaring"}
