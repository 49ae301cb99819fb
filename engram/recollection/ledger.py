"""The ledger of what each session was shown, stored after the answer was sent: no hook waits for the write lock."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence

from engram.models import contexts, injections
from engram.models.injections import Injection
from engram.models.store import Store
from engram.recollection.briefing_lines import told_in
from engram.recollection.choose import Bite
from engram.recollection.render import CHARACTERS_PER_TOKEN

#: Under this name a briefing stands among the things shown to a session.
BRIEFING = "briefing"


class Ledger:
    """The ledger in memory.db with what is not stored yet. Any thread may call any method."""

    def __init__(self, store: Store) -> None:
        """``store``: the open memory."""
        self._store = store
        self._lock = threading.Lock()
        self._unwritten: list[Injection] = []
        #: Session that is briefed ("" for none) and what to write.
        self._writers: list[tuple[str, Callable[[], object]]] = []
        #: Session → when its context was emptied, for sessions whose time is not stored yet.
        self._began_at_ms: dict[str, int] = {}

    def now_ms(self) -> int:
        """Return the time of the store's clock, in milliseconds since 1970."""
        return self._store.now_ms()

    def of_session(self, session_id: str) -> list[Injection]:
        """Return every bite of a session, those not stored yet included."""
        with self._lock:
            unwritten = [injection for injection in self._unwritten if injection.session_id == session_id]
        return injections.injections_of_session(self._store, session_id) + unwritten

    def told(self, session_id: str) -> set[str]:
        """Return the ids of episodes that the session was shown since it was last cleared, pending ones included."""
        with self._lock:
            unwritten = {injection.episode_id for injection in self._unwritten if injection.session_id == session_id}
        return injections.injected_ids(self._store, session_id) | unwritten

    def in_context(self, session_id: str) -> set[str]:
        """Return the ids of episodes whose source is still in the session's context, copied history included."""
        with self._lock:
            began_at_ms = self._began_at_ms.get(session_id, 0)
        began_at_ms = max(began_at_ms, contexts.context_start_ms(self._store, session_id))
        return contexts.episodes_in_context(self._store, session_id, began_at_ms)

    def note_context_start(self, session_id: str) -> None:
        """Note that the session was compacted or cleared now; stored by ``write_down``."""
        now_ms = self._store.now_ms()

        def write() -> None:
            with self._store.transaction() as tx:
                contexts.note_context_start(tx, session_id, now_ms)
            with self._lock:
                if self._began_at_ms.get(session_id) == now_ms:
                    del self._began_at_ms[session_id]

        with self._lock:
            self._began_at_ms[session_id] = now_ms
            self._writers.append(("", write))

    def was_briefed(self, session_id: str) -> bool:
        """Return True if the session got its briefing since it was last cleared."""
        with self._lock:
            is_being_briefed = any(briefed == session_id for briefed, _ in self._writers)
        return is_being_briefed or BRIEFING in {
            what for what, _, _ in injections.shown_of_session(self._store, session_id)
        }

    def note_shown(self, session_id: str, key: str, bites: Sequence[Bite]) -> None:
        """Note that bites are the answer to a prompt; stored by ``write_down``."""
        with self._lock:
            self._unwritten += self._injections(session_id, key, "prompt", bites, "shown")

    def note_pending(self, session_id: str, key: str, bites: Sequence[Bite]) -> None:
        """Store at once that bites wait for the next tool call."""
        with self._store.transaction() as tx:
            injections.add_injections(tx, self._injections(session_id, key, "tool", bites, "pending"))

    def note_briefing(self, session_id: str, briefing: str, *, is_new_context: bool) -> None:
        """Note a briefing of a new session or of an empty context; stored by ``write_down``.

        The memories in it count as shown: they do not come again as bites.
        """
        tokens = len(briefing) // CHARACTERS_PER_TOKEN
        told = injections.told_at_start(session_id, told_in(briefing), self._store.now_ms())

        def write() -> None:
            if is_new_context:
                injections.clear_ledger(self._store, session_id)
            if tokens:
                injections.note_shown(self._store, session_id, BRIEFING, tokens)

        with self._lock:
            if is_new_context:
                self._unwritten = [injection for injection in self._unwritten if injection.session_id != session_id]
            self._unwritten += told
            self._writers.append((session_id, write))

    def take_back_briefing(self, session_id: str) -> None:
        """Note that a briefing came too late: neither it nor the memories in it were shown."""
        self.write_down()
        with self._store.transaction() as tx:
            injections.drop_told_at_start(tx, session_id)
            injections.clear_ledger(self._store, session_id)

    def write_down(self) -> None:
        """Store what was sent since the last call. Raises StoreError; then it is stored by the next call."""
        with self._lock:
            unwritten, writers = tuple(self._unwritten), tuple(self._writers)
        for writer in writers:
            _, write = writer
            write()
            with self._lock:
                self._writers.remove(writer)
        if unwritten:
            with self._store.transaction() as tx:
                injections.add_injections(tx, unwritten)
            with self._lock:
                self._unwritten = [
                    injection for injection in self._unwritten if not any(injection is stored for stored in unwritten)
                ]

    def take_back(self, session_id: str, key: str) -> None:
        """Note that an answer came too late: its bites were not shown."""
        with self._lock:
            self._unwritten = [
                injection
                for injection in self._unwritten
                if (injection.session_id, injection.prompt_key) != (session_id, key)
            ]
        with self._store.transaction() as tx:
            injections.mark_pending(tx, session_id, key)
            injections.drop_pending(tx, session_id, key)

    def drop_pending(self, session_id: str) -> None:
        """Note that pending bites were withdrawn. Nothing is written if none were pending."""
        if any(injection.state == "pending" for injection in self.of_session(session_id)):
            with self._store.transaction() as tx:
                injections.drop_pending(tx, session_id)

    def mark_shown(self, session_id: str) -> None:
        """Note that pending bites were shown."""
        pending = {injection.prompt_key for injection in self.of_session(session_id) if injection.state == "pending"}
        if pending:
            with self._store.transaction() as tx:
                for key in pending:
                    injections.mark_shown(tx, session_id, key)

    def _injections(
        self, session_id: str, key: str, channel: str, bites: Sequence[Bite], state: str
    ) -> list[Injection]:
        now_ms = self._store.now_ms()
        return [
            Injection(
                session_id=session_id,
                prompt_key=key,
                channel=channel,
                episode_id=bite.episode_id,
                score=bite.relevance,
                tokens=len(bite.text) // CHARACTERS_PER_TOKEN,
                state=state,
                at_ms=now_ms,
            )
            for bite in bites
        ]
