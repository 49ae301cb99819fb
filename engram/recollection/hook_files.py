"""The files by which the worker and the hooks exchange what a session is shown.

``<session>.pending`` contains the text for the next PreToolUse, and ``.injected`` is the receipt that a hook has
claimed it. ``.failures`` lists the programs that PostToolUseFailure asks about, and ``.statusline`` contains the
figures for the status line.
"""

from __future__ import annotations

import contextlib
import os
import stat
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from engram.enums import Channel
from engram.errors import BadRequest
from engram.models.sessions.prompt_outcomes import Outcome
from engram.paths import is_session_id
from engram.recollection.choose_bites import Bite
from engram.recollection.ledger import Ledger
from engram.recollection.prompts import AskedPrompt, LatestPrompts, Topics
from engram.system.atomic import make_private_folder, write_atomic
from engram.system.failpoint import reach

_PENDING, _INJECTED, _WITHDRAWN, _FAILURES = ".pending", ".injected", ".withdrawn", ".failures"
_STATUS_LINE = ".statusline"


@dataclass(frozen=True, slots=True)
class RecollectionFile:
    session_id: str
    #: When it was written, in milliseconds since 1970.
    written_at_ms: int
    is_empty: bool = False


@dataclass(frozen=True, slots=True)
class RecollectionFiles:
    """The folder ``recollections``. A hook claims a file by renaming it, so that it is used only once."""

    folder: Path

    def put(self, session_id: str, data: bytes) -> None:
        """Write or replace the pending file of a session, atomically.

        Raises:
            BadRequest: the session id cannot be a file name.
            OSError: the file cannot be written.
        """
        path = self._path(session_id, _PENDING)
        make_private_folder(self.folder)
        write_atomic(path, data)
        reach("recollect.written")

    def put_failed_programs(self, session_id: str, programs: Sequence[str]) -> None:
        """Write the list of programs about which PostToolUseFailure asks the worker; an empty list removes the file.

        Raises:
            BadRequest: the session id cannot be a file name.
            OSError: the file cannot be written.
        """
        path = self._path(session_id, _FAILURES)
        if not programs:
            path.unlink(missing_ok=True)
            return
        make_private_folder(self.folder)
        write_atomic(path, "".join(f"{program}\n" for program in programs).encode())

    def put_status_line(self, session_id: str, line: str) -> None:
        """Write the figures that a session's status line shows.

        Raises:
            BadRequest: the session id cannot be a file name.
            OSError: the file cannot be written.
        """
        write_atomic(self._path(session_id, _STATUS_LINE), f"{line}\n".encode())

    def status_lines(self) -> list[RecollectionFile]:
        """Return the file of every session with a status line, latest first."""
        return sorted(self._list(_STATUS_LINE), key=lambda file: file.written_at_ms, reverse=True)

    def withdraw(self, session_id: str) -> bool:
        """Remove the pending file; return False if there was none or a hook claimed it first."""
        taken = self._path(session_id, _WITHDRAWN)
        try:
            os.replace(self._path(session_id, _PENDING), taken)
        except OSError:
            return False
        with contextlib.suppress(OSError):
            taken.unlink()
        return True

    def is_pending(self, session_id: str) -> bool:
        return self._path(session_id, _PENDING).is_file()

    def take_receipt(self, session_id: str) -> int | None:
        """Remove a session's receipt; return when a hook claimed the pending file, in milliseconds since 1970.

        Return None if there is no receipt.
        """
        path = self._path(session_id, _INJECTED)
        try:
            # Renaming changes st_ctime, but not st_mtime.
            claimed_at_ms = path.stat().st_ctime_ns // 1_000_000
            path.unlink()
        except OSError:
            return None
        return claimed_at_ms

    def pending(self) -> list[RecollectionFile]:
        return list(self._list(_PENDING))

    def receipts(self) -> list[RecollectionFile]:
        return list(self._list(_INJECTED))

    def remove_older(self, before_ms: int) -> int:
        """Remove every file that was last changed before a time; return how many."""
        removed = 0
        for path, facts in self._scan():
            if facts.st_ctime_ns // 1_000_000 < before_ms:
                with contextlib.suppress(OSError):
                    path.unlink()
                    removed += 1
        return removed

    def _path(self, session_id: str, suffix: str) -> Path:
        if not is_session_id(session_id):
            raise BadRequest("a session id may contain only letters, digits, - and _")
        return self.folder / (session_id + suffix)

    def _list(self, suffix: str) -> Iterator[RecollectionFile]:
        for path, facts in self._scan():
            session_id = path.name.removesuffix(suffix)
            if path.name.endswith(suffix) and is_session_id(session_id):
                yield RecollectionFile(session_id, facts.st_mtime_ns // 1_000_000, facts.st_size == 0)

    def _scan(self) -> Iterator[tuple[Path, os.stat_result]]:
        """Yield every regular file in the folder."""
        try:
            with os.scandir(self.folder) as scanned:
                entries = list(scanned)
        except OSError:
            return
        for entry in entries:
            with contextlib.suppress(OSError):
                facts = entry.stat(follow_symlinks=False)
                if stat.S_ISREG(facts.st_mode):
                    yield Path(entry.path), facts


# -- Keep bites that are too late for their prompt in a file until the hook of the next tool call claims them.


class PendingBites:
    """Keeps the pending files and their rows in the ledger consistent. Thread-safe."""

    def __init__(self, folder: Path, ledger: Ledger, prompts: LatestPrompts, topics: Topics) -> None:
        self._files = RecollectionFiles(folder)
        self._ledger = ledger
        self._prompts = prompts
        self._topics = topics
        #: Held while a pending file and its rows in the ledger change together.
        self._lock = threading.RLock()

    def put(
        self,
        session_id: str,
        prompt: AskedPrompt,
        bites: Sequence[Bite],
        render: Callable[[Sequence[Bite]], bytes],
        outcome: Outcome,
        *,
        channel: Channel = Channel.TOOL,
        key: str = "",
    ) -> bool:
        """Replace the pending bites of a session; return True if bites are pending now.

        Bites that have been shown are left out. Nothing is pending if a hook has claimed the file in the meantime, or
        the user has sent another prompt.

        Args:
            render: returns the hook output; b"" only withdraws the pending bites.
            key: the key of their records in the ledger; the prompt's key by default.
        """
        with self._lock:
            latest = self._prompts.find(session_id)
            if latest is None or latest.key != prompt.key or self.settle(session_id):
                return False
            self.withdraw(session_id)
            # Another thread may have settled a claim after these bites were chosen.
            shown = self._ledger.shown_ids(session_id)
            fresh = [bite for bite in bites if bite.episode_id not in shown]
            data = render(fresh)
            if not data:
                return False
            self._ledger.note_pending(session_id, key or prompt.key, fresh, outcome, channel)
            self._files.put(session_id, data)
            return True

    def withdraw(self, session_id: str) -> bool:
        """Withdraw a session's pending bites; return False if there were none or a hook claimed them first."""
        with self._lock:
            self.settle(session_id)
            has_waited = self._files.withdraw(session_id)
            self.settle(session_id)
            self._ledger.drop_pending(session_id)
        if has_waited:
            self._topics.forget(session_id)
        return has_waited

    def settle(self, session_id: str) -> bool:
        """Mark the bites that a hook has claimed since the last call as shown; return True if there were any."""
        with self._lock:
            claimed_at_ms = self._files.take_receipt(session_id)
            if claimed_at_ms is None:
                return False
            self._ledger.mark_shown(session_id, claimed_at_ms)
        return True

    def take_back_answer(self, session_id: str, key: str) -> None:
        """Record that the answer to a prompt was not shown."""
        with self._lock:
            self._ledger.take_back(session_id, key)

    def is_pending(self, session_id: str) -> bool:
        return self._files.is_pending(session_id)

    def tidy(self, *, stale_before_ms: int, remove_before_ms: int) -> int:
        """Settle claimed files, withdraw stale ones and remove leftovers; return the number of affected files.

        Args:
            stale_before_ms: pending files written before this time are withdrawn.
            remove_before_ms: any file last changed before this time is removed.
        """
        count = 0
        for receipt in self._files.receipts():
            count += self.settle(receipt.session_id)
        for waiting in self._files.pending():
            if waiting.written_at_ms < stale_before_ms:
                count += self.withdraw(waiting.session_id)
        return count + self._files.remove_older(remove_before_ms)
