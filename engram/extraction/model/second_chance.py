"""Give sessions that the local extractor read a second chance: a language model distills them again, part by part."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

from engram.enums import Actor, Source, Status, Voice
from engram.errors import BudgetReached, Conflict
from engram.extraction.candidate import Candidate, ExtractionContext
from engram.extraction.store_candidates import Keeper, apply_actions, refusals
from engram.extraction.turn_batches import ContextBuilder, check_unforgotten, is_at_home, within_project
from engram.models.engine.transaction import Reader, Store, Tx
from engram.models.memories.judgements import Ending, ending_of
from engram.models.memories.memory_changes import change_memory, merge_evidence
from engram.models.memories.memory_history import add_run, close_run, history_of
from engram.models.memories.memory_records import (
    Memory,
    evidence_of,
    find_memory,
    memories_of_session,
    memories_of_turns,
)
from engram.models.memories.watermarks import undone
from engram.models.sessions.sessions import DISTILLED_AGAIN, SessionRow, find_session, set_rolling_summary
from engram.models.sessions.stored_turns import (
    StoredTurn,
    check_unmoved,
    is_replaceable,
    note_model_reading,
    turns_of_session,
    unread_turns,
    waiting_sessions,
)
from engram.models.shown.usage import note_refused
from engram.models.work.task_runs import note_failure, note_success
from engram.settings import Settings
from engram.system.failpoint import reach
from engram.text.words import content_words, prefixes
from engram.transcripts.turns import Turn, without_rewound

if TYPE_CHECKING:
    from engram.extraction.model.model_extractor import ModelExtractor

# -- Replace the local extractor's memories with those that a language model made from the same turns.

#: Minimum share of a memory's words that its successor must contain, if both rest on a common entry, and if they don't.
MIN_SHARE, MIN_SHARE_ELSEWHERE = 0.25, 0.5


def replace_memories(tx: Tx, older: Iterable[Memory], newer: Sequence[Memory], model: str, run_id: int) -> list[str]:
    """Supersede each memory with the new one that says the same, which also gets its evidence; archive the others.

    Memories protected by ``ending_of`` stay current: those that the user said or chose end only if a new memory is in
    the user's own voice, and those that the user pinned or saved never end.

    Args:
        older: memories of the local extractor.
        newer: memories that the model made from the same turns.

    Returns:
        A line for each change.
    """
    lines = []
    made = {memory.id for memory in newer}
    for memory in older:
        if memory.id in made:
            continue
        successor = _successor(tx, memory, newer)
        if successor is not None:
            lines.append(_supersede(tx, memory, successor, model, run_id))
        elif ending_of(memory, None, Actor.MODEL) is Ending.ENDS:
            reason = f"{DISTILLED_AGAIN} by {model}, which did not keep it"
            change_memory(tx, memory, "archive", reason, run_id=run_id, status=Status.ARCHIVED, actor=Actor.MODEL)
            lines.append(f"archive {memory.episode_id} ({DISTILLED_AGAIN})")
    return lines


def _successor(tx: Tx, older: Memory, newer: Sequence[Memory]) -> Memory | None:
    """Return the new memory that says most of what an older one says; None if none says enough."""
    words = prefixes(content_words(older.summary))
    entries = {entry.uuid for entry in evidence_of(tx, older.id)}
    best, best_share = None, 0.0
    for memory in newer:
        if not memory.is_current or ending_of(older, memory, Actor.MODEL) is not Ending.ENDS:
            continue
        there = prefixes(content_words(f"{memory.summary}\n{memory.content}"))
        share = len(words & there) / max(1, len(words))
        is_common = any(entry.uuid in entries for entry in evidence_of(tx, memory.id) if entry.uuid)
        if share >= (MIN_SHARE if is_common else MIN_SHARE_ELSEWHERE) and share > best_share:
            best, best_share = memory, share
    return best


def _supersede(tx: Tx, older: Memory, successor: Memory, model: str, run_id: int) -> str:
    now = find_memory(tx, successor.episode_id) or successor
    merge_evidence(tx, now, older, run_id=run_id, actor=Actor.MODEL)
    if older.confirmations > now.confirmations:
        change_memory(
            tx,
            now,
            "confirm",
            f"{older.episode_id} was confirmed",
            run_id=run_id,
            confirmations=older.confirmations,
            status=Status.ACTIVE,
            actor=Actor.MODEL,
        )
    change_memory(
        tx,
        older,
        "supersede",
        f"{DISTILLED_AGAIN} by {model}: {successor.episode_id}",
        run_id=run_id,
        status=Status.SUPERSEDED,
        superseded_by=successor.episode_id,
        actor=Actor.MODEL,
    )
    return f"supersede {older.episode_id} by {successor.episode_id} ({DISTILLED_AGAIN})"


#: Maximum number of turns that are distilled in one transaction.
PART_TURNS = 20
#: Maximum number of times that a part is restarted because some of it has changed in the meantime.
MAX_TRIES = 3
#: Name of the stage under which status shows the second distillation.
STAGE = "second chance"


@dataclass(frozen=True, slots=True)
class DistilledPart:
    """The result of distilling a part of a session again."""

    session_id: str
    turns: int
    new: int
    #: Number of memories of the local extractor that were superseded or archived.
    replaced: int


@dataclass(frozen=True, slots=True)
class Part:
    """Turns of a session that no model has read yet, to be distilled in one transaction."""

    #: The session as seen from the project of the turns.
    session: SessionRow
    turns: Sequence[StoredTurn]
    #: The parts that a model may read.
    readable: Sequence[Turn]
    context: ExtractionContext


def waiting_turns(store: Reader, session: SessionRow) -> tuple[SessionRow, list[StoredTurn]]:
    """Return a session's next turns in one project that no model has read, and the session as seen from there."""
    unread = set(unread_turns(store, session.id))
    return within_project(session, [turn for turn in turns_of_session(store, session.id) if turn.id in unread])


