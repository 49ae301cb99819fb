"""Every module of the models has a test of its name."""

from __future__ import annotations

from pathlib import Path

import pytest

from engram.models import tables

REPO = Path(__file__).resolve().parents[2]
MODELS = REPO / "engram" / "models"

NAMES = sorted(path.stem for path in MODELS.glob("*.py") if path.stem != "__init__")


@pytest.mark.parametrize("name", NAMES)
def test_a_module_has_a_test_of_its_name(name: str) -> None:
    assert (REPO / "tests" / "models" / f"test_{name}.py").is_file(), f"engram.models.{name} has no test_{name}.py"


def test_every_declared_table_is_among_those_that_the_test_of_tables_goes_through() -> None:
    listed = {*tables.ALL_TABLES, *tables.ALL_VIEWS, *tables.ALL_TEXT_INDEXES}
    with_tables = {model.__module__.rsplit(".", 1)[-1] for model in listed}

    assert {path.stem for path in (MODELS / "tables").glob("*.py")} - with_tables == {"__init__", "declaring"}
