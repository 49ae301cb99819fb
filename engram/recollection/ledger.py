"""The ledger, which records what each session was shown and the outcome of each prompt.

Entries are stored after an answer has been sent, so that no hook waits for the write lock.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TypeVar

from engram.enums import Channel, Verdict
from engram.models.engine.meta import drop_meta, put_meta
from engram.models.engine.transaction import Store
from engram.models.sessions import prompt_outcomes, sessions
from engram.models.sessions.prompt_outcomes import Candidate, Outcome
from engram.models.shown import injections
from engram.models.shown.injections import BRIEFING, Injection, agent_key, is_of_agent
from engram.recollection.briefing_lines import ids_in_briefing
from engram.recollection.choose_bites import Bite
from engram.recollection.prompts import SessionScope
from engram.recollection.render_bites import CHARACTERS_PER_TOKEN

#: Verdicts that are not recorded: for an excluded folder, during a pause, and if no worker decided.
NEVER_RECORDED = (Verdict.EXCLUDED, Verdict.PAUSED, Verdict.NO_RECORD, Verdict.BEFORE_ENGRAM)
#: Maximum number of outcomes, of bites and of other changes that wait to be stored. If there are more, such as when the
#: disk is full, the oldest are dropped.
MAX_UNWRITTEN = 1_000

T = TypeVar("T")


class Ledger:
    """The ledger in memory.db, plus the entries not stored yet. Thread-safe."""

    def __init__(self, store: Store, scope: SessionScope) -> None:
        self._store = store
        self._scope = scope
        self._keeps_outcomes = scope.settings.outcome_days > 0
        self._lock = threading.Lock()
        #: Session → key of the notice that its briefing shows once only.
        self._one_time_notices: dict[str, str] = {}
        #: Held by the thread that is storing entries; it also stores those of the other threads.
        self._writing = threading.Lock()
        self._unwritten: list[Injection] = []
        #: Each outcome, with the folder of its session.
        self._unwritten_outcomes: list[tuple[Outcome, str]] = []
        #: Functions that write to memory.db, each with the session that is being briefed ("" if it writes no briefing).
        self._writers: list[tuple[str, Callable[[], object]]] = []
        #: Session → when its context was emptied, kept until that is stored.
        self._began_at_ms: dict[str, int] = {}

    def now_ms(self) -> int:
        return self._store.now_ms()

    def of_session(self, session_id: str) -> list[Injection]:
        """Return every bite of a session, whether stored yet or not, except those of its subagents."""
        return [injection for injection in self._recorded(session_id) if not is_of_agent(injection.prompt_key)]

    def _recorded(self, session_id: str) -> list[Injection]:
        with self._lock:
            unwritten = [injection for injection in self._unwritten if injection.session_id == session_id]
        return injections.injections_of_session(self._store, session_id) + unwritten

    def shown_ids(self, session_id: str) -> set[str]:
        """Return the ids of memories shown to the session since it was last cleared, including pending ones."""
        with self._lock:
            unwritten = {
                injection.episode_id
                for injection in self._unwritten
                if injection.session_id == session_id and not is_of_agent(injection.prompt_key)
            }
        return injections.injected_ids(self._store, session_id) | unwritten

    def delivered_ids(self, session_id: str, own: Sequence[Injection]) -> set[str]:
        """Return the ids of memories shown to the session since it was last cleared, without pending ones.

        Args:
            own: the result of ``of_session``.
        """
        waiting = {injection.episode_id for injection in own if injection.state == "pending"}
        told = {injection.episode_id for injection in own if injection.state == "shown"}
        return self.shown_ids(session_id) - (waiting - told)

    def ids_shown_to_agent(self, session_id: str, agent_id: str) -> set[str]:
        prefix = agent_key(agent_id)
        return {
            injection.episode_id
            for injection in self._recorded(session_id)
            if injection.prompt_key == prefix or injection.prompt_key.startswith(f"{prefix}:")
        }

    def in_context(self, session_id: str) -> set[str]:
        """Return the ids of memories with a source that is still in the session's context, including copied history."""
        with self._lock:
            began_at_ms = self._began_at_ms.get(session_id, 0)
        began_at_ms = max(began_at_ms, sessions.context_start_ms(self._store, session_id))
        return sessions.memories_in_context(self._store, session_id, began_at_ms)

    def note_context_start(self, session_id: str) -> None:
        """Record that the session's context has just been emptied; ``write_down`` stores it."""
        now_ms = self._store.now_ms()

        def write() -> None:
            with self._store.transaction() as tx:
                sessions.note_context_start(tx, session_id, now_ms)
            with self._lock:
                if self._began_at_ms.get(session_id) == now_ms:
                    del self._began_at_ms[session_id]

        with self._lock:
            self._began_at_ms[session_id] = now_ms
            self._writers.append(("", write))

    def was_briefed(self, session_id: str) -> bool:
        """Return True if the session has been briefed since it was last cleared."""
        with self._lock:
            is_being_briefed = any(briefed == session_id for briefed, _ in self._writers)
        return is_being_briefed or BRIEFING in {
            what for what, _, _ in injections.shown_of_session(self._store, session_id)
        }

    def record(self, outcome: Outcome, cwd: str = "") -> None:
        """Record the outcome of a prompt or another event; ``write_down`` stores it.

        Verdicts in ``NEVER_RECORDED`` are ignored, as is everything if ``outcome_days`` is 0.

        Args:
            outcome: the outcome; if its project is missing, the project is looked up when the outcome is stored.
        """
        if self._keeps(outcome):
            with self._lock:
                self._unwritten_outcomes.append((outcome, cwd))

    def _keeps(self, outcome: Outcome) -> bool:
        return self._keeps_outcomes and outcome.verdict not in NEVER_RECORDED

    def note_shown(self, session_id: str, key: str, bites: Sequence[Bite], channel: Channel = Channel.PROMPT) -> None:
        """Record bites as the answer to a prompt or another event; ``write_down`` stores them."""
        with self._lock:
            self._unwritten += self._injections(session_id, key, channel, bites, "shown")

    def note_pending(
        self, session_id: str, key: str, bites: Sequence[Bite], outcome: Outcome, channel: Channel = Channel.TOOL
    ) -> None:
        """Store immediately that bites are pending for the next tool call, together with the outcome."""
        with self._store.transaction() as tx:
            injections.add_injections(tx, self._injections(session_id, key, channel, bites, "pending"))
            prompt_outcomes.add_outcomes(tx, [outcome] if self._keeps(outcome) else [])

    def note_briefing(self, session_id: str, briefing: str, *, is_new_context: bool) -> None:
        """Record the briefing for a new session or an emptied context; ``write_down`` stores it.

        Its memories count as shown, so they are not repeated as bites.
        """
        tokens = len(briefing) // CHARACTERS_PER_TOKEN
        now_ms = self._store.now_ms()
        memory_ids = ids_in_briefing(briefing)
        briefed = injections.briefing_injections(session_id, memory_ids, now_ms)

        def write() -> None:
            if is_new_context:
                injections.clear_ledger(self._store, session_id)
            if tokens:
                injections.note_shown(self._store, session_id, BRIEFING, tokens)

        with self._lock:
            if is_new_context:
                self._unwritten = [injection for injection in self._unwritten if injection.session_id != session_id]
            self._unwritten += briefed
            self._writers.append((session_id, write))
        self.record(_briefing_outcome(session_id, memory_ids if tokens else (), now_ms))

    def note_one_time_notice(self, session_id: str, key: str) -> None:
        """Record that a briefing contains a one-time notice; ``take_back_briefing`` withdraws both."""

        def write() -> None:
            with self._store.transaction() as tx:
                put_meta(tx, key, session_id)

        with self._lock:
            self._one_time_notices[session_id] = key
            self._writers.append((session_id, write))

    def take_back_briefing(self, session_id: str) -> None:
        """Record that a briefing arrived too late, so that neither it nor its memories were shown."""
        with self._writing:
            self._store_all()
            with self._store.transaction() as tx:
                drop_meta(tx, self._one_time_notices.pop(session_id, ""))
                injections.drop_briefing(tx, session_id)
                prompt_outcomes.change_verdicts(tx, session_id, Verdict.SHOWN, Verdict.TOO_LATE, prompt_key=BRIEFING)

    def write_down(self) -> None:
        """Store everything recorded since the last call. After a StoreError, the next call tries again.

        If another thread is storing, return immediately, because that thread also stores the new entries. Therefore at
        most one of the threads that answer hooks waits for the write lock.
        """
        while self._has_unwritten() and self._writing.acquire(blocking=False):
            try:
                self._store_all()
            finally:
                self._writing.release()

    def _has_unwritten(self) -> bool:
        with self._lock:
            for waiting in (self._unwritten, self._unwritten_outcomes, self._writers):
                del waiting[:-MAX_UNWRITTEN]
            return bool(self._unwritten or self._unwritten_outcomes or self._writers)

    def _store_all(self) -> None:
        """Store everything that was recorded. The caller must hold ``_writing``."""
        with self._lock:
            shown, became, writers = tuple(self._unwritten), tuple(self._unwritten_outcomes), tuple(self._writers)
        for writer in writers:
            _, write = writer
            write()
            with self._lock:
                self._writers = _without(self._writers, [writer])
        completed = [self._scope.complete(outcome, cwd) for outcome, cwd in became]
        if shown or became:
            with self._store.transaction() as tx:
                injections.add_injections(tx, shown)
                prompt_outcomes.add_outcomes(tx, [outcome for outcome in completed if self._keeps(outcome)])
            with self._lock:
                self._unwritten = _without(self._unwritten, shown)
                self._unwritten_outcomes = _without(self._unwritten_outcomes, became)

    def take_back(self, session_id: str, key: str) -> None:
        """Record that an answer arrived too late and its bites were not shown."""
        with self._writing:
            with self._lock:
                self._unwritten = [
                    injection
                    for injection in self._unwritten
                    if (injection.session_id, injection.prompt_key) != (session_id, key)
                ]
                self._unwritten_outcomes = [
                    (with_verdict(outcome, Verdict.TOO_LATE), cwd)
                    if (outcome.session_id, outcome.prompt_key) == (session_id, key)
                    else (outcome, cwd)
                    for outcome, cwd in self._unwritten_outcomes
                ]
            with self._store.transaction() as tx:
                injections.drop_late(tx, session_id, key)
                prompt_outcomes.change_verdicts(tx, session_id, Verdict.SHOWN, Verdict.TOO_LATE, prompt_key=key)

    def take_back_line(self, session_id: str, key: str) -> None:
        """Record that the answer to a failing call or a subagent arrived too late and was not shown."""
        self.take_back(session_id, key)
        with self._store.transaction() as tx:
            injections.drop_given(tx, session_id, key)

    def drop_pending(self, session_id: str) -> None:
        """Record that pending bites were withdrawn; write nothing if there were none."""
        if any(injection.state == "pending" for injection in self.of_session(session_id)):
            with self._store.transaction() as tx:
                injections.drop_pending(tx, session_id)
                prompt_outcomes.change_verdicts(tx, session_id, Verdict.PENDING, Verdict.WITHDRAWN)

    def mark_shown(self, session_id: str, claimed_at_ms: int) -> None:
        """Record that pending bites were shown at the time when a hook claimed them, in milliseconds since 1970."""
        pending = [injection for injection in self.of_session(session_id) if injection.state == "pending"]
        if pending:
            at_ms = max(min(claimed_at_ms, self.now_ms()), *(injection.at_ms for injection in pending))
            with self._store.transaction() as tx:
                for key in {injection.prompt_key for injection in pending}:
                    injections.mark_shown(tx, session_id, key, at_ms)
                prompt_outcomes.change_verdicts(tx, session_id, Verdict.PENDING, Verdict.SHOWN)

    def drop_old(self, before_ms: int) -> None:
        """Delete outcomes from before a time, and for each channel the oldest ones beyond ``MAX_OUTCOMES``."""
        if prompt_outcomes.has_old_outcomes(self._store, before_ms):
            with self._store.transaction() as tx:
                prompt_outcomes.drop_old_outcomes(tx, before_ms)

    def _injections(
        self, session_id: str, key: str, channel: Channel, bites: Sequence[Bite], state: str
    ) -> list[Injection]:
        now_ms = self._store.now_ms()
        return [
            Injection(
                session_id=session_id,
                prompt_key=key,
                channel=channel.value,
                episode_id=bite.episode_id,
                score=bite.relevance,
                tokens=len(bite.text) // CHARACTERS_PER_TOKEN,
                state=state,
                at_ms=now_ms,
            )
            for bite in bites
        ]


