"""Addresses of Unix sockets. A path longer than the kernel allows is reached through a short link."""

from __future__ import annotations

import contextlib
import os
import socket
import tempfile
from collections.abc import Iterator
from pathlib import Path

from engram.atomic import FILE_MODE

#: Longest path of a Unix socket on every system, in bytes (macOS 103, Linux 107).
MAX_SOCKET_PATH_BYTES = 103


@contextlib.contextmanager
def socket_address(path: Path) -> Iterator[str]:
    """An address of ``path`` for ``bind`` or ``connect``.

    A long path goes through a link in a private temporary folder, which is removed afterwards; sockets that were
    bound or connected meanwhile keep working. Thread-safe, since the working folder does not change.
    """
    if len(os.fsencode(path)) <= MAX_SOCKET_PATH_BYTES:
        yield str(path)
        return
    folder = tempfile.mkdtemp(prefix="engram-", dir="/tmp" if os.path.isdir("/tmp") else None)
    link = os.path.join(folder, "h")
    try:
        os.symlink(path.parent, link)
        yield os.path.join(link, path.name)
    finally:
        with contextlib.suppress(OSError):
            os.unlink(link)
        with contextlib.suppress(OSError):
            os.rmdir(folder)


def bind_at(listener: socket.socket, path: Path) -> None:
    """Bind a Unix socket to ``path``, mode 0600. An existing file is replaced atomically.

    Raises:
        OSError: the socket can't be made, or ``path`` is a folder.
    """
    temporary = path.with_name(f".{os.getpid()}.{path.name[0]}.tmp")
    with contextlib.suppress(OSError):
        temporary.unlink()
    try:
        with socket_address(temporary) as address:
            listener.bind(address)
        os.chmod(temporary, FILE_MODE)
        os.replace(temporary, path)
    finally:
        with contextlib.suppress(OSError):
            temporary.unlink()
