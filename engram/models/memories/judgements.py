"""Decide whether one memory may end another; contradictions, which the user decides; judgements on memories."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum, auto

from peewee import ColumnBase, fn

from engram.enums import Actor, Judgement, Source, Status, Voice
from engram.models import tables
from engram.models.engine.statement import RecordReader, is_same
from engram.models.engine.transaction import Reader, Tx
from engram.models.memories.memory_history import JUDGEMENT_ACTIONS, TAKE_BACK, Change, history_of
from engram.models.memories.memory_records import IS_GLOBAL, Memory, may_stand_for, select_memories
from engram.models.tables.memory_tables import IS_CURRENT

#: Voices of statements that the user made or chose.
USERS_VOICES = (Voice.USER, Voice.CHOSEN)
#: The decision to keep both memories.
BOTH = "both"
#: How the newer of two memories relates to the older one → why the older one is no longer valid.
ENDING_REASONS = {
    "supersedes": "says how it is now",
    "corrects": "corrects it",
    "resolves": "says how it was resolved",
    "retracts": "taken back",
}


class Ending(Enum):
    """Whether another memory, or a statement about a memory, may end it."""

    #: It ends.
    ENDS = auto()
    #: It remains current, and the user decides between it and the other one.
    CONTRADICTION = auto()
    #: It remains current, and there is nothing to decide.
    STAYS = auto()


def ending_of(
    older: Memory, newer: Memory | None, actor: Actor, *, is_users_word: bool | None = None, is_same_text: bool = False
) -> Ending:
    """Decide whether a memory may end. Every module that ends memories calls this pure function.

    Only a command of the user ends a pinned or saved memory, except that an agent may replace what an agent saved. What
    the user said or chose is also ended by what the user says or chooses later. A memory by another person ends only
    memories by the same author, and a suspect memory only suspect ones. A memory is replaced only by one that is
    visible wherever it is.

    Args:
        newer: the memory that would replace it; None if it would end without a successor.
        actor: who ends it; ``Actor.USER`` means that the user requested exactly this.
        is_users_word: whether the user's own words say that it ends; None to infer that from the voice of the newer
            memory.
        is_same_text: both memories have the same text, so the older one may end unless it has more authority.
    """
    if actor is Actor.USER:
        return Ending.ENDS
    if newer is not None:
        is_authors = newer.origin in ("", older.origin)
        if (newer.suspect and not older.suspect) or not is_authors or not may_stand_for(newer, older):
            return Ending.STAYS
        if is_same_text:
            has_less = (is_kept_by_hand(older) and not is_kept_by_hand(newer)) or (
                older.voice in USERS_VOICES and newer.voice not in USERS_VOICES
            )
            return Ending.STAYS if older.is_pinned or has_less else Ending.ENDS
        if is_users_word is None:
            is_users_word = newer.voice in USERS_VOICES
    is_agents = actor is Actor.AGENT and older.voice == Voice.AGENT and not older.is_pinned
    if is_kept_by_hand(older) and not is_agents:
        return Ending.CONTRADICTION
    return Ending.CONTRADICTION if older.voice in USERS_VOICES and not is_users_word else Ending.ENDS


def is_kept_by_hand(memory: Memory) -> bool:
    """Return True for a memory that was pinned or saved by hand.

    Neither extraction nor consolidation changes its text.
    """
    return memory.is_pinned or memory.source == Source.MANUAL


@dataclass(frozen=True, slots=True)
class Contradiction:
    older_id: str
    newer_id: str
    #: Why the two memories can't both be true.
    reason: str
    made_at_ms: int
    #: The id of the memory that was kept, or ``BOTH``; "" while undecided.
    decision: str = ""
    decided_at_ms: int | None = None
    #: Its number; 0 if it came from a file.
    id: int = 0


CONTRADICTIONS = RecordReader(Contradiction, tables.Contradiction, left_out=("run_id",))


def note_contradiction(tx: Tx, older_id: str, newer_id: str, reason: str) -> int:
    """Record that two memories contradict each other; return the contradiction's number, or 0 if it is known."""
    table = tables.Contradiction
    pair = [older_id, newer_id]
    known = table.select(table.id).where(table.older_id.in_(pair) & table.newer_id.in_(pair))
    if tx.fetch_first(known) is not None:
        return 0
    return tx.insert(table.insert(older_id=older_id, newer_id=newer_id, reason=reason, made_at_ms=tx.now_ms()))


