"""Every room of the models has its tests."""

from __future__ import annotations

from pathlib import Path

import pytest

from engram.models import tables

REPO = Path(__file__).resolve().parents[2]
MODELS = REPO / "engram" / "models"

#: Every folder but that of the declarations, which ``test_tables.py`` goes through.
ROOMS = sorted(path.name for path in MODELS.iterdir() if (path / "__init__.py").is_file() and path.name != "tables")


@pytest.mark.parametrize("room", ROOMS)
def test_a_room_has_its_tests(room: str) -> None:
    modules = list((MODELS / room).glob("*.py"))

    assert len(list((REPO / "tests" / "models" / room).glob("test_*.py"))) >= len(modules) // 2


def test_every_declared_table_is_among_those_that_the_test_of_tables_goes_through() -> None:
    listed = {*tables.ALL_TABLES, *tables.ALL_VIEWS, *tables.ALL_TEXT_INDEXES}
    with_tables = {model.__module__.rsplit(".", 1)[-1] for model in listed}

    assert {path.stem for path in (MODELS / "tables").glob("*.py")} - with_tables == {"__init__", "declaring"}
