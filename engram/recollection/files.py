"""The files that PreToolUse hands over: ``<session>.pending`` waits, ``<session>.injected`` is the receipt."""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from engram.atomic import make_private_folder, write_atomic
from engram.errors import BadRequest
from engram.failpoint import reach
from engram.paths import is_session_id

_PENDING, _INJECTED, _WITHDRAWN = ".pending", ".injected", ".withdrawn"


@dataclass(frozen=True, slots=True)
class RecollectionFile:
    """One file of the folder."""

    session_id: str
    path: Path
    #: When it was written, in milliseconds since 1970.
    written_at_ms: int


@dataclass(frozen=True, slots=True)
class RecollectionFiles:
    """The folder ``recollections``. A name is claimed by renaming it, so that each file is handed over once."""

    folder: Path

    def put(self, session_id: str, data: bytes) -> None:
        """Write what waits for a session, whole or not at all; what waited before is replaced.

        Raises:
            BadRequest: the session id cannot be a file name.
            OSError: the file cannot be written.
        """
        path = self._path(session_id, _PENDING)
        make_private_folder(self.folder)
        write_atomic(path, data)
        reach("recollect.written")

    def withdraw(self, session_id: str) -> bool:
        """Take back what waits; False where nothing did, or a hook was faster."""
        taken = self._path(session_id, _WITHDRAWN)
        try:
            os.replace(self._path(session_id, _PENDING), taken)
        except OSError:
            return False
        with contextlib.suppress(OSError):
            taken.unlink()
        return True

    def is_pending(self, session_id: str) -> bool:
        """True while something waits for a session."""
        return self._path(session_id, _PENDING).is_file()

    def take_receipt(self, session_id: str) -> bool:
        """Remove a session's receipt; True where there was one: a hook has handed over what waited."""
        try:
            self._path(session_id, _INJECTED).unlink()
        except OSError:
            return False
        return True

    def pending(self) -> list[RecollectionFile]:
        """Everything that waits."""
        return list(self._list(_PENDING))

    def receipts(self) -> list[RecollectionFile]:
        """Everything that was handed over and not yet taken notice of."""
        return list(self._list(_INJECTED))

    def remove_older(self, before_ms: int) -> int:
        """Remove every file that was last changed before a time; returns how many."""
        removed = 0
        for path, facts in self._scan():
            if facts.st_ctime_ns // 1_000_000 < before_ms:
                with contextlib.suppress(OSError):
                    path.unlink()
                    removed += 1
        return removed

    def _path(self, session_id: str, suffix: str) -> Path:
        if not is_session_id(session_id):
            raise BadRequest("a session id of letters, digits, - and _ is wanted")
        return self.folder / (session_id + suffix)

    def _list(self, suffix: str) -> Iterator[RecollectionFile]:
        for path, facts in self._scan():
            session_id = path.name.removesuffix(suffix)
            if path.name.endswith(suffix) and is_session_id(session_id):
                yield RecollectionFile(session_id, path, facts.st_mtime_ns // 1_000_000)

    def _scan(self) -> Iterator[tuple[Path, os.stat_result]]:
        """Every regular file of the folder."""
        try:
            with os.scandir(self.folder) as found:
                entries = list(found)
        except OSError:
            return
        for entry in entries:
            with contextlib.suppress(OSError):
                facts = entry.stat(follow_symlinks=False)
                if stat.S_ISREG(facts.st_mode):
                    yield Path(entry.path), facts
