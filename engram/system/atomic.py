"""Write files completely or not at all, readable only by their owner; lock files and folders."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import shlex
import stat
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

from engram.errors import HomeError

#: Mode of every file in ENGRAM_HOME.
FILE_MODE = 0o600
#: Mode of every folder in ENGRAM_HOME.
FOLDER_MODE = 0o700


def write_atomic(path: Path, data: bytes | Iterable[bytes]) -> None:
    """Write ``data``, or one part of it after the other, to ``path`` through a temporary file and a rename; mode 0600.

    A reader sees the old content or the new content, never a partial file. Raises OSError; in that case, the old file
    is unchanged.
    """
    temporary = path.with_name(f".{path.name}.{os.getpid()}.{os.urandom(4).hex()}.tmp")
    try:
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, FILE_MODE)
        with os.fdopen(descriptor, "wb") as file:
            file.writelines((data,) if isinstance(data, bytes) else data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException as error:
        with contextlib.suppress(OSError):
            temporary.unlink()
        if isinstance(error, OSError):
            error.filename, error.filename2 = str(path), None  # the temporary file means nothing to the user
        raise


def write_target(path: Path, data: bytes) -> None:
    """Write a file like ``write_atomic``, but keep a link and write the file that it points to."""
    write_atomic(path.resolve() if path.is_symlink() else path, data)


def flush_to_disk(path: Path) -> None:
    """Flush a file, or the entries of a folder, to disk. Raises OSError."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def locked_folder(folder: Path) -> Iterator[None]:
    """Hold a lock (flock) on the folder itself; wait while another process holds it. Raises OSError or HomeError."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        lock_file(descriptor, fcntl.LOCK_EX, folder)
        yield
    finally:
        os.close(descriptor)


def lock_file(descriptor: int, operation: int, folder: Path) -> None:
    """Take a lock (flock) on an open file in ``folder``, or on the folder itself.

    Raises:
        BlockingIOError: another process holds it, and ``operation`` does not wait.
        HomeError: the file system does not support locks.
    """
    with needing(folder, "locks"):
        fcntl.flock(descriptor, operation)


#: Errors raised by file systems that lack a feature, such as network file systems, shared folders and some file systems
#: in containers.
_LACKING = frozenset({errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOTSUP, errno.ENOSYS, errno.EINVAL, errno.EPERM})


@contextlib.contextmanager
def needing(folder: Path, feature: str) -> Iterator[None]:
    """Raise HomeError in place of an OSError if the file system of ``folder`` lacks a feature."""
    try:
        yield
    except OSError as error:
        if error.errno not in _LACKING:
            raise
        raise HomeError(
            f"can't use the memory folder {folder}: its file system does not support {feature} ({error.strerror}). "
            "Network folders and folders shared by another system often don't: set ENGRAM_HOME to a folder on "
            "a local disk"
        ) from error


def drop_leftovers(folder: Path, older_than_seconds: float) -> int:
    """Delete temporary files in ``folder`` that killed writers left behind, and return how many. Never fails."""
    count = 0
    for path in folder.rglob(".*.tmp"):
        with contextlib.suppress(OSError):
            if path.lstat().st_mtime <= time.time() - older_than_seconds and not path.is_dir():
                path.unlink()
                count += 1
    return count


def read_regular(path: Path, limit_bytes: int, *, may_be_link: bool = False) -> bytes | None:
    """Return the first ``limit_bytes`` of a regular file; None if it is missing, unreadable, a link or a device.

    With ``may_be_link``, a link is followed; the caller must check who owns the file.
    """
    try:
        no_link = 0 if may_be_link else os.O_NOFOLLOW
        descriptor = os.open(path, os.O_RDONLY | no_link | os.O_NONBLOCK | os.O_CLOEXEC)
    except (OSError, ValueError):
        return None
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        return None
    with os.fdopen(descriptor, "rb") as file:
        return file.read(limit_bytes)


def read_whole(path: Path, limit_bytes: int) -> bytes | None:
    """Return all bytes of a regular file; ``b""`` if it does not exist.

    Return None if the file must not be rewritten: it is larger than ``limit_bytes``, a link, a device, or unreadable.
    """
    data = read_regular(path, limit_bytes + 1)
    if data is None:
        return None if os.path.lexists(path) else b""
    return None if len(data) > limit_bytes else data


def identity_of(path: str | Path) -> tuple[int, int] | None:
    """Return the device and inode of a file or folder, behind any links; None if there is none."""
    with contextlib.suppress(OSError):
        facts = os.stat(path)
        return facts.st_dev, facts.st_ino
    return None


def is_missing(path: Path) -> bool:
    """Return True if there is nothing at a path; False if that can't be determined.

    Other users' folders may be inaccessible. For paths inside them, call ``os.path.exists``, ``isfile`` and ``isdir``:
    the ``Path`` methods raise PermissionError, which would stop the processing of everything else.
    """
    try:
        os.stat(path)
    except (FileNotFoundError, NotADirectoryError):
        return True
    except OSError:
        return False
    return False


def make_private_folder(path: Path, *, with_parents: bool = False) -> Path:
    """Create ``path`` with mode 0700 if it is missing.

    Without ``with_parents``, a missing parent raises OSError: code that works inside the memory folder must not
    recreate that folder after it has been moved away.
    """
    path.mkdir(mode=FOLDER_MODE, parents=with_parents, exist_ok=True)
    return path


# -- Explain why a file can't be written, such as a full or read-only disk.

#: If a write fails and less free space than this is left (in bytes), the disk counts as full.
_FULL_BYTES = 1_000_000
#: Size in bytes of the test file that is written to find out why another file can't be.
_PROBE_BYTES = 64 * 1024


#: The end of what ``explain_disk`` says about a full disk.
IS_FULL = "is full: free up some space"


def explain_disk(path: Path, *, is_quick: bool = False) -> str:
    """Return what prevents writing to ``path``, or to the files that SQLite keeps next to it; "" if no cause is found.

    Of a folder, only the folder itself is examined. If ``is_quick``, nothing is written to find out.
    """
    with contextlib.suppress(OSError):
        folder = path if path.is_dir() else path.parent
        facts = os.statvfs(folder)
        if facts.f_flag & os.ST_RDONLY:
            return f"the file system of {folder} is read-only"
        # A file system without blocks, such as /proc, is not a disk.
        if facts.f_blocks and facts.f_files and not facts.f_favail:
            return f"the file system of {folder} has no inodes left: delete files that you don't need"
        if facts.f_blocks and facts.f_bavail * facts.f_frsize < _FULL_BYTES:
            return f"the disk of {folder} {IS_FULL}"
        if not os.access(folder, os.W_OK | os.X_OK):
            return f"the folder {folder} is not writable"
        files = () if path == folder else (path, path.with_name(f"{path.name}-wal"), path.with_name(f"{path.name}-shm"))
        for file in files:
            if os.path.lexists(file) and not file.is_file():
                return f"{file} is not a file: move it away"
            if file.is_file() and not os.access(file, os.R_OK | os.W_OK):
                return explain_closed(file)
        return _explain_growth(folder) if facts.f_blocks and not is_quick else ""
    return ""


def closed_files(folder: Path) -> Iterator[Path]:
    """Yield the files in a folder and its subfolders that this user can't write, without following links."""
    with contextlib.suppress(OSError):
        for path in sorted(folder.iterdir()):
            if path.is_symlink():
                continue
            if not os.access(path, os.R_OK | os.W_OK):
                yield path
            elif path.is_dir():
                yield from closed_files(path)


