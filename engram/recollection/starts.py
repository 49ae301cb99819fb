"""The starts of sessions: each is briefed once, and a briefing that a hook missed is remembered."""

from __future__ import annotations

import threading
from collections import OrderedDict
from typing import TypeVar

K = TypeVar("K")
V = TypeVar("V")

#: Maximum number of sessions whose start is remembered.
MAX_SESSIONS = 500
#: A second start of a session from the same source within this time is the same hook registered twice, in milliseconds.
SAME_START_MS = 10_000


class Starts:
    """Remembers the starts of sessions. Any thread may call any method."""

    def __init__(self) -> None:
        """Start empty."""
        self._lock = threading.Lock()
        #: (session, source) → when a hook asked about it, in milliseconds since 1970.
        self._claimed: OrderedDict[tuple[str, str], int] = OrderedDict()
        #: Session that missed its briefing → key of the prompt whose answer brings it; "" while it is owed.
        self._missed: OrderedDict[str, str] = OrderedDict()
        #: Sessions that were resumed or forked before their transcript was read.
        self._replayed: OrderedDict[str, None] = OrderedDict()

    def claim(self, session_id: str, source: str, now_ms: int) -> bool:
        """Record a start; returns False if another hook has just asked about the same start."""
        with self._lock:
            known_ms = self._claimed.get((session_id, source))
            if known_ms is not None and abs(now_ms - known_ms) < SAME_START_MS:
                return False
            self._claimed[session_id, source] = now_ms
            _limit(self._claimed)
            return True

    def note_missed(self, session_id: str) -> None:
        """Note that a hook ended before its briefing came: the next prompt brings it."""
        with self._lock:
            for key in [key for key in self._claimed if key[0] == session_id]:
                del self._claimed[key]
            self._missed[session_id] = ""
            _limit(self._missed)

    def note_briefed(self, session_id: str) -> None:
        """Note that a later start of the session gets its briefing: nothing is owed."""
        with self._lock:
            self._missed.pop(session_id, None)

    def take_missed(self, session_id: str, prompt_key: str) -> bool:
        """Return True if the answer to this prompt brings the missed briefing; once, unless it is given back."""
        with self._lock:
            if self._missed.get(session_id) != "":
                return False
            self._missed[session_id] = prompt_key
            return True

    def give_back(self, session_id: str, prompt_key: str) -> bool:
        """Note that the answer to this prompt came too late; returns True if a briefing is owed again."""
        with self._lock:
            if self._missed.get(session_id) != prompt_key:
                return False
            self._missed[session_id] = ""
            return True

    def note_replay(self, session_id: str) -> None:
        """Note that the session replays another one; its transcript says which."""
        with self._lock:
            self._replayed[session_id] = None
            _limit(self._replayed)

    def is_replay(self, session_id: str) -> bool:
        """Return True for a session that was resumed or forked before its transcript was read."""
        with self._lock:
            return session_id in self._replayed

    def end_replay(self, session_id: str) -> None:
        """Note that the transcript was read."""
        with self._lock:
            self._replayed.pop(session_id, None)


def _limit(kept: OrderedDict[K, V]) -> None:
    while len(kept) > MAX_SESSIONS:
        kept.popitem(last=False)
