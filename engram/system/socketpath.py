"""Bind and connect Unix sockets, through a short symbolic link if the path is too long for the kernel."""

from __future__ import annotations

import contextlib
import os
import socket
import tempfile
from collections.abc import Iterator
from pathlib import Path

from engram.system.atomic import FILE_MODE, needing

#: Maximum path length of a Unix socket on every system, in bytes (macOS 103, Linux 107).
MAX_SOCKET_PATH_BYTES = 103
#: Maximum path length of a folder in which a link to a socket is created, in bytes.
MAX_PARENT_BYTES = 60
#: Folders in which such a link is created if /tmp can't be written.
_FOLDERS = ("/var/tmp", "/dev/shm", "/run/shm")


@contextlib.contextmanager
def socket_address(path: Path) -> Iterator[str]:
    """Provide an address of ``path`` for ``bind`` or ``connect``.

    A long path is reached through a link in a private temporary folder, which is removed afterwards; sockets that are
    bound or connected by then keep working. Thread-safe, because it doesn't change the working folder.
    """
    if len(os.fsencode(path)) <= MAX_SOCKET_PATH_BYTES:
        yield str(path)
        return
    folder = _make_short_folder()
    link = os.path.join(folder, "h")
    try:
        os.symlink(path.parent, link)
        yield os.path.join(link, path.name)
    finally:
        with contextlib.suppress(OSError):
            os.unlink(link)
        with contextlib.suppress(OSError):
            os.rmdir(folder)


def _make_short_folder() -> str:
    """Create a private folder with a short path. Raises OSError if that is not possible anywhere."""
    error: OSError | None = None
    for parent in dict.fromkeys(("/tmp", os.environ.get("XDG_RUNTIME_DIR", ""), *_FOLDERS, os.path.expanduser("~"))):
        if not os.path.isabs(parent) or len(os.fsencode(parent)) > MAX_PARENT_BYTES:
            continue
        try:
            return tempfile.mkdtemp(prefix="engram-", dir=parent)
        except OSError as refused:
            error = error or refused
    raise error or OSError("there is no folder with a short path for a socket")


def bind_at(listener: socket.socket, path: Path) -> None:
    """Bind a Unix socket to ``path``, mode 0600. An existing file is replaced atomically.

    Raises:
        OSError: the socket can't be created, or ``path`` is a folder.
        HomeError: the file system does not support sockets.
    """
    temporary = path.with_name(f".{os.getpid()}.{path.name[0]}.tmp")
    with contextlib.suppress(OSError):
        temporary.unlink()
    try:
        with socket_address(temporary) as address, needing(path.parent, "sockets"):
            listener.bind(address)
        os.chmod(temporary, FILE_MODE)
        os.replace(temporary, path)
    except OSError as error:
        # The user doesn't know the temporary name.
        error.filename, error.filename2 = str(path), None
        raise
    finally:
        with contextlib.suppress(OSError):
            temporary.unlink()
