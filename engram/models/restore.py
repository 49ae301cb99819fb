"""Putting another database in the place of memory.db: a backup, or a new one for a damaged one."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from engram.atomic import read_regular
from engram.causes import explain_error
from engram.enums import Actor
from engram.errors import BadRequest, EngramError, StoreError
from engram.failpoint import reach
from engram.models.backup import drop_database
from engram.models.forgetting import wipe_free_space
from engram.models.recovery import Recovered, recover_by_hand
from engram.models.replacement import free_name, owning_database, preparing_replacement, swap_in
from engram.models.set_aside import clean_set_aside, is_file
from engram.models.soundness import find_all_damage
from engram.models.store import Store
from engram.models.tombstone_transfer import read_tombstones


@dataclass(frozen=True, slots=True)
class Restored:
    """What a restore did."""

    #: The backup that memory.db is now a copy of.
    source: Path
    #: Where the memory.db of before went; None where there was none.
    aside: Path | None
    memories: int
    turns: int
    #: What was carried over from the memory.db of before.
    carried: Recovered


def restore_backup(path: Path, backup: Path, *, driver: str) -> Restored:
    """Put a copy of ``backup`` in the place of the memory.db at ``path``; call it while neither watcher nor worker
    runs.

    What was saved, pinned, edited or forgotten since is carried over into the copy as far as it can be read, and what
    was forgotten is deleted from it; then the copy takes the place of memory.db, which is set aside as
    ``memory.replaced.db``. A kill at any instant leaves the old memory.db, or a swap that is finished when memory.db
    is opened next. Transcripts are read on from where the backup stood.

    Raises:
        BadRequest: the file is no sound backup; nothing was changed.
        AlreadyRunning: another command has memory.db open for longer than a moment.
        StoreError: the disk is full, or SQLite fails; memory.db is the old one.
    """
    if os.path.lexists(path) and os.path.lexists(backup) and os.path.samefile(path, backup):
        raise BadRequest(f"{backup} is memory.db itself")
    try:
        with owning_database(path), preparing_replacement(path) as new:
            _copy_file(backup, new, driver)
            reach("restore.copied")
            with Store(new, driver=driver) as store:
                carried = recover_by_hand(store, [path] if is_file(path) else [], actor=Actor.USER)
                reach("restore.carried")
                wipe_free_space(store)
                memories = int(store.value("SELECT count(*) FROM episode"))
                turns = int(store.value("SELECT count(*) FROM turn"))
                tombstones = read_tombstones(store)
            _drop_side_files(new)
            aside = free_name(path, "memory.replaced.db") if os.path.lexists(path) else None
            swap_in(path, aside or free_name(path, "memory.replaced.db"))
    except OSError as error:
        raise StoreError(f"nothing was restored: {explain_error(error)}") from error
    clean_set_aside(path, driver, tombstones)
    return Restored(source=backup, aside=aside, memories=memories, turns=turns, carried=carried)


def put_copy_back(path: Path, copy: Path) -> Path:
    """Put the copy from before an upgrade in the place of the memory.db at ``path``, as it is; the copy goes.

    Nothing is carried over: call it right after the upgrade, when it is taken back because something else failed.

    Returns:
        Where the upgraded memory.db went.

    Raises:
        AlreadyRunning: another command has memory.db open for longer than a moment.
        StoreError: the disk is full; memory.db is the upgraded one.
    """
    try:
        with owning_database(path), preparing_replacement(path) as new:
            shutil.copyfile(copy, new, follow_symlinks=False)
            os.chmod(new, 0o600)
            aside = free_name(path, "memory.replaced.db")
            swap_in(path, aside)
    except OSError as error:
        raise StoreError(f"memory.db was not put back: {explain_error(error)}") from error
    drop_database(copy)
    return aside


def rebuild_memory(
    path: Path, aside_name: str, sources: Sequence[Path], note: Callable[[Store, Path, Recovered], None], *, driver: str
) -> tuple[Path, Recovered]:
    """Put a new memory.db in the place of a damaged one, with what people did by hand to it and to the sources.

    Like ``restore_backup``, a kill at any instant leaves the damaged file in its place, or a swap to finish.

    Args:
        path: the damaged memory.db.
        aside_name: what it is called from then on; a name that is taken gets a time behind it.
        sources: further databases that may hold what it lost, the newest first.
        note: writes into the new memory what happened, given where the damaged one goes.
        driver: of SQLite.

    Returns:
        Where the damaged file went, and what was carried over.

    Raises:
        StoreError: the disk is full, or SQLite fails; the damaged file is where it was.
    """
    try:
        with preparing_replacement(path) as new:
            with Store(new, driver=driver) as store:
                carried = recover_by_hand(store, [*([path] if is_file(path) else []), *sources], actor=Actor.TIDYING)
                reach("restore.carried")
                aside = free_name(path, aside_name)
                note(store, aside, carried)
                tombstones = read_tombstones(store)
                store.checkpoint("TRUNCATE")
            _drop_side_files(new)
            swap_in(path, aside)
    except OSError as error:
        raise StoreError(f"the damaged memory.db was not set aside: {explain_error(error)}") from error
    clean_set_aside(path, driver, tombstones)
    return aside, carried


def _copy_file(backup: Path, new: Path, driver: str) -> None:
    """Copy a backup, with a log that lies beside it, and check the copy. Raises BadRequest."""
    if not (read_regular(backup, 16) or b"").startswith(b"SQLite format 3\0"):
        raise BadRequest(f"{backup} is no backup of memory.db")
    try:
        for suffix in ("", "-wal"):
            source, target = backup.with_name(backup.name + suffix), new.with_name(new.name + suffix)
            if not suffix or is_file(source):
                shutil.copyfile(source, target, follow_symlinks=False)
                os.chmod(target, 0o600)
    except OSError as error:
        raise BadRequest(f"{backup} cannot be copied: {explain_error(error, new)}") from error
    copy = Store(new, driver=driver)
    try:
        copy.open()
        damage = find_all_damage(copy)
    except EngramError as error:
        damage = str(error)
    finally:
        copy.close()
    if damage:
        raise BadRequest(f"{backup} is no sound backup of memory.db: {damage}")


def _drop_side_files(new: Path) -> None:
    """A closed database has no log; SQLite may leave an empty one."""
    for suffix in ("-wal", "-shm"):
        new.with_name(new.name + suffix).unlink(missing_ok=True)
