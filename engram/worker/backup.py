"""One backup of memory.db a day, by whichever worker comes first; a failure is noted and tried again later."""

from __future__ import annotations

import logging
import os

from engram.errors import BrokenDatabase, StoreError
from engram.models.backup import has_content, list_backups, make_backup
from engram.models.leases import last_run_ms, release_lease, take_lease
from engram.models.stages import clear_old_failure, note_failure, note_success
from engram.tasks.runtime import Runtime

logger = logging.getLogger(__name__)

#: Seconds between two backups.
EVERY_SECONDS = 86_400
#: How long a backup may hold its lease, in seconds.
LEASE_SECONDS = 1800
#: Seconds until the next try after a failure.
AGAIN_SECONDS = 900


class DailyBackup:
    """Remembers when to look again; ``look`` is cheap while nothing is due."""

    def __init__(self, runtime: Runtime) -> None:
        """Nothing is looked at before ``look``."""
        self._runtime = runtime
        self._not_before_seconds = 0.0

    def look(self) -> bool:
        """Make a backup if the last one is a day old and there is something to keep; True where one was made.

        A damaged memory.db is reported to the runtime, so that the worker stops and the next start sets the file aside.
        Raises StoreError where memory.db cannot be read.
        """
        store = self._runtime.store
        steady = store.clock.steady_seconds()
        if steady < self._not_before_seconds or not self._is_due() or not has_content(store):
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
            clear_old_failure(store, "memory", EVERY_SECONDS)
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

    def _is_due(self) -> bool:
        since_ms = self._runtime.store.now_ms() - last_run_ms(self._runtime.store, "backup")
        return not 0 <= since_ms < self._every_seconds() * 1000

    def _every_seconds(self) -> int:
        """A day; nothing where somebody deleted all backups."""
        return EVERY_SECONDS if list_backups(self._runtime.settings.places.backups) else 0