def _briefing_outcome(session_id: str, memory_ids: Sequence[str], now_ms: int) -> Outcome:
    """Return the outcome of a session start, with the briefing's memories in order."""
    verdict = Verdict.SHOWN if memory_ids else Verdict.NOTHING_NEAR
    return Outcome(
        session_id=session_id,
        channel=Channel.START,
        verdict=verdict,
        at_ms=now_ms,
        prompt_key=BRIEFING,
        candidates=len(memory_ids),
        considered=tuple(
            Candidate(place=place, episode_id=episode_id, verdict=Verdict.SHOWN, score=0.0, floor=0.0)
            for place, episode_id in enumerate(memory_ids)
        ),
    )


def with_verdict(outcome: Outcome, verdict: Verdict) -> Outcome:
    """Return an outcome with a different verdict on the chosen bites, such as PENDING."""
    if outcome.verdict is not Verdict.SHOWN:
        return outcome
    considered = [
        replace(candidate, verdict=verdict) if candidate.verdict is Verdict.SHOWN else candidate
        for candidate in outcome.considered
    ]
    return replace(outcome, verdict=verdict, considered=tuple(considered))


def _without(kept: list[T], stored: Sequence[T]) -> list[T]:
    """Return the items that are not among the stored ones, to keep those recorded in the meantime."""
    gone = set(map(id, stored))
    return [value for value in kept if id(value) not in gone]
