"""Store candidates as episodes, each in its slot, so that the same proposal of a turn is stored once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from engram.enums import Actor, Refusal, Source, Status
from engram.extraction.candidate import Candidate
from engram.extraction.judged import is_said_again
from engram.models.contradictions import is_kept_by_hand
from engram.models.episode_changes import add_episode, change_episode, differing
from engram.models.episode_evidence import replace_evidence
from engram.models.episode_history import Change, history_of
from engram.models.episodes import (
    Episode,
    Evidence,
    episode_by_slot,
    episodes_of_turn,
    evidence_of,
    new_episode_id,
    slot_of,
)
from engram.models.erasing import sources_of
from engram.models.extractions import DISTILLED_AGAIN, NOT_CHOSEN, WENT_ON, WITHDRAWN, count_auto_episodes
from engram.models.judgements import judged_memories
from engram.models.runs import add_run, close_run
from engram.models.sessions import SessionRow
from engram.models.tombstones import barred_entries, is_slot_gone
from engram.models.transaction import Tx
from engram.models.turns import StoredTurn
from engram.models.unjoined import mark_unjoined
from engram.models.watermarks import undone
from engram.settings import Settings
from engram.transcripts.record import Opening

#: Actions in a memory's history after which an extraction no longer changes it.
_SETTLING_ACTIONS = ("merge", "supersede", "archive", "graduate", "undo", "redo")
_HOUR_MS = 3_600_000


@dataclass(slots=True)
class Kept:
    """The result of storing candidates."""

    new: int = 0
    updated: int = 0
    archived: int = 0
    #: Why candidates were left out, one for each.
    refused: list[Refusal] = field(default_factory=list)
    #: Index of a candidate → row id of the episode that it created or changed.
    row_ids: dict[int, int] = field(default_factory=dict)
    #: Index of a candidate → its slot, for those that are stored.
    slots: dict[int, str] = field(default_factory=dict)

    @property
    def left_out(self) -> int:
        """Number of candidates that were left out."""
        return len(self.refused)


class Keeper:
    """Stores the candidates of some turns of a session."""

    def __init__(
        self,
        tx: Tx,
        session: SessionRow,
        turns: Sequence[StoredTurn],
        extractor: str,
        settings: Settings,
        *,
        run_id: int | None = None,
    ) -> None:
        """Prepare.

        Args:
            tx: the transaction.
            session: the session.
            turns: those that the candidates were proposed from.
            extractor: stored with each episode.
            settings: the caps.
            run_id: a run to record new memories in too, so that they can be undone; memories that the turns no longer
                give are then left to the caller.
        """
        self._tx = tx
        self._session = session
        self._extractor = extractor
        self._settings = settings
        self._turns = {turn.turn.key: turn for turn in turns}
        self._turn_of_entry = {entry.uuid: turn.id for turn in turns for entry in turn.turn.entries}
        self._said_at_ms = {said.uuid: said.at_ms for turn in turns for said in turn.turn.said if said.uuid}
        self._kept_in_hour: dict[int, int] = {}
        self._judged = judged_memories(tx, session.own_project_id)
        self._is_in_run = run_id is not None
        self._run_id = run_id
        #: A line for each older memory that changed.
        self._lines: list[str] = []

    def keep(self, candidates: Sequence[Candidate]) -> Kept:
        """Store the candidates and archive what the turns no longer say."""
        kept = Kept()
        slots = set()
        for place, candidate in enumerate(candidates):
            if candidate.action in ("same", "retracts"):
                continue
            slot = slot_of(candidate.turn_keys[0], candidate.kind, candidate.summary)
            if slot in slots:
                kept.refused.append(Refusal.REPEATED)
                continue
            if is_slot_gone(self._tx, slot) or self._rests_on_barred(candidate):
                kept.refused.append(Refusal.FORGOTTEN)
                continue
            slots.add(slot)
            self._keep_one(place, candidate, slot, kept)
            kept.slots[place] = slot
        if self._is_in_run:
            return kept
        for turn in self._turns.values():
            kept.archived += self._archive_others(turn, slots)
        if self._run_id is not None:
            close_run(self._tx, self._run_id, self._lines)
        return kept

    def _run(self) -> int:
        """Return the run of changes to older memories, which can be undone."""
        if self._run_id is None:
            self._run_id = add_run(self._tx, "extract")
        return self._run_id

    def _rests_on_barred(self, candidate: Candidate) -> bool:
        """Return True if a memory on one of the entries was forgotten, perhaps while the extractor ran."""
        turns = (self._turns[key].turn for key in candidate.turn_keys if key in self._turns)
        queued = [turn.key for turn in turns if turn.opening is Opening.QUEUED]
        return bool(barred_entries(self._tx, [*candidate.evidence, *queued]))

    @property
    def lines(self) -> list[str]:
        """A line for each older memory that changed."""
        return self._lines

    def stored(self, kept: Kept, place: int) -> Episode | None:
        """Return the memory of the candidate at an index; None if it was left out."""
        slot = kept.slots.get(place)
        return None if slot is None else episode_by_slot(self._tx, slot)

    def _keep_one(self, place: int, candidate: Candidate, slot: str, kept: Kept) -> None:
        evidence = self.evidence(candidate)
        known = episode_by_slot(self._tx, slot)
        if known is None:
            made = self._episode(candidate, slot)
            if any(is_said_again(made, memory) for memory in self._judged):
                kept.refused.append(Refusal.JUDGED)
                return
            if self._is_hour_full(made.created_at_ms):
                kept.refused.append(Refusal.FULL)
                return
            run_id = self._run_id if self._is_in_run else None
            made = add_episode(self._tx, made, evidence, action="extract", actor=Actor.MODEL, run_id=run_id)
            kept.row_ids[place] = made.id
            kept.new += 1
        else:
            history = history_of(self._tx, known.episode_id)
            if _is_settled(known) or any(_is_decision(change) for change in history):
                return
            # Evidence of another session stays.
            evidence += [e for e in evidence_of(self._tx, known.id) if e.session_id != self._session.session_id]
            changes = self._changes(known, candidate, history)
            reason = DISTILLED_AGAIN if self._is_in_run else WENT_ON
            if changes or evidence_of(self._tx, known.id) != evidence:
                made = change_episode(
                    self._tx, known, "extract", reason, run_id=self._run(), **changes, actor=Actor.MODEL
                )
                kept.row_ids[place] = made.id
                self._lines.append(f"change {known.episode_id} ({reason})")
                replace_evidence(self._tx, known, evidence, reason, run_id=self._run(), actor=Actor.MODEL)
                kept.updated += 1
        if place in kept.row_ids:
            mark_unjoined(self._tx, kept.row_ids[place])

    def _episode(self, candidate: Candidate, slot: str) -> Episode:
        at_ms = self._at_ms(candidate)
        return Episode(
            episode_id=new_episode_id(),
            slot=slot,
            session_id=self._session.session_id,
            project_id=self._session.own_project_id,
            source=Source.AUTO,
            extractor=candidate.extractor or self._extractor,
            created_at_ms=at_ms,
            valid_from_ms=at_ms,
            **_fields(candidate),
        )

    def _changes(self, known: Episode, candidate: Candidate, history: Sequence[Change]) -> dict[str, Any]:
        """Return the fields that differ."""
        wanted = _fields(candidate)
        if self._is_in_run:
            wanted["extractor"] = candidate.extractor or self._extractor
        if known.status == Status.ACTIVE:
            # It was confirmed. If the turn grew, the confirmation is looked for again.
            came_back = any(change.action == "confirm" and "came back" in change.reason for change in history)
            if self._has_grown(candidate) and not came_back:
                wanted["confirmations"] = 0
            else:
                del wanted["status"], wanted["confidence"]
        return differing(known, wanted)

    def _has_grown(self, candidate: Candidate) -> bool:
        turn = self._turns.get(candidate.turn_keys[0])
        return turn is not None and turn.extracted_revision < turn.revision

    def _archive_others(self, turn: StoredTurn, slots: set[str]) -> int:
        """Archive the turn's automatic memories that were not proposed again; returns their number."""
        if not turn.extracted_revision:
            return 0
        count = 0
        for episode in episodes_of_turn(self._tx, turn.id):
            if episode.slot is None or episode.slot in slots or not episode.is_current:
                continue
            if ("archive", episode.episode_id) in undone(self._tx):
                continue
            history = history_of(self._tx, episode.episode_id)
            is_decided = _is_settled(episode) or any(_is_decision(change) for change in history)
            if is_decided or self._lead_turn(episode) != turn.id:
                continue
            if barred_entries(self._tx, sources_of(self._tx, episode)):
                continue  # the extractor can't propose it again, since it no longer sees all of its evidence
            reason = WENT_ON if turn.extracted_revision < turn.revision else NOT_CHOSEN
            change_episode(
                self._tx, episode, "archive", reason, run_id=self._run(), status=Status.ARCHIVED, actor=Actor.MODEL
            )
            self._lines.append(f"archive {episode.episode_id} ({reason})")
            count += 1
        return count

    def _lead_turn(self, episode: Episode) -> int | None:
        """Return the row id of the turn that an episode was taken from."""
        evidence = evidence_of(self._tx, episode.id)
        return evidence[0].turn_id if evidence else None

    def evidence(self, candidate: Candidate) -> list[Evidence]:
        """Return the entries that a candidate rests on."""
        lead = self._turns.get(candidate.turn_keys[0])
        lead_id = lead.id if lead else None
        entries = [
            Evidence(uuid, self._session.session_id, self._turn_of_entry.get(uuid, lead_id))
            for uuid in candidate.evidence
            if uuid
        ]
        return list(dict.fromkeys(entries)) or [Evidence("", self._session.session_id, lead_id)]

    def _at_ms(self, candidate: Candidate) -> int:
        """Return when a candidate was said, in milliseconds since 1970."""
        times = [at for uuid in candidate.evidence if (at := self._said_at_ms.get(uuid)) is not None]
        turn = self._turns.get(candidate.turn_keys[0])
        # The beginning of a turn stays when the turn goes on.
        at_ms = times[0] if times else (turn.turn.started_at_ms or turn.turn.ended_at_ms if turn else None)
        return min(at_ms or self._session.last_at_ms, self._tx.now_ms())

    def _is_hour_full(self, at_ms: int) -> bool:
        """Return True if the hour of ``at_ms`` has its maximum number of memories; otherwise count one more."""
        hour = at_ms // _HOUR_MS
        if hour not in self._kept_in_hour:
            self._kept_in_hour[hour] = count_auto_episodes(self._tx, hour * _HOUR_MS, (hour + 1) * _HOUR_MS)
        if self._kept_in_hour[hour] >= self._settings.hourly_memories:
            return True
        self._kept_in_hour[hour] += 1
        return False


def _is_settled(episode: Episode) -> bool:
    """Return True for a memory that no extractor changes."""
    return is_kept_by_hand(episode) or bool(episode.superseded_by)


def _is_decision(change: Change) -> bool:
    """Return True for a change that an extraction must not overrule: by hand or by consolidation."""
    return change.is_by_hand or (change.action in _SETTLING_ACTIONS and change.reason not in WITHDRAWN)


def _fields(candidate: Candidate) -> dict[str, Any]:
    """Return the fields of an episode that come from its candidate."""
    return {
        "kind": candidate.kind,
        "summary": candidate.summary,
        "content": candidate.content,
        "facts": candidate.facts,
        "entities": candidate.entities,
        "questions": candidate.questions,
        "title": candidate.title,
        "importance": candidate.importance,
        "scope": candidate.scope,
        "voice": candidate.voice,
        "confidence": candidate.confidence,
        "status": candidate.status,
        "suspect": candidate.suspect,
        "quality": candidate.quality,
    }
