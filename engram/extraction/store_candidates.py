"""Store candidates as memories, each in its own slot, so that the same proposal from a turn is stored only once."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from operator import itemgetter
from typing import Any

from engram.enums import Actor, Importance, Refusal, Scope, Source, Status, Voice
from engram.extraction.candidate import ENDING_ACTIONS, Candidate, is_said_again
from engram.models.engine.transaction import Tx
from engram.models.forgetting.erase_entries import sources_of
from engram.models.memories.judgements import (
    ENDING_REASONS,
    Ending,
    ending_of,
    is_kept_by_hand,
    judged_memories,
    note_contradiction,
)
from engram.models.memories.memory_changes import (
    add_evidence,
    add_memory,
    change_memory,
    differing,
    replace_evidence,
    supersede,
)
from engram.models.memories.memory_history import RETURN, Change, add_run, close_run, history_of
from engram.models.memories.memory_records import (
    Evidence,
    Memory,
    evidence_of,
    find_memory,
    memories_of_turns,
    memory_by_slot,
    new_memory_id,
    slot_of,
)
from engram.models.memories.tombstones import barred_entries, is_slot_gone
from engram.models.memories.watermarks import mark_unjoined, undone
from engram.models.sessions.sessions import (
    DISTILLED_AGAIN,
    NOT_CHOSEN,
    REWOUND,
    WENT_ON,
    WITHDRAWN,
    SessionRow,
    count_auto_memories,
)
from engram.models.sessions.stored_turns import StoredTurn
from engram.settings import Settings
from engram.transcripts.turns import Opening, standing_turns

#: Actions in a memory's history after which no extraction changes the memory.
_SETTLING_ACTIONS = ("merge", "supersede", "archive", "graduate", "undo", "redo")
_HOUR_MS = 3_600_000


@dataclass(slots=True)
class Kept:
    """The result of storing candidates."""

    new: int = 0
    updated: int = 0
    archived: int = 0
    #: The reasons why candidates were left out, one for each.
    refused: list[Refusal] = field(default_factory=list)
    #: Index of a candidate → row id of the memory that it created or changed.
    row_ids: dict[int, int] = field(default_factory=dict)
    #: Index of a candidate → its slot, for stored candidates.
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
        """Make a writer for one extraction.

        Args:
            extractor: the name stored with each memory.
            settings: contains the caps.
            run_id: a run in which new memories are also recorded, so that they can be undone; the caller then handles
                memories that the turns no longer support.
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
        self.lines: list[str] = []

    def keep(self, candidates: Sequence[Candidate], session_turns: Sequence[StoredTurn] = ()) -> Kept:
        """Store the candidates and archive memories that the turns no longer support.

        Args:
            session_turns: all turns of the session, if the extractor sees each of them only once.
        """
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
        kept.archived += self._archive_others(slots)
        kept.archived += self._follow_rewinds(session_turns)
        if self._run_id is not None:
            close_run(self._tx, self._run_id, self.lines)
        return kept

    def _run(self) -> int:
        """Return the run that contains the changes to older memories, which can be undone."""
        if self._run_id is None:
            self._run_id = add_run(self._tx, "extract")
        return self._run_id

    def _rests_on_barred(self, candidate: Candidate) -> bool:
        """Return True if a memory that rests on one of the entries was forgotten, possibly while the extractor ran."""
        turns = (self._turns[key].turn for key in candidate.turn_keys if key in self._turns)
        queued = [turn.key for turn in turns if turn.opening is Opening.QUEUED]
        return bool(barred_entries(self._tx, [*candidate.evidence, *queued]))

    def stored(self, kept: Kept, place: int) -> Memory | None:
        """Return the memory of the candidate at an index; None if it was left out."""
        slot = kept.slots.get(place)
        return None if slot is None else memory_by_slot(self._tx, slot)

    def _keep_one(self, place: int, candidate: Candidate, slot: str, kept: Kept) -> None:
        evidence = self.evidence(candidate)
        known = memory_by_slot(self._tx, slot)
        if known is None:
            made = self._memory(candidate, slot)
            if any(is_said_again(made, memory) for memory in self._judged):
                kept.refused.append(Refusal.JUDGED)
                return
            if self._is_hour_full(made.created_at_ms):
                kept.refused.append(Refusal.FULL)
                return
            run_id = self._run_id if self._is_in_run else None
            made = add_memory(self._tx, made, evidence, action="extract", actor=Actor.MODEL, run_id=run_id)
            kept.row_ids[place] = made.id
            kept.new += 1
        else:
            history = history_of(self._tx, known.episode_id)
            if _is_settled(known) or any(_is_decision(change) for change in history):
                return
            # Keep evidence from other sessions.
            evidence += [e for e in evidence_of(self._tx, known.id) if e.session_id != self._session.session_id]
            changes = self._changes(known, candidate, history)
            reason = DISTILLED_AGAIN if self._is_in_run else WENT_ON
            if changes or evidence_of(self._tx, known.id) != evidence:
                made = change_memory(
                    self._tx, known, "extract", reason, run_id=self._run(), **changes, actor=Actor.MODEL
                )
                kept.row_ids[place] = made.id
                self.lines.append(f"change {known.episode_id} ({reason})")
                replace_evidence(self._tx, known, evidence, reason, run_id=self._run(), actor=Actor.MODEL)
                kept.updated += 1
        if place in kept.row_ids:
            mark_unjoined(self._tx, kept.row_ids[place])

    def _memory(self, candidate: Candidate, slot: str) -> Memory:
        at_ms = self._at_ms(candidate)
        return Memory(
            episode_id=new_memory_id(),
            slot=slot,
            session_id=self._session.session_id,
            project_id=self._session.own_project_id,
            source=Source.AUTO,
            extractor=candidate.extractor or self._extractor,
            created_at_ms=at_ms,
            valid_from_ms=at_ms,
            **_fields(candidate),
        )

    def _changes(self, known: Memory, candidate: Candidate, history: Sequence[Change]) -> dict[str, Any]:
        wanted = _fields(candidate)
        if self._is_in_run:
            wanted["extractor"] = candidate.extractor or self._extractor
        if known.status == Status.ACTIVE:
            # The memory has been confirmed. If the turn has grown, the confirmation is checked again.
            came_back = any(change.action == "confirm" and "came back" in change.reason for change in history)
            if self._has_grown(candidate) and not came_back:
                wanted["confirmations"] = 0
            else:
                del wanted["status"], wanted["confidence"]
        return differing(known, wanted)

    def _has_grown(self, candidate: Candidate) -> bool:
        turn = self._turns.get(candidate.turn_keys[0])
        return turn is not None and turn.is_due

    def _archive_others(self, slots: set[str]) -> int:
        """Archive the turns' automatic memories that were not proposed again; return their number.

        A turn that is extracted for the first time may have memories from before a restore, when it was shorter.
        """
        count = 0
        turns = {turn.id: turn for turn in self._turns.values()}
        places = {row_id: place for place, row_id in enumerate(turns)}
        found = []
        for memory in memories_of_turns(self._tx, list(turns)):
            if memory.slot is None or memory.slot in slots or not memory.is_current:
                continue
            lead = self._lead_turn(memory)
            if lead in turns:
                found.append((places[lead], memory, turns[lead]))
        for _, memory, turn in sorted(found, key=itemgetter(0)):
            if ("archive", memory.episode_id) in undone(self._tx):
                continue
            history = history_of(self._tx, memory.episode_id)
            is_decided = _is_settled(memory) or any(_is_decision(change) for change in history)
            is_of_extraction = turn.extracted_revision or any(change.action == RETURN for change in history)
            if is_decided or not is_of_extraction:
                continue
            if barred_entries(self._tx, sources_of(self._tx, memory)):
                continue  # the extractor can't propose it again, because it is no longer given all of its evidence
            reason = WENT_ON if turn.is_due else NOT_CHOSEN
            change_memory(
                self._tx, memory, "archive", reason, run_id=self._run(), status=Status.ARCHIVED, actor=Actor.MODEL
            )
            self.lines.append(f"archive {memory.episode_id} ({reason})")
            count += 1
        return count

    def _follow_rewinds(self, turns: Sequence[StoredTurn]) -> int:
        """End memories from prompts that the user rewound, and restore those from prompts that the user continued from.

        Return how many memories ended.
        """
        behind = list(filter(None, (stored.turn.behind for stored in turns)))
        if len(set(behind)) == len(behind):
            return 0
        standing = {turn.key for turn in standing_turns([stored.turn for stored in turns])}
        ended = 0
        for stored in turns:
            is_gone = stored.turn.key not in standing
            for memory in memories_of_turns(self._tx, [stored.id]):
                is_users = memory.voice in (Voice.USER, Voice.CHOSEN) and self._lead_turn(memory) == stored.id
                if is_users and (memory.is_current if is_gone else memory.status is Status.ARCHIVED):
                    ended += self._end_rewound(memory) if is_gone else self._restore_rewound(memory)
        return ended

    def _end_rewound(self, memory: Memory) -> int:
        history = history_of(self._tx, memory.episode_id)
        is_kept = _is_settled(memory) or ("archive", memory.episode_id) in undone(self._tx)
        if is_kept or any(_is_decision(change) for change in history):
            return 0
        run_id = self._run()
        change_memory(self._tx, memory, "archive", REWOUND, run_id=run_id, status=Status.ARCHIVED, actor=Actor.MODEL)
        self.lines.append(f"archive {memory.episode_id} ({REWOUND})")
        return 1

    def _restore_rewound(self, memory: Memory) -> int:
        """Restore a memory if its last change ended it together with its prompt; return 0, because nothing ended."""
        last = history_of(self._tx, memory.episode_id)[-1:]
        if last and (last[0].action, last[0].reason) == ("archive", REWOUND):
            status = Status(last[0].before["status"])
            change_memory(self._tx, memory, "extract", WENT_ON, run_id=self._run(), status=status, actor=Actor.MODEL)
            self.lines.append(f"change {memory.episode_id} ({WENT_ON})")
        return 0

    def _lead_turn(self, memory: Memory) -> int | None:
        """Return the row id of the turn from which a memory was taken."""
        evidence = evidence_of(self._tx, memory.id)
        return evidence[0].turn_id if evidence else None

    def evidence(self, candidate: Candidate) -> list[Evidence]:
        """Return the entries on which a candidate rests."""
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
        # The beginning of a turn does not change when the turn grows.
        at_ms = times[0] if times else (turn.turn.started_at_ms or turn.turn.ended_at_ms if turn else None)
        return min(at_ms or self._session.last_at_ms, self._tx.now_ms())

    def _is_hour_full(self, at_ms: int) -> bool:
        """Return True if the hour of ``at_ms`` already has the maximum number of memories; if not, count one more."""
        hour = at_ms // _HOUR_MS
        if hour not in self._kept_in_hour:
            self._kept_in_hour[hour] = count_auto_memories(self._tx, hour * _HOUR_MS, (hour + 1) * _HOUR_MS)
        if self._kept_in_hour[hour] >= self._settings.hourly_memories:
            return True
        self._kept_in_hour[hour] += 1
        return False


