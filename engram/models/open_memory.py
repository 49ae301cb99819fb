"""Open memory.db: set aside another program's file, delete forgotten data, and register the hub's listeners.

Code that opens the memory calls ``open_store`` or ``open_memory``. Only code that reads copies opens a ``Store``
directly.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

from engram.enums import Actor
from engram.errors import BrokenDatabase, DiskFull, ForeignDatabase, OlderSchema, StoreError
from engram.models.engine.database import (
    ASIDE_NAME,
    CACHE_KB,
    UNINSTALLED_NAME,
    free_name,
    is_replaced,
    move_aside,
    using_database,
)
from engram.models.engine.meta import drop_meta, get_meta
from engram.models.engine.migrations import TOMBSTONES_DUE
from engram.models.engine.transaction import LISTENER_MODULES, Store
from engram.paths import Home
from engram.system.atomic import locked_folder
from engram.system.clock import SYSTEM_CLOCK, Clock
from engram.vaults import list_vaults

LISTENER_MODULES += ["engram.models.hub.memory_statements", "engram.models.hub.shares"]


def open_store(
    path: Path, *, driver: str = "auto", clock: Clock = SYSTEM_CLOCK, cache_kb: int = CACHE_KB, may_upgrade: bool = True
) -> Store:
    """Open memory.db; if it is another program's database, set that aside as ``memory.v2.db`` first.

    A file that has just been migrated may be an old copy, so everything that its tombstones list is deleted.

    Args:
        path: the file, which is created if missing.

    Raises:
        BrokenDatabase, NewerSchema, OlderSchema or StoreError: as for ``Store.open``.
    """
    store = _open_own(Store(path, driver=driver, clock=clock, cache_kb=cache_kb, may_upgrade=may_upgrade))
    if get_meta(store, TOMBSTONES_DUE) is not None:
        # Imported here because it is slow to load and is needed only after a migration.
        from engram.models.forgetting.forget_memories import apply_tombstones

        with store.transaction() as tx:
            apply_tombstones(tx, actor=Actor.TIDYING)
            drop_meta(tx, TOMBSTONES_DUE)
    return store


@contextlib.contextmanager
def open_memory(path: Path, *, driver: str, is_made: bool) -> Iterator[Store]:
    """Open memory.db while other processes have it open too; a restore waits until it is closed.

    If rows were lost with a damaged log, that is recorded, so that the worker checks the file thoroughly. If the disk
    is full and no process has the file open, it can only be read, and nobody else can open it meanwhile.

    Args:
        is_made: create a missing file, and set aside another program's database; otherwise nothing is created.

    Raises:
        OlderSchema: an earlier version wrote the file; only ``engram.worker.memory_file`` may upgrade it, after a copy.
        StoreError: the file can't be opened.
    """
    if not (is_made or os.path.lexists(path) or is_replaced(path)):
        raise StoreError(f"{path} is missing")
    with using_database(path) as damage:
        store = _open_with_others(path, driver, is_made)
        try:
            if damage:
                from engram.models.work.task_runs import note_lost_writes

                note_lost_writes(store, damage)
            yield store
        finally:
            store.close()


@contextlib.contextmanager
def open_vaults(home: Home, *, driver: str) -> Iterator[tuple[list[Store], list[str]]]:
    """Open the vaults of a memory, for a change to everything; one that can't be opened must not stop it.

    Yield their stores, and a sentence for each vault that can't be opened.
    """
    with contextlib.ExitStack() as opened:
        stores, faults = [], []
        for vault in list_vaults(home):
            path = vault.home.memory_db
            try:
                if not path.exists():
                    raise StoreError(f"{path} is missing")
                stores.append(opened.enter_context(open_memory(path, driver=driver, is_made=False)))
            except StoreError as error:
                faults.append(f"This was not done in the vault {vault.name}, which can't be opened: {error}")
        yield stores, faults


def _open_with_others(path: Path, driver: str, is_made: bool) -> Store:
    try:
        if is_made:
            return open_store(path, driver=driver, may_upgrade=False)
        return Store(path, driver=driver, may_upgrade=False).open()
    except DiskFull:
        if not path.exists():
            raise
    return Store(path, driver=driver, may_upgrade=False, is_alone=True).open()


def _open_own(store: Store) -> Store:
    """Open a store; set another program's database aside, and open or create Engram's own."""
    path = store.path
    try:
        return store.open()
    except ForeignDatabase:
        store.close()
    except (BrokenDatabase, OlderSchema):
        store.close()
        raise
    with locked_folder(path.parent):
        # Another process may have set it aside in the meantime, so the file may now be Engram's.
        with contextlib.suppress(ForeignDatabase):
            return store.open()
        store.close()
        move_aside(path, free_name(path, ASIDE_NAME))
        own = path.with_name(UNINSTALLED_NAME)
        if own.is_file():
            move_aside(own, path)
        store.make_private()
    return store.open()
