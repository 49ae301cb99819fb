"""Notice another program on engram.sock, such as the earlier Engram, and report it as the health of a stage.

Both programs have the same folder and the same socket, and the earlier one removes a socket that it finds. Hooks would
then ask it and get no memories, and nobody would know why.
"""

from __future__ import annotations

import contextlib
import logging
import os
from pathlib import Path

from engram.earlier.processes import Listener, find_listener, find_process
from engram.errors import StoreError
from engram.models.file_checks import file_identity
from engram.models.stages import note_failure, note_success
from engram.models.store import Store
from engram.redaction import redact

logger = logging.getLogger(__name__)

#: The stage whose health says so.
STAGE = "socket"


class SocketGuard:
    """Watches the socket of a worker that holds the worker's lock: no other worker of this program listens there."""

    def __init__(self, store: Store, path: Path) -> None:
        """Nothing is looked at before ``look``."""
        self._store = store
        self._path = path
        self._own: tuple[int, int] | None = None
        self._rival: Listener | None = None

    def look(self) -> bool:
        """Report another program that listens; return True if this worker must open the socket (again)."""
        identity = file_identity(self._path) if self._path.is_socket() else None
        if identity is not None and identity == self._own:
            self._forgive()
            return False
        rival = None if identity is None else find_listener(self._path)
        if rival is not None and rival.pid != os.getpid():
            self._report(rival)
        return True

    def opened(self) -> None:
        """Remember the socket that this worker has just opened."""
        self._own = file_identity(self._path)

    def _report(self, rival: Listener) -> None:
        self._rival = rival
        text = redact(
            f"{rival.described} also uses engram.sock, and this worker took the socket back. Two programs must not "
            "share a memory folder: end it. `engram install` retires the earlier Engram"
        )
        logger.warning("action=watch_socket rival_pid=%d", rival.pid)
        with contextlib.suppress(StoreError):
            note_failure(self._store, STAGE, text)

    def _forgive(self) -> None:
        """Clear the report once the other program has ended."""
        if self._rival is not None and self._rival.pid and find_process(self._rival.pid) is None:
            self._rival = None
            with contextlib.suppress(StoreError):
                note_success(self._store, STAGE)
