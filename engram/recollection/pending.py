"""Bites that came too late for their prompt wait in a file until the hook of the next tool call claims them."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from pathlib import Path

from engram.enums import Channel
from engram.models.outcomes import Outcome
from engram.recollection.choose import Bite
from engram.recollection.files import RecollectionFiles
from engram.recollection.ledger import Ledger
from engram.recollection.prompts import AskedPrompt, LatestPrompts
from engram.recollection.topics import Topics


class PendingBites:
    """Keeps the pending files and their rows in the ledger in step. Any thread may call any method."""

    def __init__(self, folder: Path, ledger: Ledger, prompts: LatestPrompts, topics: Topics) -> None:
        """Prepare.

        Args:
            folder: the folder ``recollections``.
            ledger: what the sessions were shown.
            prompts: the latest prompt of each session.
            topics: what each session was last reminded of.
        """
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
        data: bytes,
        outcome: Outcome,
        *,
        channel: Channel = Channel.TOOL,
        key: str = "",
    ) -> bool:
        """Replace what waits for a session; returns True if bites wait now.

        Nothing is replaced if a hook claimed the file meanwhile, or if the user sent another prompt.

        Args:
            session_id: Claude Code's session.
            prompt: the prompt that the bites belong to.
            bites: what is noted as pending.
            data: the hook output; b"" only withdraws what waits.
            outcome: what became of the prompt or call if the bites wait; recorded with them.
            channel: under which they stand in the ledger.
            key: under which they stand there; by default that of the prompt.
        """
        with self._lock:
            latest = self._prompts.find(session_id)
            if latest is None or latest.key != prompt.key or self.settle(session_id):
                return False
            self.withdraw(session_id)
            if not data:
                return False
            self._ledger.note_pending(session_id, key or prompt.key, bites, outcome, channel)
            self._files.put(session_id, data)
            return True

    def withdraw(self, session_id: str) -> bool:
        """Withdraw what waits for a session; returns False if nothing did or a hook claimed it first."""
        with self._lock:
            self.settle(session_id)
            has_waited = self._files.withdraw(session_id)
            self.settle(session_id)
            self._ledger.drop_pending(session_id)
        if has_waited:
            self._topics.forget(session_id)
        return has_waited

    def settle(self, session_id: str) -> bool:
        """Mark as shown what a hook has claimed since the last call; returns True if it claimed something."""
        with self._lock:
            if not self._files.take_receipt(session_id):
                return False
            self._ledger.mark_shown(session_id)
        return True

    def take_back_answer(self, session_id: str, key: str) -> None:
        """Note that the answer to a prompt was not shown."""
        with self._lock:
            self._ledger.take_back(session_id, key)

    def is_pending(self, session_id: str) -> bool:
        """Return True while something waits for a session."""
        return self._files.is_pending(session_id)

    def tidy(self, *, stale_before_ms: int, remove_before_ms: int) -> int:
        """Settle what hooks claimed, withdraw stale files, remove leftovers; returns the number of files.

        Args:
            stale_before_ms: what was written before this time is withdrawn.
            remove_before_ms: any file last changed before this time is removed.
        """
        count = 0
        for receipt in self._files.receipts():
            count += self.settle(receipt.session_id)
        for waiting in self._files.pending():
            if waiting.written_at_ms < stale_before_ms:
                count += self.withdraw(waiting.session_id)
        return count + self._files.remove_older(remove_before_ms)
