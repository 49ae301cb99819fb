"""Briefings of sessions that have just begun: each asked for once, and made up where the hook could not wait for it."""

from __future__ import annotations

import threading
from collections import OrderedDict
from typing import TypeVar

K = TypeVar("K")
V = TypeVar("V")

#: Sessions whose start is kept in mind.
MAX_SESSIONS = 500
#: A second start of one session from one source, so soon after the first, is the same hook registered twice, in ms.
SAME_START_MS = 10_000


class Starts:
    """What is known of the starts of sessions. Any thread may call any method."""

    def __init__(self) -> None:
        """Know of none."""
        self._lock = threading.Lock()
        #: (session, source) → when it was asked about, in milliseconds since 1970.
        self._claimed: OrderedDict[tuple[str, str], int] = OrderedDict()
        #: Session whose briefing came too late → key of the prompt whose answer brings it; "" while it is owed.
        self._missed: OrderedDict[str, str] = OrderedDict()
        #: Sessions that were resumed or forked before their transcript was read.
        self._replayed: OrderedDict[str, None] = OrderedDict()

    def claim(self, session_id: str, source: str, now_ms: int) -> bool:
        """Take on a start; False where another hook has just asked for the same."""
        with self._lock:
            known_ms = self._claimed.get((session_id, source))
            if known_ms is not None and abs(now_ms - known_ms) < SAME_START_MS:
                return False
            self._claimed[session_id, source] = now_ms
            _limit(self._claimed)
            return True

    def note_missed(self, session_id: str) -> None:
        """The hook was gone before its briefing came: the next prompt's answer brings it."""
        with self._lock:
            for key in [key for key in self._claimed if key[0] == session_id]:
                del self._claimed[key]
            self._missed[session_id] = ""
            _limit(self._missed)

    def note_briefed(self, session_id: str) -> None:
        """A later start of the session gets its briefing: nothing is to be made up."""
        with self._lock:
            self._missed.pop(session_id, None)

    def take_missed(self, session_id: str, prompt_key: str) -> bool:
        """True where the answer to this prompt brings the missed briefing: once, unless it is given back."""
        with self._lock:
            if self._missed.get(session_id) != "":
                return False
            self._missed[session_id] = prompt_key
            return True

    def give_back(self, session_id: str, prompt_key: str) -> bool:
        """The answer to this prompt came too late; True where it carried the briefing, which is owed again."""
        with self._lock:
            if self._missed.get(session_id) != prompt_key:
                return False
            self._missed[session_id] = ""
            return True

    def note_replay(self, session_id: str) -> None:
        """The session repeats another one, which one is known once its transcript is read."""
        with self._lock:
            self._replayed[session_id] = None
            _limit(self._replayed)

    def is_replay(self, session_id: str) -> bool:
        """True for a session that was resumed or forked before its transcript was read."""
        with self._lock:
            return session_id in self._replayed

    def end_replay(self, session_id: str) -> None:
        """The transcript was read."""
        with self._lock:
            self._replayed.pop(session_id, None)


def _limit(kept: OrderedDict[K, V]) -> None:
    while len(kept) > MAX_SESSIONS:
        kept.popitem(last=False)
