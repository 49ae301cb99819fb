"""Whatever is killed at whatever instant: no turn lost or doubled, no episode doubled, whatever happens to the queue."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from engram import failpoint

CHAOS = Path(__file__).parent / "chaos.py"
#: Least number of processes killed.
KILLS = 72


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What the chaos left behind."""
    folder = tmp_path_factory.mktemp("chaos")
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("ENGRAM_", "CLAUDE_"))}
    done = subprocess.run(
        [sys.executable, str(CHAOS), str(folder), "7", str(KILLS)],
        capture_output=True, text=True, timeout=150, check=False,
        env=environment | {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "HOME": str(folder)},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    result: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return result


def test_enough_was_killed_and_at_every_named_point(found: dict[str, Any]) -> None:
    assert found["killed"] >= KILLS
    assert set(failpoint.NAMES) - set(found["kills"]) == set()
    assert found["failed"] == []


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


def test_a_killed_consolidation_archives_once_and_loses_nothing(found: dict[str, Any]) -> None:
    assert found["consolidation"] == {"vanished": 0, "pairs_wrong": [], "damage": ""}


def test_the_database_is_whole(found: dict[str, Any]) -> None:
    assert found["damage"] == ""
