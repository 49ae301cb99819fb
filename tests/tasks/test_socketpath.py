"""Binding a Unix socket where others look for it."""

from __future__ import annotations

import errno
import os
import socket
import stat
import tempfile
from pathlib import Path

import pytest

from engram.system.socketpath import bind_at, socket_address


@pytest.mark.parametrize("depth", [0, 12])
def test_a_socket_takes_the_place_of_what_was_there_and_is_private(tmp_path: Path, depth: int) -> None:
    folder = tmp_path.joinpath(*["a-long-folder"] * depth)
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "wake.sock"
    path.write_text("left behind")

    with (
        socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as first,
        socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as second,
    ):
        bind_at(first, path)
        bind_at(second, path)
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender, socket_address(path) as address:
            sender.sendto(b"!", address)

        assert second.recv(1) == b"!"
        assert stat.S_IMODE(path.lstat().st_mode) == 0o600
        assert [one.name for one in folder.iterdir()] == ["wake.sock"]


def test_a_folder_in_its_place_is_told_and_nothing_is_left_behind(tmp_path: Path) -> None:
    path = tmp_path / "wake.sock"
    path.mkdir()

    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listener, pytest.raises(OSError, match="irectory"):
        bind_at(listener, path)

    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("refused", [("/tmp",), ("/tmp", "/var/tmp"), ("/tmp", "/var/tmp", "/dev/shm", "/run/shm")])
def test_a_long_path_is_reached_where_temporary_folders_cannot_be_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, refused: tuple[str, ...]
) -> None:
    made = tempfile.mkdtemp
    home = made(prefix="h")
    monkeypatch.setenv("HOME", home)
    monkeypatch.delenv("XDG_RUNTIME_DIR", raising=False)

    def make(prefix: str, dir: str) -> str:
        if dir in refused:
            raise OSError(errno.EROFS, "Read-only file system", dir)
        return made(prefix=prefix, dir=dir)

    monkeypatch.setattr(tempfile, "mkdtemp", make)
    path = tmp_path.joinpath(*["a-long-folder"] * 12, "wake.sock")
    path.parent.mkdir(parents=True)
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listener:
        bind_at(listener, path)
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender, socket_address(path) as address:
            sender.sendto(b"!", address)
        assert listener.recv(1) == b"!"
    os.rmdir(home)
