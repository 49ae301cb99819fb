"""Keep a worker's vaults open, and back up memories daily."""

from __future__ import annotations

import contextlib
import logging
import os
import threading
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from engram.errors import BadRequest, BrokenDatabase, EngramError, StoreError
from engram.ingest.read_sources import ingest_source
from engram.ingest.session_project import vault_of
from engram.models.engine.database import using_database
from engram.models.rescue.backup import has_content, list_backups, make_backup
from engram.models.sessions.reading_progress import load_progress
from engram.models.sessions.sessions import find_session
from engram.models.work.task_runs import clear_old_news, note_damage, note_failure, note_lost_writes, note_success
from engram.models.work.work import is_overdue, release_lease, take_lease
from engram.tasks.boundary import run_guarded
from engram.tasks.drain import drain
from engram.tasks.runtime import Runtime, make_vault_runtime
from engram.transcripts import registry
from engram.transcripts.agents import Source
from engram.vaults import FILE_NAME, Vault, list_vaults, settings_of
from engram.worker.memory_file import open_or_set_aside

logger = logging.getLogger(__name__)

#: Seconds between two backups.
EVERY_SECONDS = 86_400
#: How long a backup may hold its lease, in seconds.
LEASE_SECONDS = 1800
#: Seconds until a failed backup is retried.
AGAIN_SECONDS = 900


class DailyBackup:
    """Backs up a memory once a day; ``run_if_due`` is cheap while nothing is due."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._not_before_seconds = 0.0

    def run_if_due(self) -> bool:
        """Make a backup if the last one is a day old and the memory is not empty; return True if one was made.

        A failure is recorded and retried. A damaged memory.db is reported to the runtime, so that the worker stops and
        the next start sets the file aside. Raises StoreError if memory.db can't be read.
        """
        store = self._runtime.store
        steady = store.clock.steady_seconds()
        if (
            steady < self._not_before_seconds
            or not is_overdue(store, "backup", self._every_seconds())
            or not has_content(store)
        ):
            return False
        owner = f"{os.getpid()}-{id(self)}"
        if not take_lease(store, "backup", owner, LEASE_SECONDS, every_seconds=self._every_seconds()):
            return False
        self._not_before_seconds = steady + AGAIN_SECONDS
        has_run = False
        try:
            made = make_backup(store, self._runtime.settings.places.backups)
            has_run = True
            note_success(store, "backup", seen=1, done=1)
            clear_old_news(store, EVERY_SECONDS)
            logger.info("action=backup path=%s bytes=%d", made.path.name, made.size)
        except BrokenDatabase as error:
            logger.error("action=backup failed=%s", error)
            self._runtime.is_damaged.set()
        except StoreError as error:
            logger.warning("action=backup failed=%s", error)
            note_failure(store, "backup", str(error))
        finally:
            release_lease(store, "backup", owner, has_run=has_run)
        return has_run

    def _every_seconds(self) -> int:
        """Return the interval between backups, in seconds: a day, or 0 if there is no backup yet."""
        return EVERY_SECONDS if list_backups(self._runtime.settings.places.backups) else 0


# -- Open vaults on demand. Each vault has its own memory; the model and the threads are shared.

#: Interval between two checks of the vaults' sessions, in seconds.
VAULT_EVERY_SECONDS = 60.0
#: How long shutdown waits for a busy vault, in seconds.
CLOSE_SECONDS = 5.0


class _OpenVault:
    def __init__(self, vault: Vault, outer: Runtime) -> None:
        self.vault = vault
        self._opened = contextlib.ExitStack()
        settings = settings_of(vault, outer.settings)
        settings.places.prepare(must_exist=True)
        try:
            log_damage = self._opened.enter_context(using_database(settings.places.memory_db))
            store = open_or_set_aside(settings.places, settings, clock=outer.store.clock)
            self._opened.callback(store.close)
            if log_damage:
                note_lost_writes(store, log_damage)
        except BaseException:
            self._opened.close()
            raise
        self.runtime = make_vault_runtime(outer, settings, store)
        self._backup = DailyBackup(self.runtime)
        #: Sources of other projects that were skipped, by place, with the stamps that they had at the time.
        self._passed_over: dict[Any, str] = {}

    def close(self) -> None:
        self._opened.close()

    def close_damaged(self) -> None:
        """Close a damaged memory; it will be checked thoroughly when it is next opened."""
        note_damage(self.runtime.store)
        self.close()

    def work(self) -> None:
        """Read the project's sessions, make memories from them, consolidate and back up."""
        runtime = self.runtime
        for source in registry.discover(runtime.settings):
            if runtime.is_stopping:
                return
            if self._is_changed(source):
                read = ingest_source(runtime.store, source, settings=runtime.settings, redact=runtime.redact)
                if read.skipped:
                    self._passed_over[source.place] = source.stamp
        drain(runtime, with_consolidation=True)
        runtime.refresh_index()
        self._backup.run_if_due()

    def _is_changed(self, source: Source) -> bool:
        if self._passed_over.get(source.place) == source.stamp:
            return False
        return load_progress(self.runtime.store, source.place).stamp != source.stamp