def read_part(store: Store, settings: Settings, session: SessionRow, max_turns: int = PART_TURNS) -> Part:
    """Return the next part of a session.

    Raises:
        Conflict: no turn of the session is pending.
    """
    session, turns = waiting_turns(store, session)
    turns = turns[:max_turns]
    if not turns:
        raise Conflict("no turn of the session is pending any more")
    builder = ContextBuilder(store, settings, session)
    return Part(session, turns, without_rewound(builder.readable(turns)), _context(store, builder, session, turns))


@dataclass(frozen=True, slots=True)
class SecondChance:
    """Distills sessions again, one part per call. For one thread at a time."""

    store: Store
    settings: Settings
    extractor: ModelExtractor

    def distill_next(self) -> DistilledPart | None:
        """Distill the next part; return None if no session is pending. Each part is one transaction.

        Raises:
            BudgetReached: a cap has been reached; earlier work is kept.
            ExtractionError: the model is unavailable.
            Conflict: the session keeps changing; try again later.
            StoreError: the database cannot be read or written.
        """
        tries = 0
        while True:
            session_id = next(iter(waiting_sessions(self.store)), None)
            session = None if session_id is None else find_session(self.store, session_id)
            if session is None:
                return None
            try:
                part = self._distill(session)
            except Conflict:
                tries += 1
                if tries >= MAX_TRIES:
                    raise
            except BudgetReached as reached:
                note_failure(self.store, STAGE, f"paused: {reached}")
                raise
            else:
                note_success(self.store, STAGE, seen=part.turns, done=part.new)
                return part

    def _distill(self, session: SessionRow) -> DistilledPart:
        part = read_part(self.store, self.settings, session)
        candidates = self.extractor.propose_again(part.readable, part.context)
        reach("second_chance.proposed")
        return self.write(part, candidates)

    def write(self, part: Part, candidates: Sequence[Candidate]) -> DistilledPart:
        """Store the extractor's proposals for a part, replacing the local extractor's memories.

        Raises:
            Conflict: some of the part has changed in the meantime; nothing was written.
            StoreError: the database cannot be written.
        """
        session, turns = part.session, part.turns
        with self.store.transaction() as tx:
            check_unforgotten(tx, session.session_id, part.context)
            check_unmoved(tx, {turn.id: turn.revision for turn in turns})
            run_id = add_run(tx, "extract")
            older = self._replaceable(tx, turns)
            keeper = Keeper(tx, session, turns, self.extractor.name, self.settings, run_id=run_id)
            kept = keeper.keep(candidates)
            reach("second_chance.kept")
            stored = partial(keeper.stored, kept)
            applied = apply_actions(tx, candidates, stored, keeper.evidence, session.own_project_id)
            note_refused(tx, refusals(self.extractor.refused, kept, applied))
            read = [turn for turn in turns if turn.turn.key not in self.extractor.unread]
            read_ids = {turn.id for turn in read}
            newer = [memory for place in kept.slots if (memory := keeper.stored(kept, place)) is not None]
            lines = replace_memories(
                tx,
                [memory for memory, turn_id in older if turn_id in read_ids],
                newer,
                self.extractor.name,
                run_id,
            )
            close_run(tx, run_id, [*keeper.lines, *applied.lines, *lines])
            # Text that the model can't read is not sent again.
            note_model_reading(tx, turns, is_second=True)
            if self.extractor.rolling_summary != session.rolling_summary and is_at_home(tx, session):
                set_rolling_summary(tx, session.id, self.extractor.rolling_summary)
            reach("second_chance.replaced")
        reach("second_chance.committed")
        return DistilledPart(session.session_id, len(turns), kept.new, len(lines))

    def _replaceable(self, tx: Reader, turns: Sequence[StoredTurn]) -> list[tuple[Memory, int]]:
        """Return the memories to replace, each with the turn that it was taken from."""
        put_back = undone(tx)
        replaceable = []
        for turn in turns:
            for memory in memories_of_turns(tx, [turn.id]):
                evidence = evidence_of(tx, memory.id)
                is_undone = any((action, memory.episode_id) in put_back for action in ("supersede", "archive"))
                is_lead = bool(evidence) and evidence[0].turn_id == turn.id
                if is_lead and not is_undone and is_replaceable(memory, history_of(tx, memory.episode_id)):
                    replaceable.append((memory, turn.id))
        return replaceable


def _context(
    store: Store, builder: ContextBuilder, session: SessionRow, turns: Sequence[StoredTurn]
) -> ExtractionContext:
    """Return the context of turns, without the memories to be replaced."""
    context = builder.build(turns)
    memories = memories_of_session(store, session.session_id)
    waiting = {e.episode_id for e in memories if is_replaceable(e, history_of(store, e.episode_id))}
    own = tuple(memory for memory in context.own if memory.reference not in waiting)
    here = {turn.id for turn in turns}
    # Memories that a person kept from these turns are not proposed again.
    fixed = tuple(
        memory
        for memory in memories
        if memory.is_current
        and memory.episode_id not in waiting
        and any(entry.turn_id in here for entry in evidence_of(store, memory.id))
    )
    automatic = [e for e in memories if e.source == Source.AUTO and e.is_current and e.episode_id not in waiting]
    return replace(
        context,
        own=own,
        known=(*(memory.summary for memory in own), *(memory.summary for memory in fixed)),
        known_of_user=(
            *(memory.summary for memory in own if memory.is_users_rule),
            *(memory.summary for memory in fixed if memory.voice == Voice.USER),
        ),
        kept_before=len(automatic),
    )
