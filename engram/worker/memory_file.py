"""Opening memory.db in the worker: a damaged one is set aside, and what people did by hand is carried over."""

from __future__ import annotations

import contextlib
import logging
import os
from functools import partial
from pathlib import Path

from engram.atomic import drop_leftovers
from engram.clock import iso_time
from engram.errors import BrokenDatabase, StoreError
from engram.models.backup import Backup, list_backups
from engram.models.fulltext import rebuild_indexes
from engram.models.recovery import Recovered
from engram.models.restore import rebuild_memory
from engram.models.set_aside import clean_after_swap
from engram.models.soundness import find_all_damage, quick_damage
from engram.models.stages import is_damage_noted, list_stages, note_failure, note_success
from engram.models.store import Store, open_store
from engram.paths import Home
from engram.settings import Settings

logger = logging.getLogger(__name__)

#: Name that a damaged memory.db gets; a taken name gets a time behind it.
BROKEN_NAME = "memory.broken.db"
#: A temporary file of this age has no writer any more, in seconds.
LEFTOVER_SECONDS = 600
#: A file of more bytes is checked once a day, not at every start.
LARGE_BYTES = 100_000_000


def open_or_set_aside(home: Home, settings: Settings) -> Store:
    """Open memory.db; a damaged one is moved to ``memory.broken.db`` and a new one made. With the worker's lock held.

    The transcripts are read again. What was saved, pinned, edited or forgotten by hand is carried over from the
    damaged file as far as it can be read, and from the backups.

    Raises:
        StoreError: it cannot be opened for another reason.
    """
    drop_leftovers(home.root, LEFTOVER_SECONDS)
    damage = "the file is empty" if _is_emptied(home) else ""
    try:
        if not damage:
            store = open_store(home.memory_db, driver=settings.sqlite_driver)
            damage = _damage_of(store)
            if not damage:
                clean_after_swap(store)
                return store
            store.close()
    except BrokenDatabase as error:
        damage = str(error)
    backups = list_backups(home.backups)
    aside, _ = rebuild_memory(
        home.memory_db, BROKEN_NAME, [backup.path for backup in backups], partial(_note_rebuilt, backups),
        driver=settings.sqlite_driver,
    )  # fmt: skip
    logger.error("action=set_aside path=%s reason=%s", aside, damage)
    return open_store(home.memory_db, driver=settings.sqlite_driver)


def _note_rebuilt(backups: list[Backup], store: Store, aside: Path, carried: Recovered) -> None:
    """Leave in the new memory what happened to the old one, and what may be missing."""
    logger.info("action=recover memories=%d tombstones=%d lost=%d", carried.memories, carried.tombstones, carried.lost)
    missing = f"; {carried.lost} memories could not be read and are missing" if carried.lost else ""
    if not carried.is_complete:
        missing += (
            "; the damaged file could not be read to its end, so that what you kept since the backup may be missing"
        )
    backup = f"the latest backup is of {iso_time(backups[0].made_at_ms)}" if backups else "there is no backup"
    note_failure(
        store, "memory",
        f"memory.db was damaged and is now {aside.name}; the transcripts are read again, {carried.memories} memories kept "
        f"by hand came back{missing}; {backup}; 'engram restore' brings a whole backup back",
    )  # fmt: skip


def _is_emptied(home: Home) -> bool:
    """True for a file of no bytes where there must have been a memory once."""
    with contextlib.suppress(OSError):
        return os.lstat(home.memory_db).st_size == 0 and bool(list_backups(home.backups))
    return False


def _is_large(path: Path) -> bool:
    with contextlib.suppress(OSError):
        return os.lstat(path).st_size > LARGE_BYTES
    return False


def _damage_of(store: Store) -> str:
    """What is wrong; a text index alone is built anew. Where the last run met no damage, a quick look does.

    A large file is not even looked through quickly then: that takes 5 s a GB at every start. The daily backup does it.
    """
    suspected = any(stage.name == "memory" and stage.last_error for stage in list_stages(store))
    if not suspected and _is_large(store.path):
        return ""
    damage = _quick_damage(store)
    if not damage and not suspected:
        return ""
    if damage and not _is_of_index(damage):
        return damage
    if damage or find_all_damage(store):
        logger.warning("action=rebuild_indexes reason=%s", damage or "an index does not fit its rows")
        with contextlib.suppress(StoreError):
            rebuild_indexes(store)
        damage = find_all_damage(store)
        if not damage:
            note_success(store, "memory")
    elif is_damage_noted(store):
        note_success(store, "memory")
    return damage


def _quick_damage(store: Store) -> str:
    try:
        return quick_damage(store)
    except BrokenDatabase as error:
        return str(error)


def _is_of_index(damage: str) -> bool:
    """True where only a text index is damaged."""
    return "fts5" in damage.lower() or "vtable" in damage.lower()