def _is_settled(memory: Memory) -> bool:
    """Return True for a memory that no extractor may change."""
    return is_kept_by_hand(memory) or bool(memory.superseded_by)


def _is_decision(change: Change) -> bool:
    """Return True for a change made by hand or by consolidation, which an extraction must not overrule."""
    return change.is_by_hand or (change.action in _SETTLING_ACTIONS and change.reason not in WITHDRAWN)


#: Fields of a memory that come from its candidate.
_FIELDS = (
    *("kind", "summary", "content", "facts", "entities", "questions", "title", "importance", "scope", "voice"),
    *("confidence", "status", "suspect", "quality"),
)


def _fields(candidate: Candidate) -> dict[str, Any]:
    return {name: getattr(candidate, name) for name in _FIELDS}


# -- Apply an extraction's actions to existing memories. All changes are recorded in one run, which can be undone.


@dataclass(slots=True)
class Applied:
    """The result of applying actions."""

    #: A line for each change, as shown by ``engram consolidate --list``.
    lines: list[str] = field(default_factory=list)
    #: Number of memories that changed.
    changed: int = 0
    #: Number of contradictions that were recorded for a person to decide.
    contradictions: int = 0
    #: Number of memories that should have ended, but are still current.
    staying: int = 0


def apply_actions(
    tx: Tx,
    candidates: Sequence[Candidate],
    stored: Callable[[int], Memory | None],
    evidence: Callable[[Candidate], Sequence[Evidence]],
    project_id: int | None,
) -> Applied:
    """Apply the candidates' actions to existing memories.

    ``ending_of`` decides whether a memory may end. In addition, memories never change if they belong to another
    project, were said later than the candidate, or were restored by a person. A suspect candidate never changes a
    memory.

    Args:
        candidates: a session's proposals, including those without a target.
        stored: returns the memory created from the candidate at an index; None if it was left out.
    """
    applied = Applied()
    if not any(candidate.target for candidate in candidates):
        return applied
    run_id = add_run(tx, "extract")
    put_back = undone(tx)
    for place, candidate in enumerate(candidates):
        older = find_memory(tx, candidate.target) if candidate.target else None
        if older is None or candidate.suspect or not _is_reachable(older, candidate, project_id):
            continue
        if candidate.action == "same":
            _confirm(tx, older, candidate, evidence(candidate), run_id, applied)
        elif candidate.action in ENDING_ACTIONS:
            newer = None if candidate.action == "retracts" else stored(place)
            changed = applied.changed
            if candidate.action == "retracts" or (newer is not None and newer.id != older.id):
                _end(tx, older, newer, candidate, put_back, run_id, applied)
            applied.staying += applied.changed == changed
    close_run(tx, run_id, applied.lines)
    return applied


