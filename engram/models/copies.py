"""Other databases of Engram, such as backups: opened only if they are sound, and cleaned of what was forgotten."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path

from engram.errors import BrokenDatabase
from engram.models.forgetting import wipe_free_space
from engram.models.replacement import using_database
from engram.models.stages import note_failure
from engram.models.store import Store, open_store
from engram.models.transaction import Tx


@contextlib.contextmanager
def open_memory(path: Path, *, driver: str, is_made: bool, may_upgrade: bool = False) -> Iterator[Store]:
    """Open memory.db beside other processes; a restore waits until it is closed.

    Damage that SQLite reports meanwhile is noted, so that the worker looks closely.

    Args:
        path: of memory.db.
        driver: of SQLite.
        is_made: make a missing one, and set aside another program's database.
        may_upgrade: change the tables of an earlier version. Only who made a copy of memory.db first may do that, see
            ``engram.worker.memory_file``.

    Raises:
        OlderSchema: an earlier version wrote it, and it must not be upgraded; it is as it was.
        StoreError: it cannot be opened.
    """
    with using_database(path) as damage:
        make = open_store if is_made else Store
        store = make(path, driver=driver, may_upgrade=may_upgrade)
        try:
            if not is_made:
                store.open()
            if damage:
                note_failure(store, "memory", damage)
            yield store
        finally:
            store.close()


@contextlib.contextmanager
def open_sound_copy(path: Path, driver: str) -> Iterator[Store]:
    """Open another database of Engram. Raises StoreError if it is damaged or not Engram's; it is as it was."""
    copy = Store(path, driver=driver)
    try:
        copy.open()
        if damage := copy.find_damage():
            raise BrokenDatabase(damage)
        yield copy
    finally:
        copy.close()


def clean_copy(path: Path, driver: str, clean: Callable[[Tx], int]) -> int:
    """Delete rows of another database and every trace of them; returns how many ``clean`` deleted.

    Raises:
        StoreError: the file is damaged, or not Engram's; it is as it was.
    """
    with open_sound_copy(path, driver) as copy:
        with copy.transaction() as tx:
            cleaned = clean(tx)
        wipe_free_space(copy)
    return cleaned
