"""A write-ahead log that a crash left is whole, or what it lost is told."""

from __future__ import annotations

import shutil
from pathlib import Path

from engram.models.engine.database import find_log_damage
from engram.models.engine.meta import put_meta
from engram.models.engine.transaction import Store


def leave_log(store: Store, tmp_path: Path) -> Path:
    """A database with its log, as a process leaves them that was killed after three commits."""
    store.checkpoint("TRUNCATE")
    for number in range(3):
        with store.transaction() as tx:
            put_meta(tx, f"key {number}", "value")
    path = tmp_path / "left.db"
    for suffix in ("", "-wal"):
        shutil.copy(f"{store.path}{suffix}", f"{path}{suffix}")
    return path


def test_a_whole_log_and_none_are_not_damage(store: Store, tmp_path: Path) -> None:
    path = leave_log(store, tmp_path)

    assert find_log_damage(path) == ""
    assert find_log_damage(tmp_path / "never.db") == ""


def test_a_last_frame_that_was_half_written_is_not_damage(store: Store, tmp_path: Path) -> None:
    path = leave_log(store, tmp_path)
    log = Path(f"{path}-wal")
    log.write_bytes(log.read_bytes()[:-100])

    assert find_log_damage(path) == ""


def test_commits_behind_a_damaged_frame_are_told_as_lost(store: Store, tmp_path: Path) -> None:
    path = leave_log(store, tmp_path)
    log = Path(f"{path}-wal")
    data = bytearray(log.read_bytes())
    data[100] ^= 0xFF
    log.write_bytes(bytes(data))

    assert "writes before the crash are lost" in find_log_damage(path)


def test_a_damaged_beginning_is_told(store: Store, tmp_path: Path) -> None:
    path = leave_log(store, tmp_path)
    log = Path(f"{path}-wal")
    log.write_bytes(b"\0\0\0\0" + log.read_bytes()[4:])

    assert "beginning of the write-ahead log is damaged" in find_log_damage(path)