def refusals(proposed: Iterable[Refusal], kept: Kept, applied: Applied) -> list[Refusal]:
    """Return a reason for each proposal in an answer that was not kept or did not end its target."""
    return [*proposed, *kept.refused, *[Refusal.TARGET_STAYS] * applied.staying]


def _is_reachable(older: Memory, candidate: Candidate, project_id: int | None) -> bool:
    is_visible = older.project_id == project_id or (older.scope == Scope.GLOBAL and candidate.rests_on_user)
    return older.is_current and is_visible


def _confirm(
    tx: Tx,
    older: Memory,
    candidate: Candidate,
    evidence: Sequence[Evidence],
    run_id: int,
    applied: Applied,
) -> None:
    """Add evidence to a memory that was said again; if this was in another session, also confirm it.

    A memory that was judged wrong gets neither evidence nor confirmation.
    """
    if is_kept_by_hand(older) or older.is_lowered:
        return
    # A program may send the same prompt repeatedly.
    is_programs = Voice.PROGRAM in (older.voice, candidate.voice)
    is_elsewhere = any(entry.session_id != older.session_id for entry in evidence)
    has_grown = add_evidence(tx, older, evidence, "said again", run_id=run_id, actor=Actor.MODEL)
    if has_grown and is_elsewhere and not is_programs:
        change_memory(
            tx,
            older,
            "confirm",
            "said again in another session",
            run_id=run_id,
            confirmations=older.confirmations + 1,
            status=Status.ACTIVE,
            importance=Importance.HIGH if candidate.importance == Importance.HIGH else older.importance,
            actor=Actor.MODEL,
        )
    if has_grown:
        applied.changed += 1
        applied.lines.append(f"confirm {older.episode_id} (said again)")


