"""Whatever writes is killed: nothing that was kept is lost or doubled, and nothing that was forgotten comes back.

The fast tier kills 12 processes, the full tier 500 with each driver.
"""

from __future__ import annotations

from typing import Any

import pytest
from fault_programs import run_program

from tests import failpoints

#: (driver, seed, kills, longest time in seconds).
TIERS = [pytest.param(("cysqlite", 1, 12, 500), id="cysqlite", marks=pytest.mark.timeout(600))] + [
    pytest.param((driver, 2026, 500, 1700), id=f"{driver}-full", marks=[pytest.mark.soak, pytest.mark.timeout(1800)])
    for driver in ("cysqlite", "sqlite3")
]


@pytest.fixture(scope="module", params=TIERS)
def found(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What the kills left behind."""
    driver, seed, kills, seconds = request.param
    folder = tmp_path_factory.mktemp("upkeep")
    return run_program("upkeep", folder, str(seed), str(kills), driver, timeout_seconds=seconds) | {"wanted": kills}


def test_enough_was_killed_and_everything_was_done(found: dict[str, Any]) -> None:
    assert sum(found["kills"].values()) >= found["wanted"]
    assert {"save", "note", "forget", "purge", "import", "restore", "rebuild", "consolidate", "read", "migrate"} <= set(
        found["done"]
    )


def test_after_each_kill_everything_was_there_once_and_nothing_came_back(found: dict[str, Any]) -> None:
    assert found["problems"] == []


def test_no_turn_is_lost_or_doubled(found: dict[str, Any]) -> None:
    assert found["turns"] > 0
    assert (found["turns_lost"], found["turns_doubled"]) == (0, 0)


def test_the_automatic_memories_are_those_of_a_run_that_nobody_killed(found: dict[str, Any]) -> None:
    assert (found["memories_missing"], found["memories_different"]) == ([], [])


def test_no_byte_of_what_was_forgotten_is_left(found: dict[str, Any]) -> None:
    assert found["forgotten_left"] == []


def test_the_full_tier_kills_at_every_point_of_a_restore(found: dict[str, Any]) -> None:
    points = {name for name in failpoints.NAMES if name.startswith("restore.")}
    assert found["wanted"] < 500 or points <= set(found["kills"])


def test_no_saved_note_is_lost(found: dict[str, Any]) -> None:
    assert found["notes_lost"] == []
