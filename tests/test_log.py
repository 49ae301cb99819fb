"""A log that can't be written is reported once, where that is no terminal."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from engram.log import start_logging

pytestmark = pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no device that is always full")


@pytest.fixture
def broken_log(tmp_path: Path) -> Iterator[Path]:
    """The log of a worker, on a disk that is full."""
    root = logging.getLogger()
    before, level = list(root.handlers), root.level
    os.symlink("/dev/full", tmp_path / "worker.log")
    start_logging(tmp_path, "worker", "info", str)
    try:
        yield tmp_path / "worker.log"
    finally:
        for handler in [*root.handlers]:
            root.removeHandler(handler)
        for handler in before:
            root.addHandler(handler)
        root.setLevel(level)


def test_a_service_reports_once_that_its_log_cannot_be_written(
    broken_log: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for number in range(3):
        logging.getLogger("engram").warning("secret %d", number)

    told = capsys.readouterr().err
    assert told.count("\n") == 1
    assert told.startswith("engram: the log can't be written: ")
    assert "No space left" in told
    assert "secret" not in told


def test_a_terminal_is_left_alone(broken_log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ours, theirs = os.openpty()
    with os.fdopen(theirs, "w") as terminal:
        monkeypatch.setattr(sys, "stderr", terminal)
        logging.getLogger("engram").warning("anything")
        os.set_blocking(ours, False)
        with pytest.raises(BlockingIOError):
            os.read(ours, 1)
    os.close(ours)
