"""Turn a session's turns into memories: read, propose, then write in one transaction if no turn has changed."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from functools import partial

from engram.embedding.embedder import Embedder
from engram.enums import Refusal
from engram.errors import Conflict
from engram.extraction.candidate import Candidate, ExtractionContext, Extractor
from engram.extraction.store_candidates import Keeper, Kept, apply_actions, refusals
from engram.extraction.turn_batches import (
    BATCH_TURNS,
    ContextBuilder,
    check_unforgotten,
    is_at_home,
    within_project,
)
from engram.models.engine.transaction import Store, Tx
from engram.models.memories.memory_records import Memory
from engram.models.search.vector_rows import put_vectors
from engram.models.sessions.sessions import SessionRow, find_session, note_extraction, set_rolling_summary
from engram.models.sessions.stored_turns import (
    StoredTurn,
    count_unmoved,
    has_due_turns,
    mark_extracted,
    note_model_reading,
    turns_of_session,
)
from engram.models.shown.usage import note_refused
from engram.models.work.task_runs import note_success
from engram.models.work.work import Work, find_work, finish
from engram.settings import Settings
from engram.system.failpoint import reach
from engram.transcripts.turns import without_rewound

#: Maximum number of times that an extraction starts again because turns have grown in the meantime.
MAX_TRIES = 20


@dataclass(frozen=True, slots=True)
class ExtractReport:
    session_id: str
    #: Number of turns that were extracted.
    turns: int = 0
    new: int = 0
    updated: int = 0
    #: Number of memories that were archived because their turn no longer supports them.
    archived: int = 0
    #: Number of proposals that exceeded a cap, or that repeat something that the user had made Engram forget.
    left_out: int = 0
    #: Row ids of new and changed memories.
    row_ids: tuple[int, ...] = ()

    @property
    def has_changed(self) -> bool:
        """True if a memory is new, changed or archived."""
        return bool(self.new or self.updated or self.archived)

    def plus(self, turns: int, kept: Kept) -> ExtractReport:
        """Return this report plus the results of another batch."""
        return replace(
            self,
            turns=self.turns + turns,
            new=self.new + kept.new,
            updated=self.updated + kept.updated,
            archived=self.archived + kept.archived,
            left_out=self.left_out + kept.left_out,
            row_ids=(*self.row_ids, *kept.row_ids.values()),
        )


def extract_session(
    store: Store,
    session_id: str,
    *,
    extractor: Extractor,
    embedder: Embedder | None,
    settings: Settings,
    near_memories: Sequence[Memory] | None = None,
) -> ExtractReport:
    """Extract the turns of a session that have grown. A turn that was extracted before updates its own memories.

    The extractor and the model run outside any transaction. Any number of extractions of a session may run at the same
    time: each batch is written only once, and not at all if a turn has grown in the meantime, in which case the batch
    is read again. A repeatable extractor is given all of a session's turns in a project as one batch; the turns before
    the first one that has grown are written even then.

    Args:
        embedder: None to leave the vectors to the ``embed`` task.
        settings: contains the caps.
        near_memories: memories from other sessions that may be shown to the extractor; None for the current ones.

    Raises:
        ExtractionError: the extractor failed; the turns stay due.
        Conflict: turns kept growing; try again later.
        StoreError: the database cannot be read or written; nothing from the batch was written.
    """
    report = ExtractReport(session_id)
    tries = 0
    while True:
        try:
            step = _Step(store, session_id, extractor, embedder, settings, near_memories)
            turns, kept, is_last = step.run()
            report = report.plus(turns, kept)
            tries = 0
        except Conflict:
            tries += 1
            if tries >= MAX_TRIES:
                raise
            continue
        if is_last:
            return report


@dataclass(slots=True)
class _Step:
    """The extraction of one batch of a session: read, propose, write."""

    store: Store
    session_id: str
    extractor: Extractor
    embedder: Embedder | None
    settings: Settings
    near_memories: Sequence[Memory] | None = None

    def run(self) -> tuple[int, Kept, bool]:
        """Return the number of turns, the result of storing their candidates, and whether no turns are left.

        Raises:
            Conflict: a turn has grown, or another extraction was faster; nothing was written.
        """
        work = find_work(self.store, "extract", self.session_id)
        session = find_session(self.store, self.session_id)
        session, turns = (None, []) if session is None else self._next_batch(session)
        reach("extract.read")
        if session is None or not any(turn.is_due for turn in turns):
            self._finish_without_turns(work, session)
            return 0, Kept(), True
        candidates, context = self._propose(session, turns)
        vectors = self._embed(candidates)
        reach("extract.embedded")
        with self.store.transaction() as tx:
            reach("extract.begin")
            check_unforgotten(tx, self.session_id, context)
            if self._is_repeatable:
                turns = turns[: count_unmoved(tx, [(turn.id, turn.revision) for turn in turns])]
                candidates, vectors = _from_turns(turns, candidates, vectors)
            due = [turn for turn in turns if turn.is_due]
            if not due:
                raise Conflict()
            mark_extracted(tx, {turn.id: turn.revision for turn in due})
            if not self._is_repeatable:
                unread: Collection[str] = getattr(self.extractor, "unread", ())
                note_model_reading(tx, [turn for turn in due if turn.turn.key not in unread])
            kept = self._write(tx, session, turns, candidates)
            if self.embedder is not None:
                rows = [("e", kept.row_ids[place], 0, vectors[place]) for place in sorted(kept.row_ids)]
                put_vectors(tx, self.embedder.model_id, rows)
            summary = getattr(self.extractor, "rolling_summary", "")
            if summary and summary != session.rolling_summary and is_at_home(tx, session):
                set_rolling_summary(tx, session.id, summary)
            reach("extract.memories")
            is_last = self._finish_if_last(tx, work, session)
            note_success(self.store, "extract", seen=len(due), done=kept.new)
            reach("extract.work")
        reach("extract.committed")
        return len(due), kept, is_last

    @property
    def _is_repeatable(self) -> bool:
        return bool(getattr(self.extractor, "is_repeatable", False))

    def _next_batch(self, session: SessionRow) -> tuple[SessionRow, list[StoredTurn]]:
        if self._is_repeatable:
            return within_project(session, turns_of_session(self.store, session.id))
        due = turns_of_session(self.store, session.id, only_due=True, limit=BATCH_TURNS)
        return within_project(session, due)

    def _propose(self, session: SessionRow, turns: Sequence[StoredTurn]) -> tuple[list[Candidate], ExtractionContext]:
        builder = ContextBuilder(self.store, self.settings, session, self.near_memories)
        readable = builder.readable(turns)
        if not self._is_repeatable:
            context = builder.build(turns)
            return self.extractor.propose(without_rewound(readable), context), context
        context = builder.build_repeatable(turns, readable)
        return self.extractor.propose(readable, context), context

    def _write(self, tx: Tx, session: SessionRow, turns: Sequence[StoredTurn], candidates: Sequence[Candidate]) -> Kept:
        """Store the candidates, and apply their actions to other memories."""
        keeper = Keeper(tx, session, turns, self.extractor.name, self.settings)
        kept = keeper.keep(candidates, () if self._is_repeatable else turns_of_session(tx, session.id))
        stored = partial(keeper.stored, kept)
        applied = apply_actions(tx, candidates, stored, keeper.evidence, session.own_project_id)
        kept.updated += applied.changed
        if not self._is_repeatable:
            proposed: Sequence[Refusal] = getattr(self.extractor, "refused", ())
            note_refused(tx, refusals(proposed, kept, applied))
        return kept

    def _embed(self, candidates: Sequence[Candidate]) -> list[bytes]:
        if self.embedder is None or not candidates:
            return []
        rows = self.embedder.embed([candidate.summary for candidate in candidates])
        return [row.astype("float16").tobytes() for row in rows]

    def _finish_if_last(self, tx: Tx, work: Work | None, session: SessionRow) -> bool:
        """Finish the work and return True if no turn of the session is due."""
        if has_due_turns(tx, session.id):
            return False
        note_extraction(tx, session.id, session.message_count)
        if work is not None:
            finish(tx, work)
        return True

    def _finish_without_turns(self, work: Work | None, session: SessionRow | None) -> None:
        """Finish the work of a session without due turns, unless a turn has become due in the meantime."""
        if work is None:
            return
        with self.store.transaction() as tx:
            if session is None or not has_due_turns(tx, session.id):
                finish(tx, work)


def _from_turns(
    turns: Sequence[StoredTurn], candidates: Sequence[Candidate], vectors: Sequence[bytes]
) -> tuple[list[Candidate], list[bytes]]:
    """Return the candidates that were proposed from these turns, and their vectors, if there are any."""
    keys = {turn.turn.key for turn in turns}
    places = [place for place, candidate in enumerate(candidates) if keys.issuperset(candidate.turn_keys)]
    return [candidates[place] for place in places], [vectors[place] for place in places] if vectors else []
