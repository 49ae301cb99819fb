"""What a session was shown. An answer goes out first and is written down after: no hook waits for the write lock."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence

from engram.models import contexts, injections
from engram.models.injections import Injection
from engram.models.store import Store
from engram.recollection.briefing import told_in
from engram.recollection.choose import Bite
from engram.recollection.render import TOKEN_CHARS

BRIEFING = "briefing"


class Ledger:
    """The ledger in memory.db, and what is still to be written there. Any thread may call any method."""

    def __init__(self, store: Store) -> None:
        """``store``: the open memory."""
        self._store = store
        self._lock = threading.Lock()
        self._unwritten: list[Injection] = []
        self._later: list[tuple[str, Callable[[], object]]] = []
        #: Session → when its context began anew, for those that are not written yet.
        self._began_at_ms: dict[str, int] = {}

    def of_session(self, session_id: str) -> list[Injection]:
        """Every bite of a session, those that are not written yet included."""
        with self._lock:
            unwritten = [one for one in self._unwritten if one.session_id == session_id]
        return injections.injections_of_session(self._store, session_id) + unwritten

    def told(self, session_id: str) -> set[str]:
        """Episodes that the session was shown since it was last cleared; what waits counts."""
        with self._lock:
            unwritten = {one.episode_id for one in self._unwritten if one.session_id == session_id}
        return injections.injected_ids(self._store, session_id) | unwritten

    def in_context(self, session_id: str) -> set[str]:
        """Episodes whose source the session's context still holds: its own words, and what a fork repeats."""
        with self._lock:
            began_at_ms = self._began_at_ms.get(session_id, 0)
        began_at_ms = max(began_at_ms, contexts.context_start_ms(self._store, session_id))
        return contexts.episodes_in_context(self._store, session_id, began_at_ms)

    def note_context_start(self, session_id: str) -> None:
        """The session was compacted or cleared now; written by ``write_down``."""
        now_ms = self._store.now_ms()

        def write() -> None:
            with self._store.transaction() as tx:
                contexts.note_context_start(tx, session_id, now_ms)
            with self._lock:
                if self._began_at_ms.get(session_id) == now_ms:
                    del self._began_at_ms[session_id]

        with self._lock:
            self._began_at_ms[session_id] = now_ms
            self._later.append(("", write))

    def was_briefed(self, session_id: str) -> bool:
        """True where the session has had its briefing since it was last cleared."""
        with self._lock:
            is_going_out = any(briefed == session_id for briefed, _ in self._later)
        return is_going_out or BRIEFING in {what for what, _, _ in injections.shown_of_session(self._store, session_id)}

    def note_shown(self, session_id: str, key: str, bites: Sequence[Bite]) -> None:
        """Bites go out as the answer to a prompt; written by ``write_down``."""
        with self._lock:
            self._unwritten += self._injections(session_id, key, "prompt", bites, "shown")

    def note_pending(self, session_id: str, key: str, bites: Sequence[Bite]) -> None:
        """Bites will wait for the next tool call; written at once."""
        with self._store.transaction() as tx:
            injections.add_injections(tx, self._injections(session_id, key, "tool", bites, "pending"))

    def note_briefing(self, session_id: str, briefing: str, *, is_new_context: bool) -> None:
        """A briefing goes out, into an empty context or a new session; written by ``write_down``.

        What it tells counts as shown: it does not come again as a bite.
        """
        tokens = len(briefing) // TOKEN_CHARS
        told = injections.told_at_start(session_id, told_in(briefing), self._store.now_ms())

        def write() -> None:
            if is_new_context:
                injections.clear_ledger(self._store, session_id)
            if tokens:
                injections.note_shown(self._store, session_id, BRIEFING, tokens)

        with self._lock:
            if is_new_context:
                self._unwritten = [one for one in self._unwritten if one.session_id != session_id]
            self._unwritten += told
            self._later.append((session_id, write))

    def take_back_briefing(self, session_id: str) -> None:
        """A briefing came too late: it was not shown, and neither was what it tells."""
        self.write_down()
        with self._store.transaction() as tx:
            injections.drop_told_at_start(tx, session_id)
            injections.clear_ledger(self._store, session_id)

    def write_down(self) -> None:
        """Write what went out meanwhile. Raises StoreError; then it stays to be written."""
        with self._lock:
            unwritten, later = tuple(self._unwritten), tuple(self._later)
        for one in later:
            one[1]()
            with self._lock:
                self._later.remove(one)
        if unwritten:
            with self._store.transaction() as tx:
                injections.add_injections(tx, unwritten)
            with self._lock:
                self._unwritten = [one for one in self._unwritten if not any(one is done for done in unwritten)]

    def take_back(self, session_id: str, key: str) -> None:
        """An answer came too late: its bites were not shown."""
        with self._lock:
            self._unwritten = [one for one in self._unwritten if (one.session_id, one.prompt_key) != (session_id, key)]
        with self._store.transaction() as tx:
            injections.mark_pending(tx, session_id, key)
            injections.drop_pending(tx, session_id, key)

    def drop_pending(self, session_id: str) -> None:
        """What waited was withdrawn. Nothing is written where nothing waited."""
        if any(one.state == "pending" for one in self.of_session(session_id)):
            with self._store.transaction() as tx:
                injections.drop_pending(tx, session_id)

    def mark_shown(self, session_id: str) -> None:
        """What waited was handed over."""
        waiting = {one.prompt_key for one in self.of_session(session_id) if one.state == "pending"}
        if waiting:
            with self._store.transaction() as tx:
                for key in waiting:
                    injections.mark_shown(tx, session_id, key)

    def _injections(
        self, session_id: str, key: str, channel: str, bites: Sequence[Bite], state: str
    ) -> list[Injection]:
        now_ms = self._store.now_ms()
        return [
            Injection(
                session_id, key, channel, one.episode_id, one.relevance, len(one.text) // TOKEN_CHARS, state, now_ms
            )
            for one in bites
        ]
