"""Another file in the place of memory.db: built beside it and put in its place, whatever is killed meanwhile.

The new database is built in the folder ``.replacement`` beside the old one. A record in that folder is the point of no
return: without it the folder is deleted, with it the swap is finished. Both happen when memory.db is opened next.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import shutil
import time
from collections.abc import Iterator
from pathlib import Path

from engram.atomic import FILE_MODE, locked_folder, make_private_folder, read_regular, write_atomic
from engram.causes import explain_error
from engram.errors import AlreadyRunning, StoreError
from engram.failpoint import reach
from engram.models.log_check import find_log_damage

#: Where the new database is built, beside the old one.
FOLDER_NAME = ".replacement"
#: Locked (flock): shared by whoever has memory.db open, exclusive by who replaces it.
LOCK_NAME = "memory.lock"
#: How long somebody who wants to open memory.db waits for a replacement, in seconds.
USER_WAIT_SECONDS = 10.0
#: How long a replacement waits for those who have memory.db open, in seconds.
OWNER_WAIT_SECONDS = 5.0

#: Says that databases that were set aside may still hold what was forgotten.
UNCLEAN_NAME = ".set-aside-unclean"

_RECORD_NAME = "swap.json"
#: The log moves before the database: a database without its log would lose what stands in it.
_SUFFIXES = ("-wal", "-shm", "-journal", "")
_RETRY_SECONDS = 0.02


@contextlib.contextmanager
def using_database(path: Path) -> Iterator[str]:
    """Keep others from replacing the database at ``path``; waits a while for a replacement to end.

    Whoever comes while nobody else has it open looks at the log that a crash left, and is given what is lost in it
    ("" for nothing): SQLite says nothing of that.

    Raises:
        StoreError: it is being replaced for longer than that, or its folder cannot be written.
    """
    with _holding(path, fcntl.LOCK_SH, USER_WAIT_SECONDS) as descriptor:
        if descriptor is None:
            raise StoreError("memory.db is being restored just now; try again when that is done")
        damage = ""
        if path.with_name(f"{path.name}-wal").exists() and _try_lock(descriptor, fcntl.LOCK_EX):
            damage = find_log_damage(path)
        fcntl.flock(descriptor, fcntl.LOCK_SH)
        yield damage


@contextlib.contextmanager
def owning_database(path: Path) -> Iterator[None]:
    """Keep others from opening the database at ``path``; waits a while for those who have it open.

    Raises:
        AlreadyRunning: somebody has it open for longer than that.
        StoreError: its folder cannot be written.
    """
    with _holding(path, fcntl.LOCK_EX, OWNER_WAIT_SECONDS) as descriptor:
        if descriptor is None:
            raise AlreadyRunning("another Engram command has memory.db open; end it, then try again")
        yield


@contextlib.contextmanager
def _holding(path: Path, operation: int, wait_seconds: float) -> Iterator[int | None]:
    try:
        descriptor = os.open(
            path.with_name(LOCK_NAME), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, FILE_MODE
        )
    except OSError as error:
        raise StoreError(f"cannot use the memory folder {path.parent}: {explain_error(error, path)}") from error
    try:
        until = time.monotonic() + wait_seconds
        while not (is_held := _try_lock(descriptor, operation)) and time.monotonic() < until:
            time.sleep(_RETRY_SECONDS)
        yield descriptor if is_held else None
    finally:
        os.close(descriptor)


def _try_lock(descriptor: int, operation: int) -> bool:
    try:
        fcntl.flock(descriptor, operation | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


@contextlib.contextmanager
def preparing_replacement(path: Path) -> Iterator[Path]:
    """Yield the path at which a new database for ``path`` is to be built; whatever is not swapped in is deleted.

    Holds the lock of the folder, so do not open a missing database in it meanwhile. Raises OSError.
    """
    with locked_folder(path.parent):
        _finish(path)
        folder = make_private_folder(path.with_name(FOLDER_NAME))
        try:
            yield folder / path.name
        finally:
            shutil.rmtree(folder, ignore_errors=True)


def free_name(path: Path, name: str) -> Path:
    """Where the database at ``path`` can go aside as ``name``; a name that is taken gets a time behind it."""
    aside = path.with_name(name)
    return path.with_name(f"{aside.stem}.{time.time_ns()}{aside.suffix}") if os.path.lexists(aside) else aside


def swap_in(path: Path, aside: Path) -> None:
    """Put the prepared database in the place of ``path``, which goes aside. Inside ``preparing_replacement``."""
    folder = path.with_name(FOLDER_NAME)
    _sync(folder / path.name)
    reach("restore.ready")
    write_atomic(folder / _RECORD_NAME, json.dumps({"aside": aside.name}).encode())
    reach("restore.recorded")
    _finish(path)


def is_replaced(path: Path) -> bool:
    """True where a replacement of ``path`` is under way, or was killed: it may have no file just now."""
    return os.path.lexists(path.with_name(FOLDER_NAME))


def finish_replacement(path: Path) -> None:
    """Finish or undo what a killed replacement of ``path`` left; costs one look where there is nothing.

    Waits while a replacement is under way in another process. Raises StoreError where it cannot be finished.
    """
    if is_replaced(path):
        try:
            with locked_folder(path.parent):
                _finish(path)
        except OSError as error:
            raise StoreError(f"an interrupted restore cannot be finished: {explain_error(error)}") from error


def _finish(path: Path) -> None:
    """With the folder's lock held: every step may be done again."""
    folder = path.with_name(FOLDER_NAME)
    record = read_regular(folder / _RECORD_NAME, 10_000)
    new = folder / path.name
    if record and new.exists():
        aside = path.with_name(str(json.loads(record)["aside"]))
        for suffix in _SUFFIXES:
            old, target = path.with_name(path.name + suffix), aside.with_name(aside.name + suffix)
            if os.path.lexists(old) and not os.path.lexists(target):
                os.replace(old, target)
                reach("restore.aside")
        write_atomic(path.with_name(UNCLEAN_NAME), b"")
        os.replace(new, path)
        reach("restore.swapped")
        _sync(path.parent)
    if os.path.lexists(folder):
        shutil.rmtree(folder)
        reach("restore.finished")


def _sync(path: Path) -> None:
    """Have the disk take over a file, or the names in a folder."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
