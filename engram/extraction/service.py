"""Turns → episodes: read, think, then write everything in one transaction if no turn has moved meanwhile."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

from engram.embedding.embedder import Embedder
from engram.errors import Moved
from engram.extraction.apply_answer import apply_actions
from engram.extraction.candidate import Candidate
from engram.extraction.keep import Keeper, Kept
from engram.extraction.near import nearest
from engram.extraction.protocol import ExtractionContext, Extractor, NearMemory
from engram.failpoint import reach
from engram.ingest.forgotten import without_entries
from engram.models.episodes import Episode, episodes_of_session, evidence_of, living_episodes
from engram.models.extractions import has_due_turns, note_extraction, set_rolling_summary
from engram.models.sessions import ProjectRow, SessionRow, find_session, project_by_id
from engram.models.store import Store
from engram.models.tombstones import barred_entries
from engram.models.turns import StoredTurn, mark_extracted, turns_of_session
from engram.models.vectors import put_vectors
from engram.models.work import Work, find_work, finish, note_success
from engram.settings import Settings
from engram.transcripts.record import Turn

_IN_FORCE = ("active", "provisional")
#: Turns of one transaction; bounds memory and how long the write lock is held.
BATCH_TURNS = 60
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
        Moved: turns kept growing; try again later.
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
        except Moved:
            tries += 1
            if tries >= MAX_TRIES:
                raise
            continue
        if is_last:
            return report


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
            Moved: a turn has grown, or another extraction was faster; nothing was written.
        """
        work = find_work(self.store, "extract", self.session_id)
        session = find_session(self.store, self.session_id)
        turns = [] if session is None else self._due_turns(session)
        reach("extract.read")
        if session is None or not turns:
            self._finish(work, session)
            return 0, Kept(), True
        candidates = self._propose(session, turns)
        vectors = self._embed(candidates)
        reach("extract.embedded")
        with self.store.writing():
            reach("extract.begin")
            for turn in turns:
                mark_extracted(self.store, turn.id, turn.revision)
            keeper = Keeper(self.store, session, turns, self.extractor.name, self.settings)
            kept = keeper.keep(candidates)
            applied = apply_actions(
                self.store,
                candidates,
                lambda place: keeper.stored(kept, place),
                keeper.evidence,
                None if session.is_global else session.project_id,
            )
            kept.updated += applied.changed
            if self.embedder is not None:
                rows = [("e", kept.row_ids[n], 0, vectors[n]) for n in sorted(kept.row_ids)]
                put_vectors(self.store, self.embedder.model_id, rows)
            if (summary := getattr(self.extractor, "rolling_summary", "")) and summary != session.rolling_summary:
                set_rolling_summary(self.store, session.id, summary)
            reach("extract.episodes")
            is_last = self._settle(work, session)
            note_success(self.store, "extract", seen=len(turns), done=kept.new)
            reach("extract.work")
        reach("extract.committed")
        return len(turns), kept, is_last

    def _due_turns(self, session: SessionRow) -> list[StoredTurn]:
        return turns_of_session(self.store, session.id, only_due=True, limit=BATCH_TURNS)

    def _propose(self, session: SessionRow, turns: Sequence[StoredTurn]) -> list[Candidate]:
        project = project_by_id(self.store, session.project_id) if session.project_id else None
        others = self._episodes_of_others(turns)
        own = [e for e in others if e.status in _IN_FORCE]
        context = ExtractionContext(
            project=_name(project) if project else "",
            is_global=session.is_global,
            known=tuple(e.summary for e in own),
            kept_before=sum(e.source == "auto" for e in others),
            session_cap=self.settings.session_memories,
            rolling_summary=session.rolling_summary,
            project_id=session.project_id,
            own=tuple(map(_shown, own)),
            near=tuple(map(_shown, self._near(session, turns))),
        )
        return self.extractor.propose(self._readable(turns), context)

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
            for episode in living_episodes(self.store, session.project_id)
            if episode.session_id != self.session_id
            and not episode.suspect
            and (self.near_sessions is None or episode.session_id in self.near_sessions)
        ]
        return nearest(others, [turn.turn for turn in turns])

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

    def _settle(self, work: Work | None, session: SessionRow) -> bool:
        """Move the session and its work on; True where no turn is left. Inside ``writing``."""
        if has_due_turns(self.store, session.id):
            return False
        note_extraction(self.store, session.id, session.message_count)
        if work is not None:
            finish(self.store, work)
        return True

    def _finish(self, work: Work | None, session: SessionRow | None) -> None:
        """There is nothing to extract: the work is done, unless it was made due again meanwhile."""
        if work is None:
            return
        with self.store.writing():
            if session is None or not has_due_turns(self.store, session.id):
                finish(self.store, work)


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
        at_ms=episode.valid_from_ms or episode.created_at_ms,
        is_fixed=episode.is_pinned or episode.source == "manual",
    )
