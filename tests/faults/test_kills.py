"""P1, P2, P3: whatever is killed, and whatever happens to the queue, nothing is lost and nothing is doubled.

The fast tier kills at every named point and 20 times at random instants; the full tier kills 3,200 times with two
instances that race and either driver, and 300 times while the transcripts are rewritten. At least 30 of 100 random
kills must fall inside a transaction that writes.
"""

from __future__ import annotations

import ast
import functools
from pathlib import Path
from typing import Any

import pytest
from fault_programs import run_program

from engram.system import failpoint
from tests import failpoints

SOURCE = Path(failpoint.__file__).parents[1]
#: (driver, instances that race, kills at random instants, longest time in seconds, what happens to the transcripts).
FAST = [("cysqlite", 1, 20, 150, "grown")]
FULL = [
    ("cysqlite", 2, 1600, 1700, "grown"),
    ("sqlite3", 2, 1600, 1700, "grown"),
    ("cysqlite", 2, 300, 900, "rewritten"),
]
TIERS = [pytest.param(one, id=f"{one[0]}-{one[1]}") for one in FAST] + [
    pytest.param(one, id=f"{one[0]}-{one[1]}-{one[4]}-full", marks=[pytest.mark.soak, pytest.mark.timeout(1800)])
    for one in FULL
]


@pytest.fixture(scope="module", params=TIERS)
def found(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What the chaos left behind."""
    driver, instances, kills, seconds, how = request.param
    folder = tmp_path_factory.mktemp("chaos")
    result = run_program("chaos", folder, "7", str(kills), driver, str(instances), how, timeout_seconds=seconds)
    assert result["driver"] == driver
    assert (result["rewrites"] > 0) is (how == "rewritten")
    return result | {"wanted": kills}


@functools.cache
def points_in_source() -> frozenset[str]:
    """Every name that ``reach`` is called with in the source."""
    texts = [path.read_text(encoding="utf-8") for path in SOURCE.rglob("*.py")]
    calls = [
        node
        for text in texts
        if "reach(" in text
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "reach"
    ]
    assert all(len(call.args) == 1 and isinstance(call.args[0], ast.Constant) for call in calls)
    return frozenset(str(call.args[0].value) for call in calls if isinstance(call.args[0], ast.Constant))


def test_every_point_in_the_source_has_its_name_in_the_list() -> None:
    assert points_in_source() == set(failpoints.NAMES)


def test_enough_was_killed_and_at_every_named_point(found: dict[str, Any]) -> None:
    assert found["kills"]["random"] >= found["wanted"]
    # See test_upkeep.py, test_forget_project.py, tests/extraction/test_second_chance.py,
    # tests/install/test_transaction.py, tests/cli/test_vaults.py, tests/ingest/test_sorting.py and
    # tests/recollection/test_killed_bites.py.
    elsewhere = (
        "restore.",
        "forget_project.",
        "second_chance.",
        "install.",
        "uninstall.",
        "vault.",
        "sort.",
        "recollect.",
    )
    reached_here = {point for point in points_in_source() if not point.startswith(elsewhere)}
    assert reached_here - set(found["kills"]) == set()
    assert found["failed"] == []


def test_enough_random_kills_fell_inside_a_transaction(found: dict[str, Any]) -> None:
    assert found["kills"]["random, inside a transaction"] >= 0.3 * found["kills"]["random"]


def test_the_queue_was_deleted_meanwhile(found: dict[str, Any]) -> None:
    assert found["kills"]["queue deleted"] >= 1


def test_no_turn_and_no_entry_is_lost(found: dict[str, Any]) -> None:
    assert (found["turns_lost"], found["entries_lost"], found["said_lost"]) == (0, 0, 0)
    assert found["due"] == 0


def test_no_turn_and_no_text_is_doubled(found: dict[str, Any]) -> None:
    assert (found["turns_doubled"], found["said_doubled"]) == (0, 0)
    assert found["messages"][0] == found["messages"][1]


def test_each_turn_has_its_one_memory_as_the_turn_ended(found: dict[str, Any]) -> None:
    assert (found["episodes_lost"], found["episodes_doubled"]) == ([], [])
    assert found["without_vector"] == 0


def test_the_memories_are_those_of_a_run_that_nobody_disturbed(found: dict[str, Any]) -> None:
    assert found["memories"] == {"missing": [], "different": [], "joined_otherwise": []}


def test_a_killed_consolidation_archives_once_and_loses_nothing(found: dict[str, Any]) -> None:
    assert found["consolidation"] == {"vanished": 0, "pairs_wrong": [], "damage": ""}


def test_the_database_is_whole(found: dict[str, Any]) -> None:
    assert found["damage"] == ""


def test_everything_is_caught_up_within_a_minute(found: dict[str, Any]) -> None:
    assert found["settled_seconds"] <= 60