def _open_vault(vault: Vault, outer: Runtime) -> _OpenVault:
    """Open a vault. Raises StoreError if its memory is damaged and could not be set aside."""
    try:
        return _OpenVault(vault, outer)
    except BrokenDatabase as error:
        raise StoreError(f"a vault's memory can't be set aside: {error}") from error


class Vaults:
    """Routes a vault's requests and data to its memory. Thread-safe."""

    def __init__(self, runtime: Runtime) -> None:
        self._outer = runtime
        self._lock = threading.Lock()
        self._open: dict[str, _OpenVault] = {}
        self._checked_seconds: float | None = None
        self._thread: threading.Thread | None = None

    def for_payload(self, payload: Mapping[str, Any]) -> Runtime:
        """Return the services for a hook: those of the vault that its session or folder belongs to, or the worker's.

        Raises EngramError if a vault can't be read or opened, in which case nothing may be shown.
        """
        vaults = list_vaults(self._outer.settings.places)
        if not vaults:
            return self._outer
        session_id = str(payload.get("session_id") or "")
        for vault in vaults:
            runtime = self._opened(vault).runtime
            with self.noting_damage(runtime):
                if find_session(runtime.store, session_id) is not None:
                    return runtime
        vault_of_cwd = vault_of(self._outer.settings, str(payload.get("cwd") or ""))
        return self._outer if vault_of_cwd is None else self._opened(vault_of_cwd).runtime

    def named(self, name: object) -> Runtime:
        """Return the services of the vault with the given name, or the worker's for None. Raises BadRequest."""
        if name is None:
            return self._outer
        for vault in list_vaults(self._outer.settings.places):
            if vault.folder.name == name:
                return self._opened(vault).runtime
        raise BadRequest("there is no such vault")

    @contextlib.contextmanager
    def noting_damage(self, runtime: Runtime) -> Iterator[None]:
        """Mark a vault's memory as damaged if the block fails because of damage; the next opening sets it aside.

        Raises:
            StoreError: the vault's memory is damaged.
            BrokenDatabase: the worker's own memory is damaged.
        """
        try:
            yield
        except BrokenDatabase as error:
            if runtime is self._outer:
                raise
            runtime.is_damaged.set()
            raise StoreError(f"a vault's memory is damaged: {error}") from error

    def write_down(self) -> None:
        """Record what was sent to hooks in vaults."""
        for known in self._known():
            with contextlib.suppress(StoreError), self.noting_damage(known.runtime):
                known.runtime.recollection.write_down()

    def check(self) -> None:
        """Once a minute, start the work of every sealed vault; close those that are gone."""
        steady = self._outer.store.clock.steady_seconds()
        if self._checked_seconds is not None and 0 <= steady - self._checked_seconds < VAULT_EVERY_SECONDS:
            return
        if self._thread is not None and self._thread.is_alive():
            return
        self._checked_seconds = steady
        for known in self._known():
            if not (known.vault.folder / FILE_NAME).exists():
                self._drop(known)
        todo = [vault for vault in list_vaults(self._outer.settings.places) if vault.is_sealed]
        if todo:
            # Run in a separate thread, because a first read takes a while and housekeeping must continue.
            self._thread = threading.Thread(target=self._work_all, args=(todo,), name="vaults", daemon=True)
            self._thread.start()

    def close(self) -> None:
        if self._thread is not None:
            self._thread.join(CLOSE_SECONDS)
            if self._thread.is_alive():
                return
        for known in self._known():
            self._drop(known)

    def _work_all(self, vaults: Sequence[Vault]) -> None:
        for vault in vaults:
            try:
                opened = self._opened(vault)
            except EngramError as error:
                logger.warning("action=open_vault failed=%s", error)
                continue
            # Record the run only in the vault, because no other memory may contain the vault's name.
            work = partial(run_guarded, opened.runtime, "vault", "", opened.work)
            opened.runtime.extraction_executor.run(f"vault {vault.folder.name}", work)

    def _opened(self, vault: Vault) -> _OpenVault:
        with self._lock:
            key = str(vault.folder)
            known = self._open.get(key)
            if known is not None and known.runtime.is_damaged.is_set():
                del self._open[key]
                known.close_damaged()
                known = None
            if known is None:
                known = self._open[key] = _open_vault(vault, self._outer)
            return known

    def _known(self) -> list[_OpenVault]:
        with self._lock:
            return list(self._open.values())

    def _drop(self, known: _OpenVault) -> None:
        with self._lock:
            self._open.pop(str(known.vault.folder), None)
        known.close()
