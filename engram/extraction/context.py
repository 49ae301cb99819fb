"""Builds what an extractor is told besides the turns: what the session has already, and which memories are near."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

from engram.enums import Source
from engram.errors import Conflict
from engram.extraction.batch import Batch
from engram.extraction.near import nearest
from engram.extraction.protocol import ExtractionContext, NearMemory
from engram.ingest.forgotten import without_entries
from engram.models.contradictions import is_kept_by_hand
from engram.models.episode_lists import current_episodes
from engram.models.episodes import Episode, episodes_of_session, evidence_of, find_episode
from engram.models.projects import ProjectRow, project_by_id
from engram.models.sessions import SessionRow, find_session
from engram.models.store import Store
from engram.models.tombstones import barred_entries
from engram.models.transaction import Tx
from engram.models.turns import StoredTurn
from engram.settings import Settings
from engram.transcripts.record import Turn


@dataclass(frozen=True, slots=True)
class ContextBuilder:
    """Builds the contexts of one session."""

    store: Store
    settings: Settings
    session: SessionRow
    #: Sessions whose memories may be shown; None for all sessions of the project.
    near_sessions: Collection[str] | None = None

    def build(self, turns: Sequence[StoredTurn]) -> ExtractionContext:
        """Return the context of some turns: the session's other memories, and the near ones of other sessions."""
        session = self.session
        project = project_by_id(self.store, session.project_id) if session.project_id else None
        others = self._episodes_of_other_turns(turns)
        current = [episode for episode in others if episode.is_current]
        return ExtractionContext(
            project=_folder_name(project) if project else "",
            is_global=session.is_global,
            known=tuple(episode.summary for episode in current),
            kept_before=sum(episode.source == Source.AUTO for episode in others),
            session_cap=self.settings.session_memories,
            rolling_summary=session.rolling_summary,
            project_id=session.project_id,
            own=tuple(map(_near_memory, current)),
            near=tuple(map(_near_memory, self._nearest(turns))),
        )

    def build_repeatable(self, batch: Batch) -> ExtractionContext:
        """Return a context that does not depend on when the session was extracted: what was saved by hand is known."""
        saved = [
            episode.summary
            for episode in episodes_of_session(self.store, self.session.session_id)
            if episode.source == Source.MANUAL and episode.is_current
        ]
        return replace(
            self.build(batch.turns),
            known=tuple(saved),
            kept_before=0,
            following=next(iter(self.readable(batch.after[:1])), None),
        )

    def readable(self, turns: Sequence[StoredTurn]) -> list[Turn]:
        """Return the turns without the entries of forgotten memories: no extractor reads them again."""
        entries = {entry.uuid for turn in turns for entry in turn.turn.entries}
        barred = barred_entries(self.store, entries | {turn.turn.key for turn in turns})
        readable = [without_entries(turn.turn, barred) for turn in turns]
        return [turn for turn in readable if turn.said or turn.actions or not barred]

    def _nearest(self, turns: Sequence[StoredTurn]) -> list[Episode]:
        """Return current memories of other sessions, of the project or global, that are near to the turns."""
        if self.session.project_id is None and not self.session.is_global:
            return []
        others = [
            episode
            for episode in current_episodes(self.store, self.session.project_id)
            if episode.session_id != self.session.session_id
            and not episode.suspect
            and (self.near_sessions is None or episode.session_id in self.near_sessions)
        ]
        return nearest(others, [turn.turn for turn in turns])

    def _episodes_of_other_turns(self, turns: Sequence[StoredTurn]) -> list[Episode]:
        """Return the session's memories that rest on none of these turns."""
        ids = {turn.id for turn in turns}
        return [
            episode
            for episode in episodes_of_session(self.store, self.session.session_id)
            if not any(evidence.turn_id in ids for evidence in evidence_of(self.store, episode.id))
        ]


def check_unforgotten(tx: Tx, session_id: str, context: ExtractionContext) -> None:
    """Check that everything in a context still exists.

    Raises:
        Conflict: something that the extractor was told was forgotten meanwhile.
    """
    session = find_session(tx, session_id)
    if context.rolling_summary and (session is None or session.rolling_summary != context.rolling_summary):
        raise Conflict(f"the summary of session {session_id} was erased or replaced meanwhile")
    for memory in (*context.own, *context.near):
        if memory.reference and find_episode(tx, memory.reference) is None:
            raise Conflict(f"memory {memory.reference} was forgotten meanwhile")


def _folder_name(project: ProjectRow) -> str:
    """Return the name of a project's folder; the display name may have a number that depends on the memory."""
    return re.split(r"[\\/]", project.root.rstrip("\\/"))[-1] or project.name


def _near_memory(episode: Episode) -> NearMemory:
    return NearMemory(
        summary=episode.summary,
        reference=episode.episode_id,
        kind=episode.kind,
        state="in force",
        at_ms=episode.holds_from_ms,
        is_fixed=is_kept_by_hand(episode),
    )
