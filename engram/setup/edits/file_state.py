"""The state of a path outside the memory folder, and how it is written: atomically, keeping mode and links."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import stat
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

from engram.errors import InstallError
from engram.system.atomic import explain_error, flush_to_disk

#: Maximum size of a file that is read, in bytes.
MAX_BYTES = 64_000_000
#: Name of the temporary file that is renamed to ``{}``; it is fixed, so that a killed installer's leftover is found.
TEMPORARY = ".{}.engram-new"


class StateKind(StrEnum):
    ABSENT = "absent"
    FILE = "file"
    LINK = "link"


@dataclass(frozen=True, slots=True)
class FileState:
    """The state of a path; the content of a file is stored elsewhere, under its digest."""

    kind: StateKind
    #: SHA-256 of a file's content.
    digest: str = ""
    #: Permission bits of a file.
    mode: int = 0
    #: Target of a link.
    target: str = ""

    @classmethod
    def from_json(cls, stored: Mapping[str, Any]) -> FileState:
        return cls(**{**stored, "kind": StateKind(stored["kind"])})

    def has_same_content(self, other: FileState) -> bool:
        """Return True if both states are the same, except perhaps for the permission bits."""
        return (self.kind, self.digest, self.target) == (other.kind, other.digest, other.target)


ABSENT = FileState(StateKind.ABSENT)


def digest_of(data: bytes) -> str:
    """Return the name under which content is stored."""
    return hashlib.sha256(data).hexdigest()


def real_path(path: Path, *, is_link: bool) -> Path:
    """Return the file that a change to ``path`` affects; links are followed, unless the link itself is changed.

    Raises:
        InstallError: the links form a loop.
    """
    followed = path.parent if is_link else path
    try:
        os.stat(followed)
    except OSError as error:
        # From Python 3.13 on, Path.resolve returns a path for a loop, too.
        if error.errno == errno.ELOOP:
            raise InstallError(f"can't follow the link {path}: it points to itself") from error
    return followed.resolve() / path.name if is_link else followed.resolve()


def read_state(real: Path) -> tuple[FileState, bytes]:
    """Return the state of a path, and its content.

    Raises:
        InstallError: it is a folder or a device, too large, or can't be read.
    """
    try:
        facts = os.lstat(real)
    except (FileNotFoundError, NotADirectoryError):
        return ABSENT, b""
    except OSError as error:
        raise InstallError(f"can't read {real}: {explain_error(error)}") from error
    if stat.S_ISLNK(facts.st_mode):
        return FileState(StateKind.LINK, target=os.readlink(real)), b""
    if not stat.S_ISREG(facts.st_mode):
        raise InstallError(f"{real} is not a file. Move it away")
    if facts.st_size > MAX_BYTES:
        raise InstallError(f"{real} is larger than {MAX_BYTES // 1_000_000} MB. Move it away")
    try:
        data = real.read_bytes()
    except OSError as error:
        raise InstallError(f"can't read {real}: {explain_error(error)}") from error
    return FileState(StateKind.FILE, digest_of(data), stat.S_IMODE(facts.st_mode)), data


def check_writable(path: Path, real: Path, state: FileState) -> None:
    """Raise InstallError if the owner made a file read-only."""
    if state.kind is StateKind.FILE and not state.mode & stat.S_IWUSR:
        raise InstallError(
            f"{path} is read-only. Make it writable (chmod u+w {real}), or change it where it is generated"
        )


def missing_folders(folder: Path) -> list[Path]:
    """Return a folder and its parents that don't exist yet, outermost first.

    Raises:
        InstallError: a file is in the way.
    """
    missing: list[Path] = []
    while not folder.is_dir():
        if folder.exists():
            raise InstallError(f"{folder} is not a folder. Move it away")
        missing.append(folder)
        folder = folder.parent
    return missing[::-1]


def make_folders(folder: Path) -> None:
    """Create a folder and its missing parents. Raises InstallError if a file is in the way."""
    for missing in missing_folders(folder):
        missing.mkdir(exist_ok=True)


def write_state(real: Path, state: FileState, data: bytes) -> None:
    """Change what is at a path to the given state. Its folder must exist.

    The change is atomic, by a rename. A file with several names (hard links), or one that can't be replaced by a rename
    (such as a mount of a single file), is written in place.

    Raises:
        OSError: it can't be written; the old content is still there.
    """
    if state.kind is StateKind.ABSENT:
        real.unlink(missing_ok=True)
        return
    temporary = real.with_name(TEMPORARY.format(real.name))
    temporary.unlink(missing_ok=True)
    try:
        if state.kind is StateKind.LINK:
            temporary.symlink_to(state.target)
        elif _is_shared(real):
            _write_in_place(real, state, data)
            return
        else:
            _write_new(temporary, real, state, data)
        os.replace(temporary, real)
    except OSError as error:
        temporary.unlink(missing_ok=True)
        if error.errno not in (errno.EBUSY, errno.EXDEV) or state.kind is not StateKind.FILE:
            # The user doesn't know the temporary name.
            error.filename, error.filename2 = str(real), None
            raise
        _write_in_place(real, state, data)
    with contextlib.suppress(OSError):
        flush_to_disk(real.parent)


def drop_temporary(real: Path) -> None:
    """Delete the temporary file that a killed installer left next to a file."""
    with contextlib.suppress(OSError):
        real.with_name(TEMPORARY.format(real.name)).unlink(missing_ok=True)


def _is_shared(real: Path) -> bool:
    try:
        return os.lstat(real).st_nlink > 1 and real.is_file() and not real.is_symlink()
    except OSError:
        return False


def _write_new(temporary: Path, real: Path, state: FileState, data: bytes) -> None:
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(data)
        file.flush()
        with contextlib.suppress(OSError):
            # When run as root, keep the file's owner.
            facts = os.lstat(real)
            os.fchown(descriptor, facts.st_uid, facts.st_gid)
        os.fchmod(descriptor, state.mode)
        os.fsync(descriptor)


def _write_in_place(real: Path, state: FileState, data: bytes) -> None:
    old = real.read_bytes()
    try:
        _overwrite(real, data)
        os.chmod(real, state.mode)
    except OSError:
        # On a full disk, the new content was written only in part; the old content fits, because its space is still
        # allocated.
        with contextlib.suppress(OSError):
            _overwrite(real, old)
        raise


def _overwrite(real: Path, data: bytes) -> None:
    with open(real, "r+b") as file:
        file.write(data)
        file.truncate()
        file.flush()
        os.fsync(file.fileno())
