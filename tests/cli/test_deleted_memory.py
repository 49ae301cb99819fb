"""A memory.db that was deleted while its backups exist: no command or service creates a new one unless the user
asks.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from engram.models.engine.transaction import Store
from engram.models.open_memory import open_store
from engram.models.rescue.backup import drop_database, list_backups, make_backup
from engram.paths import Home
from tests.cli.conftest import Run
from tests.forked import run_command


@pytest.fixture
def deleted(run: Run, home: Home) -> Path:
    """A memory.db that was deleted while a backup of it exists."""
    with open_store(home.prepare().memory_db) as store:
        make_backup(store, home.backups)
    drop_database(home.memory_db)
    return home.memory_db


@pytest.mark.parametrize(
    "arguments",
    [
        ("status",),
        ("recall", "crane"),
        ("save", "The crane is green.", "--global"),
        ("up",),
        ("up", "--once"),
        ("service", "start"),
        ("service", "restart"),
        ("install", "--yes", "--no-service", "--no-import"),
    ],
    ids=" ".join,
)
def test_no_command_makes_a_new_memory_in_place_of_one_that_was_deleted(
    run: Run, deleted: Path, arguments: tuple[str, ...]
) -> None:
    said = run(*arguments, code=1).output.splitlines()[-1]

    assert "engram restore" in said
    assert "engram restore --new" in said
    assert not deleted.exists()


@pytest.mark.parametrize("command", [("work",), ("watch",), ("service", "run")], ids=" ".join)
def test_what_a_service_runs_ends_well_so_that_it_is_not_started_again(deleted: Path, command: tuple[str, ...]) -> None:
    done = run_command(*command)

    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr
    assert not deleted.exists()


def test_a_new_memory_is_begun_where_the_user_asks_for_it(run: Run, deleted: Path) -> None:
    run("restore", "--new")

    assert "0 turns" in run("status").output
    assert "stop Engram and move it away: mv" in run("restore", "--new", code=1).output
    assert [backup.path.name for backup in list_backups(deleted.parent / "backups")]


def test_what_was_forgotten_before_a_new_memory_is_begun_stays_forgotten(filled: Store, run: Run, home: Home) -> None:
    make_backup(filled, home.backups)
    session = "5d4da058-9547-4d8d-9e6a-f1b36f34670a"
    assert session in run("sessions").stdout
    run("forget", session, "--yes")
    filled.close()
    drop_database(home.memory_db)

    run("restore", "--new")

    run("up", "--once")
    assert session not in run("sessions").stdout