def _end(
    tx: Tx,
    older: Memory,
    newer: Memory | None,
    candidate: Candidate,
    put_back: frozenset[tuple[str, str]],
    run_id: int,
    applied: Applied,
) -> None:
    """Archive or supersede a memory, unless a person must decide or has decided."""
    since = newer.holds_from_ms if newer is not None else candidate.said_at_ms
    if since < older.holds_from_ms:
        return
    ending = ending_of(older, newer, Actor.MODEL, is_users_word=candidate.rests_on_user)
    if ending is not Ending.ENDS:
        if newer is not None and ending is Ending.CONTRADICTION:
            applied.contradictions += bool(note_contradiction(tx, older.episode_id, newer.episode_id, _why(candidate)))
        return
    action = "archive" if newer is None else "supersede"
    if (action, older.episode_id) in put_back:
        return
    if newer is None:
        why, until = _why(candidate), since or None
        change_memory(
            tx, older, action, why, run_id=run_id, status=Status.ARCHIVED, valid_to_ms=until, actor=Actor.MODEL
        )
    else:
        why = f"{newer.episode_id} {ENDING_REASONS[candidate.action]}"
        supersede(tx, older, newer, why, actor=Actor.MODEL, run_id=run_id)
    applied.changed += 1
    by = "" if newer is None else f" by {newer.episode_id}"
    applied.lines.append(f"{action} {older.episode_id}{by} ({ENDING_REASONS[candidate.action]})")


def _why(candidate: Candidate) -> str:
    return f"{ENDING_REASONS[candidate.action]}: {candidate.summary}"
