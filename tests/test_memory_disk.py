"""A memory on a disk that is not mounted any more: nothing makes another one in its place, unless the user asks.

The tests mount nothing: which folders are mount points is said by a stand-in for ``os.path.ismount``.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner

from engram.cli.main import engram
from engram.errors import HomeError
from engram.models.engine.transaction import Store
from engram.models.open_memory import open_memory
from engram.paths import Home
from tests.empty_memory import open_empty

Mount = Callable[[bool], None]


@pytest.fixture
def disk(tmp_path: Path) -> Path:
    """The mount point of a disk beside the user's home folder."""
    (tmp_path / "disk").mkdir()
    return tmp_path / "disk"


@pytest.fixture
def mounted(disk: Path, monkeypatch: pytest.MonkeyPatch) -> Mount:
    """Mount the disk, or take it away with what is on it; it is mounted at first."""
    is_mount, points = os.path.ismount, {str(disk)}
    monkeypatch.setattr(os.path, "ismount", lambda path: str(path) in points or is_mount(path))

    def mount(is_there: bool) -> None:
        away = disk.with_name("away")
        if is_there:
            disk.rmdir()
            away.rename(disk)
            points.add(str(disk))
        else:
            disk.rename(away)
            disk.mkdir()
            points.clear()

    return mount


@pytest.fixture(params=["", "engram", "deep/engram"], ids=["mount point", "folder", "deep folder"])
def home(request: pytest.FixtureRequest, disk: Path, mounted: Mount) -> Home:
    """A memory on the disk."""
    home = Home(disk / request.param).prepare()
    open_empty(home.memory_db).close()
    return home


def run(home: Home, *arguments: str) -> tuple[int, str]:
    done = CliRunner().invoke(engram, ["--home", str(home.root), *arguments])
    return done.exit_code, done.output


@pytest.mark.parametrize(
    "command",
    ["status", "recall crane", "save --global crane", "up", "up --once", "service start", "restore --list", "doctor"],
)
def test_no_command_makes_another_memory_where_the_disk_is_not_mounted(
    home: Home, disk: Path, mounted: Mount, command: str
) -> None:
    mounted(False)

    code, said = run(home, *command.split())

    assert code == 1
    assert f"it was on the disk mounted at {disk}, which is not mounted now" in said
    assert "restore --new" in said
    assert not home.memory_db.exists()


def test_nothing_opens_a_new_memory_there(home: Home, mounted: Mount) -> None:
    mounted(False)

    for is_made in (True, False):
        home.root.mkdir(parents=True, exist_ok=True)
        with pytest.raises(Exception, match="missing"), open_memory(home.memory_db, driver="auto", is_made=is_made):
            pass
    with pytest.raises(HomeError, match="not mounted"):
        Store(home.memory_db).open()
    assert not home.memory_db.exists()


def test_the_memory_is_used_again_once_the_disk_is_back(home: Home, mounted: Mount) -> None:
    mounted(False)
    assert run(home, "status")[0] == 1

    mounted(True)

    assert run(home, "status")[0] == 0


def test_a_new_memory_is_begun_where_the_user_asks_for_it(home: Home, mounted: Mount) -> None:
    mounted(False)

    code, said = run(home, "restore", "--new")

    assert (code, "is new and empty" in said) == (0, True)
    assert run(home, "status")[0] == 0


def test_a_memory_that_was_moved_to_this_disk_is_used(home: Home, mounted: Mount) -> None:
    mounted(False)
    home.root.mkdir(parents=True, exist_ok=True)
    open_empty(home.memory_db).close()

    assert run(home, "status")[0] == 0
    home.memory_db.unlink()
    home.prepare()


def test_a_memory_that_was_deleted_on_a_mounted_disk_is_made_anew(home: Home) -> None:
    home.memory_db.unlink()

    home.prepare()

    assert run(home, "status")[0] == 0


@pytest.mark.usefixtures("mounted")
def test_nothing_is_noted_of_a_memory_on_the_disk_of_the_users_home_folder(tmp_path: Path) -> None:
    Home(tmp_path / "home").prepare()

    assert not (tmp_path / "user").exists()


def test_notes_of_deleted_memories_and_after_a_purge_are_dropped(home: Home, disk: Path, tmp_path: Path) -> None:
    notes = tmp_path / "user" / ".local" / "state" / "engram" / "disks.json"
    deleted = Home(disk / "deleted").prepare()
    assert set(json.loads(notes.read_text())) == {str(home.root), str(deleted.root)}
    assert notes.stat().st_mode & 0o777 == 0o600

    os.rename(deleted.root, tmp_path / "gone")
    other = Home(disk / "other").prepare()
    assert set(json.loads(notes.read_text())) == {str(home.root), str(other.root)}

    assert home.forget_disk()
    assert other.forget_disk()
    assert not notes.exists()


@pytest.mark.parametrize("content", ["", "{", "[]", '{"/x": 3}', "\udc80"])
def test_a_damaged_file_of_notes_keeps_nothing_from_working(home: Home, tmp_path: Path, content: str) -> None:
    notes = tmp_path / "user" / ".local" / "state" / "engram" / "disks.json"
    notes.write_bytes(content.encode(errors="surrogateescape"))

    home.prepare()

    assert json.loads(notes.read_text())[str(home.root)]
