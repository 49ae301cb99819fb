"""Unix socket addresses that fit: a path longer than the kernel allows is reached through a short link."""

from __future__ import annotations

import contextlib
import os
import socket
import tempfile
from collections.abc import Iterator
from pathlib import Path

from engram.atomic import FILE_MODE

#: Longest path of a Unix socket that every system takes, in bytes (macOS 103, Linux 107).
LONGEST_SOCKET_PATH = 103


@contextlib.contextmanager
def socket_address(path: Path) -> Iterator[str]:
    """An address for ``bind`` or ``connect`` that means ``path``.

    A long one goes through a link to its folder in a private temporary folder, removed afterwards; what was bound or
    connected meanwhile goes on working. Safe in any thread, since the working folder stays as it is.
    """
    if len(os.fsencode(path)) <= LONGEST_SOCKET_PATH:
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
    """Bind a Unix socket to ``path``, mode 0600; anything found there is replaced, and at no moment is nothing there.

    Raises:
        OSError: the socket cannot be made, or a folder lies there.
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