def open_contradictions(store: Reader, episode_id: str | None = None, number: int | None = None) -> list[Contradiction]:
    """Return the undecided contradictions, oldest first: all of them, those of one memory, or the one with a number."""
    table = tables.Contradiction
    query = CONTRADICTIONS.select().where(
        (table.decision == "") & _is_current(table.older_id) & _is_current(table.newer_id)
    )
    if episode_id is not None:
        query = query.where((table.older_id == episode_id) | (table.newer_id == episode_id))
    if number is not None:
        query = query.where(table.id == number)
    return store.fetch_records(CONTRADICTIONS, query.order_by(table.id))


def _is_current(episode_id: ColumnBase) -> ColumnBase:
    """Return the condition that a memory exists and is current. Otherwise, there is nothing to decide."""
    memory = tables.Memory
    return fn.EXISTS(memory.select(1).where((memory.episode_id == episode_id) & IS_CURRENT))


def note_decision(tx: Tx, number: int, decision: str, run_id: int) -> None:
    """Record how a contradiction was decided: "both", or the id of the memory that was kept."""
    table = tables.Contradiction
    changes = table.update(decision=decision, decided_at_ms=tx.now_ms(), run_id=run_id)
    tx.run(changes.where(table.id == number))


def reopen_contradictions(tx: Tx, run_id: int) -> None:
    """Reopen the contradictions that were decided in a run that is being undone."""
    table = tables.Contradiction
    tx.run(table.update(decision="", decided_at_ms=None).where(table.run_id == run_id))


def decide_again(tx: Tx, run_id: int, replaced: Mapping[str, str]) -> None:
    """Restore the decisions of a run when its undo is undone.

    Args:
        replaced: id of each memory that the run replaced → id of its replacement.
    """
    table = tables.Contradiction
    opened = CONTRADICTIONS.select().where((table.run_id == run_id) & (table.decision == ""))
    for one in tx.fetch_records(CONTRADICTIONS, opened):
        decision = replaced.get(one.older_id) or replaced.get(one.newer_id) or BOTH
        note_decision(tx, one.id, decision, run_id)


# -- Judgements on memories: which of them stand, and which memories have been judged wrong or outdated.

#: Action of the history → judgement.
JUDGEMENTS = {action: judgement for judgement, action in JUDGEMENT_ACTIONS.items()}


@dataclass(frozen=True, slots=True)
class JudgedMemory:
    memory: Memory
    judgement: Judgement
    #: "" if unknown.
    reason: str = ""
    #: In milliseconds since 1970; 0 if unknown.
    at_ms: int = 0


def standing_judgements(history: Sequence[Change]) -> list[Change]:
    """Return the judgements in a memory's history that have not been withdrawn; only the last one counts."""
    standing: list[Change] = []
    for change in history:
        if change.action in JUDGEMENTS:
            standing.append(change)
        elif change.action == TAKE_BACK and standing:
            standing.pop()
    return standing


def judgement_of(change: Change) -> Judgement:
    """Return the judgement that a step of a history records."""
    return JUDGEMENTS[change.action]


def judged_memories(store: Reader, project_id: int | None) -> list[JudgedMemory]:
    """Return a project's memories and global ones that were judged wrong or outdated, oldest first."""
    return _judged(store, is_same(tables.Memory.project, project_id) | IS_GLOBAL)


def judged_of_session(store: Reader, row_id: int) -> list[JudgedMemory]:
    """Return the memories from a session that were judged wrong or outdated, oldest first."""
    return _judged(store, tables.Memory.session == row_id)


def _judged(store: Reader, condition: ColumnBase) -> list[JudgedMemory]:
    memory, history = tables.Memory, tables.History
    outdated = history.select(history.episode_id).where(
        (history.episode_id == memory.episode_id) & (history.action == JUDGEMENT_ACTIONS[Judgement.OUTDATED])
    )
    is_ended = (memory.status == Status.ARCHIVED.value) & memory.episode_id.in_(outdated)
    may_be_judged = (memory.is_lowered == 1) | is_ended
    judged = []
    for one in select_memories(store, condition & may_be_judged, memory.created_at_ms):
        standing = standing_judgements(history_of(store, one.episode_id))
        if standing and judgement_of(standing[-1]) is not Judgement.HELPFUL:
            last = standing[-1]
            judged.append(JudgedMemory(one, judgement_of(last), last.reason, last.at_ms))
        elif one.is_lowered:
            judged.append(JudgedMemory(one, Judgement.WRONG))
    return judged
