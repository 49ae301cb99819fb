"""Turns → episodes: read, think, then write everything in one transaction if no turn has moved meanwhile."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

from engram.embedding.embedder import Embedder
from engram.enums import Source
from engram.errors import Conflict
from engram.extraction.apply_answer import apply_actions
from engram.extraction.candidate import Candidate
from engram.extraction.keep import Keeper, Kept
from engram.extraction.near import nearest
from engram.extraction.protocol import ExtractionContext, Extractor, NearMemory
from engram.failpoint import reach
from engram.ingest.forgotten import without_entries
from engram.models.contradictions import is_kept_by_hand
from engram.models.episode_lists import current_episodes
from engram.models.episodes import Episode, episodes_of_session, evidence_of, find_episode
from engram.models.extractions import extracted_of_session, has_due_turns, note_extraction, set_rolling_summary
from engram.models.sessions import ProjectRow, SessionRow, find_session, project_by_id
from engram.models.stages import note_success
from engram.models.store import Store
from engram.models.tombstones import barred_entries
from engram.models.transaction import Tx
from engram.models.turns import StoredTurn, check_unmoved, mark_extracted, turns_of_session
from engram.models.vectors import put_vectors
from engram.models.work import Work, find_work, finish
from engram.settings import Settings
from engram.transcripts.record import Turn

#: Turns of one transaction; bounds memory and how long the write lock is held.
BATCH_TURNS = 60
#: Stands for no cap.
_NO_CAP = 1_000_000
#: So often an extraction begins anew because turns grew meanwhile.
MAX_TRIES = 20


@dataclass(frozen=True, slots=True)
class ExtractReport:
    """What an extraction brought."""

    session_id: str
    #: Turns that were looked at.
    turns: int = 0
    new: int = 0
    updated: int = 0
    #: Memories of a turn that went on and no longer says so.
    archived: int = 0
    #: Proposals beyond a cap, or that the user had forgotten.
    left_out: int = 0
    #: Row ids of the memories that came or changed.
    row_ids: tuple[int, ...] = ()

    @property
    def has_changed(self) -> bool:
        """True where a memory came, changed or went."""
        return bool(self.new or self.updated or self.archived)

    def plus(self, turns: int, kept: Kept) -> ExtractReport:
        """The sum of this and one more batch."""
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
    near_sessions: Collection[str] | None = None,
) -> ExtractReport:
    """Extract what a session has grown by; a turn that was extracted before updates its own episodes.

    The extractor and the model run outside any transaction. Any number of extractions of the same session may race:
    each batch is written by one, and by none where a turn grew meanwhile (then it is read again).

    Args:
        embedder: None leaves vectors to the task that embeds what has none.
        near_sessions: sessions whose memories may be shown to the extractor; None for all of the project.

    Raises:
        ExtractionError: the extractor failed; the turns stay due.
        Conflict: turns kept growing; try again later.
        StoreError: the database cannot be read or written; nothing of the batch was written.
    """
    report = ExtractReport(session_id)
    tries = 0
    while True:
        try:
            step = _Step(store, session_id, extractor, embedder, settings, near_sessions)
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


@dataclass(frozen=True, slots=True)
class _Batch:
    """The turns of one batch within their session."""

    #: Turns to propose candidates from: the due ones, and with a repeatable extractor those around them.
    turns: tuple[StoredTurn, ...] = ()
    #: The session's turns before and after them; none of them where the extractor is not repeatable.
    before: tuple[StoredTurn, ...] = ()
    after: tuple[StoredTurn, ...] = ()

    @property
    def due(self) -> tuple[StoredTurn, ...]:
        """Turns that grew since they were extracted."""
        return tuple(turn for turn in self.turns if turn.extracted_revision < turn.revision)

    def from_the_beginning(self) -> _Batch:
        """The same batch with every turn before it."""
        return _Batch(turns=(*self.before, *self.turns), after=self.after)


def _batch_of(turns: Sequence[StoredTurn]) -> _Batch:
    """The next batch of a session for a repeatable extractor.

    What a turn gives depends on the turns before it, and on the prompt after it. So the batch begins with the turn
    before the first one that grew, and goes on to the end of the session, or to where the next batch begins.
    """
    due = [place for place, turn in enumerate(turns) if turn.extracted_revision < turn.revision]
    if not due:
        return _Batch()
    start = max(0, due[0] - 1)
    stop = due[BATCH_TURNS] if len(due) > BATCH_TURNS else len(turns)
    return _Batch(turns=tuple(turns[start:stop]), before=tuple(turns[:start]), after=tuple(turns[stop:]))


@dataclass(slots=True)
class _Step:
    """One batch of one session: read, think, write."""

    store: Store
    session_id: str
    extractor: Extractor
    embedder: Embedder | None
    settings: Settings
    near_sessions: Collection[str] | None = None

    def run(self) -> tuple[int, Kept, bool]:
        """Number of turns, what was kept of them, and whether nothing is left.

        Raises:
            Conflict: a turn has grown, or another extraction was faster; nothing was written.
        """
        work = find_work(self.store, "extract", self.session_id)
        session = find_session(self.store, self.session_id)
        batch = _Batch() if session is None else self._next_batch(session)
        reach("extract.read")
        if session is None or not batch.turns:
            self._finish(work, session)
            return 0, Kept(), True
        batch, candidates, context = self._propose(session, batch)
        vectors = self._embed(candidates)
        reach("extract.embedded")
        due = {turn.id for turn in batch.due}
        with self.store.transaction() as tx:
            reach("extract.begin")
            self._check_still_told(tx, context)
            for turn in batch.turns:
                if turn.id in due:
                    mark_extracted(tx, turn.id, turn.revision)
                else:
                    check_unmoved(tx, turn.id, turn.revision)
            keeper = Keeper(tx, session, batch.turns, self.extractor.name, self.settings)
            kept = keeper.keep(candidates)
            applied = apply_actions(
                tx,
                candidates,
                lambda place: keeper.stored(kept, place),
                keeper.evidence,
                None if session.is_global else session.project_id,
            )
            kept.updated += applied.changed
            if self.embedder is not None:
                rows = [("e", kept.row_ids[n], 0, vectors[n]) for n in sorted(kept.row_ids)]
                put_vectors(tx, self.embedder.model_id, rows)
            if (summary := getattr(self.extractor, "rolling_summary", "")) and summary != session.rolling_summary:
                set_rolling_summary(tx, session.id, summary)
            reach("extract.episodes")
            is_last = self._settle(tx, work, session)
            note_success(self.store, "extract", seen=len(due), done=kept.new)
            reach("extract.work")
        reach("extract.committed")
        return len(due), kept, is_last

    @property
    def _is_repeatable(self) -> bool:
        return bool(getattr(self.extractor, "is_repeatable", False))

    def _next_batch(self, session: SessionRow) -> _Batch:
        if self._is_repeatable:
            return _batch_of(turns_of_session(self.store, session.id))
        return _Batch(tuple(turns_of_session(self.store, session.id, only_due=True, limit=BATCH_TURNS)))

    def _propose(self, session: SessionRow, batch: _Batch) -> tuple[_Batch, list[Candidate], ExtractionContext]:
        """The candidates, and the batch and the context that they were proposed from."""
        if not self._is_repeatable:
            context = self._context(session, batch.turns)
            return batch, self._ask(batch, context), context
        context = self._repeatable_context(session, batch)
        candidates = self._ask(batch, replace(context, kept_before=0, session_cap=_NO_CAP))
        if context.kept_before + len(candidates) > context.session_cap and batch.before:
            # Only the best of the whole session are kept, so all of its turns are compared.
            batch = batch.from_the_beginning()
            context = self._repeatable_context(session, batch)
        if len(candidates) > context.session_cap - context.kept_before:
            candidates = self._ask(batch, context)
        return batch, candidates, context

    def _check_still_told(self, tx: Tx, context: ExtractionContext) -> None:
        """Raise Conflict where something that the extractor was told was forgotten since."""
        session = find_session(tx, self.session_id)
        if context.rolling_summary and (session is None or session.rolling_summary != context.rolling_summary):
            raise Conflict(f"what session {self.session_id} is about was erased or told anew")
        for memory in (*context.own, *context.near):
            if memory.reference and find_episode(tx, memory.reference) is None:
                raise Conflict(f"memory {memory.reference} was forgotten meanwhile")

    def _ask(self, batch: _Batch, context: ExtractionContext) -> list[Candidate]:
        return self.extractor.propose(self._readable(batch.turns), context)

    def _context(self, session: SessionRow, turns: Sequence[StoredTurn]) -> ExtractionContext:
        project = project_by_id(self.store, session.project_id) if session.project_id else None
        others = self._episodes_of_others(turns)
        own = [e for e in others if e.is_current]
        return ExtractionContext(
            project=_name(project) if project else "",
            is_global=session.is_global,
            known=tuple(e.summary for e in own),
            kept_before=sum(e.source == Source.AUTO for e in others),
            session_cap=self.settings.session_memories,
            rolling_summary=session.rolling_summary,
            project_id=session.project_id,
            own=tuple(map(_shown, own)),
            near=tuple(map(_shown, self._near(session, turns))),
        )

    def _readable(self, turns: Sequence[StoredTurn]) -> list[Turn]:
        """The turns without the entries that a forgotten memory rested on: no extractor sees them again."""
        entries = {entry.uuid for turn in turns for entry in turn.turn.entries}
        barred = barred_entries(self.store, entries | {turn.turn.key for turn in turns})
        readable = [without_entries(turn.turn, barred) for turn in turns]
        return [turn for turn in readable if turn.said or turn.actions or not barred]

    def _near(self, session: SessionRow, turns: Sequence[StoredTurn]) -> list[Episode]:
        """The memories of other sessions of the project, and those that hold everywhere, that are near to the turns."""
        if session.project_id is None and not session.is_global:
            return []
        others = [
            episode
            for episode in current_episodes(self.store, session.project_id)
            if episode.session_id != self.session_id
            and not episode.suspect
            and (self.near_sessions is None or episode.session_id in self.near_sessions)
        ]
        return nearest(others, [turn.turn for turn in turns])

    def _repeatable_context(self, session: SessionRow, batch: _Batch) -> ExtractionContext:
        """What the turns before the batch gave, word for word as it was extracted, whatever became of it since."""
        before = {turn.id for turn in batch.before}
        extracted = [
            memory
            for memory in extracted_of_session(self.store, session.id)
            if memory.turn_id in before and not memory.is_withdrawn
        ]
        saved = [
            episode.summary
            for episode in episodes_of_session(self.store, self.session_id)
            if episode.source == Source.MANUAL and episode.is_current
        ]
        return replace(
            self._context(session, batch.turns),
            known=(*(memory.summary for memory in extracted), *saved),
            kept_before=len(extracted),
            before=tuple(self._readable(batch.before)),
            following=next(iter(self._readable(batch.after[:1])), None),
        )

    def _episodes_of_others(self, turns: Sequence[StoredTurn]) -> list[Episode]:
        """The session's memories that rest on none of these turns."""
        mine = {turn.id for turn in turns}
        return [
            episode
            for episode in episodes_of_session(self.store, self.session_id)
            if not any(one.turn_id in mine for one in evidence_of(self.store, episode.id))
        ]

    def _embed(self, candidates: Sequence[Candidate]) -> list[bytes]:
        if self.embedder is None or not candidates:
            return []
        rows = self.embedder.embed([candidate.summary for candidate in candidates])
        return [row.astype("float16").tobytes() for row in rows]

    def _settle(self, tx: Tx, work: Work | None, session: SessionRow) -> bool:
        """Move the session and its work on; True where no turn is left."""
        if has_due_turns(tx, session.id):
            return False
        note_extraction(tx, session.id, session.message_count)
        if work is not None:
            finish(tx, work)
        return True

    def _finish(self, work: Work | None, session: SessionRow | None) -> None:
        """There is nothing to extract: the work is done, unless it was made due again meanwhile."""
        if work is None:
            return
        with self.store.transaction() as tx:
            if session is None or not has_due_turns(self.store, session.id):
                finish(tx, work)


def _name(project: ProjectRow) -> str:
    """The name of a project's folder: the display name can have a number that another memory would not give it."""
    return re.split(r"[\\/]", project.root.rstrip("\\/"))[-1] or project.name


def _shown(episode: Episode) -> NearMemory:
    """A memory as an extractor is shown it."""
    return NearMemory(
        summary=episode.summary,
        reference=episode.episode_id,
        kind=episode.kind,
        state="in force",
        at_ms=episode.holds_from_ms,
        is_fixed=is_kept_by_hand(episode),
    )