def explain_closed(path: Path) -> str:
    """Return why a file or folder that exists can't be written: it belongs to another user, or its mode forbids it."""
    kind = "folder" if path.is_dir() else "file"
    if os.stat(path, follow_symlinks=False).st_uid == os.geteuid():
        return f"the {kind} {path} is not writable"
    folder = shlex.quote(str(path.parent))
    return f"the {kind} {path} belongs to another user. Run: sudo chown -R {os.geteuid()} {folder}"


def _explain_growth(folder: Path) -> str:
    """Return why files in a folder can't grow, such as a quota, a size limit or a failing disk; "" if they can.

    SQLite reports any of these as a disk I/O error.
    """
    probe = folder / f".growth.{os.getpid()}.{os.urandom(4).hex()}.tmp"
    try:
        with open(probe, "xb") as file:
            file.write(bytes(_PROBE_BYTES))
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        return f"files in {folder} can't grow: {error.strerror}"
    finally:
        with contextlib.suppress(OSError):
            probe.unlink()
    return ""


#: What the system only calls "File exists" and "Is a directory".
_IN_THE_WAY = {
    errno.EEXIST: "something else is in its place: move that away",
    errno.EISDIR: "a folder is in its place: move that away",
}


def explain_error(error: OSError, path: Path | None = None) -> str:
    """Return the system's error on one line, with the state of the disk if that is the cause."""
    if path is None and isinstance(error.filename, str | os.PathLike):
        path = Path(error.filename)
    reason = error.strerror or str(error) or type(error).__name__
    cause = "" if path is None else explain_disk(path)
    if cause:
        return f"{reason}: {cause}"
    return reason if path is None else f"{path}: {_IN_THE_WAY.get(error.errno or 0, reason)}"


#: System errors about a file, which are not the program's fault and which the user can fix.
REFUSALS = frozenset(
    getattr(errno, name)
    for name in "ENOSPC EDQUOT EROFS EACCES EPERM EIO EMFILE ENFILE EFBIG ENAMETOOLONG EISDIR ENOTDIR "
    "ENOENT EEXIST ENOTEMPTY ELOOP EBUSY ESTALE".split()
)


def explain_refusal(error: BaseException) -> str:
    """Return what an unexpected error says if the system refused a file; "" if it is the program's fault."""
    return explain_error(error) if isinstance(error, OSError) and error.errno in REFUSALS else ""


def behind_rollback(error: BaseException) -> BaseException:
    """Return the error that ended a transaction, if ``error`` only reports that nothing was left to roll back.

    SQLite rolls back on its own if the disk is full or fails.
    """
    while "rollback" in str(error).lower() and error.__context__ is not None:
        error = error.__context__
    return error
