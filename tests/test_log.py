"""Warnings go to a log, not to a terminal; a log that can't be written is reported once, where that is no terminal."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import engram.cli
from engram.cli.workspace import Workspace
from engram.log import read_records, start_logging
from tests.empty_memory import open_empty

pytestmark = pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no device that is always full")


@pytest.fixture
def broken_log(log_folder: Path) -> Path:
    """The log of a worker, on a disk that is full."""
    os.symlink("/dev/full", log_folder / "worker.log")
    start_logging(log_folder, "worker", "info", str)
    return log_folder / "worker.log"


@pytest.fixture
def log_folder(tmp_path: Path) -> Iterator[Path]:
    """A folder for logs; this process logs as before afterwards."""
    root = logging.getLogger()
    before, level = list(root.handlers), root.level
    try:
        yield tmp_path
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


@pytest.mark.parametrize("is_deleted", [False, True])
def test_a_log_that_was_moved_or_deleted_is_started_again(log_folder: Path, is_deleted: bool) -> None:
    start_logging(log_folder, "worker", "info", str)
    log = logging.getLogger("engram.test")
    log.warning("first")
    path = log_folder / "worker.log"
    path.rename(log_folder / "worker.log.gone")
    if is_deleted:
        (log_folder / "worker.log.gone").unlink()

    log.warning("second")

    assert path.read_text().endswith("second\n")
    assert "first" not in path.read_text()
    assert path.stat().st_mode & 0o777 == 0o600


def test_a_pipe_in_a_logs_place_holds_nothing_up(log_folder: Path) -> None:
    os.mkfifo(log_folder / "worker.log")

    start_logging(log_folder, "worker", "info", str)
    logging.getLogger("engram.test").warning("said")

    assert list(read_records(log_folder, "worker")) == []


def test_a_log_whose_folder_is_gone_is_not_reported(log_folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = log_folder / "logs"
    folder.mkdir()
    start_logging(folder, "worker", "info", str)
    (folder / "worker.log").unlink()
    folder.rmdir()

    logging.getLogger("engram.test").warning("said")

    assert not folder.exists()
    assert capsys.readouterr().err == ""


def test_commands_open_the_memory_only_where_warnings_go_to_the_log() -> None:
    folder = Path(engram.cli.__file__).parent
    opening = [path.name for path in folder.glob("*.py") if "open_memory import" in path.read_text(encoding="utf-8")]

    assert opening == ["workspace.py"]


def test_a_warning_of_a_memory_that_is_only_looked_at_is_not_on_the_terminal(
    log_folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    logging.getLogger().handlers = []
    workspace = Workspace({"home": str(log_folder / "home")})
    open_empty(workspace.places.prepare().memory_db).close()

    with workspace.existing_store():
        logging.getLogger("engram.models").warning("action=try failed=nothing")

    assert "".join(capsys.readouterr()) == ""
    assert "action=try" in (workspace.places.logs / "cli.log").read_text()
