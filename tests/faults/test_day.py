"""P11: after a day of 20 sessions and 200,000 lines with a kill every hour everything is read and nothing has grown."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from fault_programs import run_program

pytestmark = [
    pytest.mark.soak,
    pytest.mark.timeout(3000),
    pytest.mark.skipif(
        not Path("/proc/self/fd").exists(), reason="memory, threads and descriptors are read from /proc"
    ),
]


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What the day left behind."""
    folder = tmp_path_factory.mktemp("day")
    return run_program("day", folder, "200000", "auto", timeout_seconds=2900)


def test_everything_is_read_and_extracted_once(found: dict[str, Any]) -> None:
    assert found["lines"] >= 200_000
    assert found["kills"] >= 48
    assert found["turns"][0] == found["turns"][1]
    assert found["entries"][0] == found["entries"][1]
    assert (found["left"], found["dead"], found["damage"]) == (0, 0, "")


def test_after_the_last_kill_everything_is_scheduled_within_a_minute(found: dict[str, Any]) -> None:
    assert 0 < found["all_read_seconds"] <= 60


def test_memory_threads_descriptors_and_children_stay_bounded(found: dict[str, Any]) -> None:
    largest = found["largest"]
    assert largest["watch_rss_mb"] <= 150
    assert largest["work_rss_mb"] <= 512
    assert max(largest["watch_threads"], largest["work_threads"]) <= 32
    assert max(largest["watch_descriptors"], largest["work_descriptors"]) <= 96
    assert (largest["watch_children"], largest["work_children"]) == (0, 0)


def test_log_files_and_the_write_ahead_log_stay_bounded(found: dict[str, Any]) -> None:
    largest = found["largest"]
    assert largest["wal_mb"] <= 16
    assert largest["log_mb"] <= 5.1
    assert largest["log_files"] <= 15


def test_both_end_cleanly_at_last(found: dict[str, Any]) -> None:
    assert set(found["exit_codes"]) <= {0, 75}
