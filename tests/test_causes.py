"""What is said of a file that can't be written names the disk only where the disk is the cause."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from engram.system.atomic import explain_disk, explain_error, explain_refusal

QUIET: dict[str, Any] = {
    "f_flag": 0,
    "f_files": 1000,
    "f_favail": 900,
    "f_blocks": 10_000_000,
    "f_bavail": 9_000_000,
    "f_frsize": 4096,
}


@pytest.mark.parametrize(
    ("facts", "said"),
    [
        ({}, ""),
        ({"f_bavail": 3}, "is full"),
        ({"f_favail": 0}, "no inodes left"),
        ({"f_flag": os.ST_RDONLY}, "read-only"),
        ({"f_blocks": 0, "f_bavail": 0}, ""),
        ({"f_blocks": 0, "f_bavail": 0, "f_favail": 0}, ""),
        ({"f_blocks": 0, "f_bavail": 0, "f_files": 0, "f_favail": 0}, ""),
    ],
)
def test_a_file_system_without_blocks_is_not_a_full_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, facts: dict[str, Any], said: str
) -> None:
    monkeypatch.setattr(os, "statvfs", lambda folder: SimpleNamespace(**QUIET | facts))

    found = explain_disk(tmp_path / "memory.db")

    assert (said in found) if said else found == ""


def test_an_error_in_such_a_folder_names_the_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "statvfs", lambda folder: SimpleNamespace(**QUIET | {"f_blocks": 0, "f_bavail": 0}))
    error = FileNotFoundError(errno.ENOENT, "No such file or directory", str(tmp_path / "x"))

    assert explain_error(error) == f"{tmp_path / 'x'}: No such file or directory"


def test_what_is_in_the_way_is_said_in_words(tmp_path: Path) -> None:
    (tmp_path / "logs").touch()
    (tmp_path / "queue.db").mkdir()
    with pytest.raises(FileExistsError) as file:
        (tmp_path / "logs").mkdir()
    with pytest.raises(IsADirectoryError) as folder:
        (tmp_path / "queue.db").write_text("")

    assert explain_refusal(file.value) == f"{tmp_path / 'logs'}: something else is in its place: move that away"
    assert explain_refusal(folder.value) == f"{tmp_path / 'queue.db'}: a folder is in its place: move that away"


def test_a_sound_folder_is_no_cause(tmp_path: Path) -> None:
    assert explain_disk(tmp_path) == ""

    (tmp_path / "memory.db-wal").mkdir()
    assert "memory.db-wal is not a file" in explain_disk(tmp_path / "memory.db")
