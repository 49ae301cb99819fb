"""What speaks for or against a memory: whether another may end it, contradictions, judgements, and how it was used."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Any

from peewee import ColumnBase, Query, fn

from engram.enums import Actor, Judgement, Source, Status, Voice
from engram.models import tables
from engram.models.engine.statement import RecordReader, in_json_list, is_same, prepared
from engram.models.engine.transaction import Reader, Tx
from engram.models.memories.memory_history import JUDGEMENT_ACTIONS, TAKE_BACK, Change, history_of
from engram.models.memories.memory_records import IS_GLOBAL, Memory, may_stand_for, select_memories
from engram.models.shown.injections import AT_START
from engram.models.tables.memory_tables import IS_CURRENT
from engram.system.lazy_regex import lazy_regex

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
    older: Memory,
    newer: Memory | None,
    actor: Actor,
    *,
    is_users_word: bool | None = None,
    is_same_text: bool = False,
    is_inferred: bool = False,
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
        is_inferred: nobody said that the older one is over; it only can't be followed together with the newer one, so
            the user decides.
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
    if is_inferred:
        return Ending.CONTRADICTION
    is_agents = actor is Actor.AGENT and older.voice == Voice.AGENT and not older.is_pinned
    if is_kept_by_hand(older) and not is_agents:
        return Ending.CONTRADICTION
    return Ending.CONTRADICTION if older.voice in USERS_VOICES and not is_users_word else Ending.ENDS


def is_kept_by_hand(memory: Memory) -> bool:
    """Return True for a memory that was pinned or saved by hand.

    Neither extraction nor consolidation changes its text.
    """
    return memory.is_pinned or memory.source == Source.MANUAL


def is_settled_by_hand(store: Reader, memory: Memory) -> bool:
    """Return True for a memory that was kept by hand, or that a person or an agent has ever changed or judged."""
    return is_kept_by_hand(memory) or any(step.is_by_hand for step in history_of(store, memory.episode_id))


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
    if is_noted(tx, [older_id, newer_id]):
        return 0
    return tx.insert(table.insert(older_id=older_id, newer_id=newer_id, reason=reason, made_at_ms=tx.now_ms()))


def is_noted(store: Reader, pair: Sequence[str]) -> bool:
    """Return True if a contradiction of two memories is known, whichever of them is the older one."""
    table = tables.Contradiction
    return store.has_any(table.select(table.id).where(table.older_id.in_(pair) & table.newer_id.in_(pair)))


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
    for contradiction in tx.fetch_records(CONTRADICTIONS, opened):
        decision = replaced.get(contradiction.older_id) or replaced.get(contradiction.newer_id) or BOTH
        note_decision(tx, contradiction.id, decision, run_id)


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
    for found in select_memories(store, condition & may_be_judged, memory.created_at_ms):
        standing = standing_judgements(history_of(store, found.episode_id))
        if standing and judgement_of(standing[-1]) is not Judgement.HELPFUL:
            last = standing[-1]
            judged.append(JudgedMemory(found, judgement_of(last), last.reason, last.at_ms))
        elif found.is_lowered:
            judged.append(JudgedMemory(found, Judgement.WRONG))
    return judged


# -- How useful memories have proved: in how many sessions each was shown and used, and how it was judged.
#
# A session uses a memory if the memory was shown in it and the agent then expands it (memory_expand) or mentions its id
# in a reply. Nothing else counts: not a recall, not an expansion by a person, and not an expansion in a session in
# which the memory was not shown.

#: A memory sinks once it has been shown in this many sessions without being used in any of them.
MIN_UNUSED_SESSIONS = 5
#: Share of its relevance that a memory loses for each session from that number on, and the maximum.
SINK_STEP, MAX_SINK = 0.03, 0.15
#: Share of its relevance that a memory gains if it was judged helpful.
HELPFUL_LIFT = 0.1
#: Actions after which the sessions are counted from zero, because the memory was reviewed or its text changed.
_RESETTING_ACTIONS = ("edit", "pin", "unpin", "recover", "merge", "extract", "rewritten", TAKE_BACK)
_ID = lazy_regex(r"\b(?:ep_[0-9a-f]{12}|q_[0-9a-f]{13,18})\b")


@dataclass(frozen=True, slots=True)
class Usefulness:
    """The uses of a memory, counted in sessions, and the current judgement on it."""

    #: Sessions in which it was shown as a bite. Briefings don't count.
    shown: int = 0
    #: Sessions that used it.
    used: int = 0
    #: Sessions in which it was shown as a bite but not used, since it was last used, judged or changed.
    unused: int = 0
    judgement: Judgement | None = None
    #: Sessions in which it was shown in any way, including briefings.
    sessions: int = field(default=0, compare=False)

    @property
    def sink(self) -> float:
        """The share of its relevance that the memory loses for lack of use, from 0 to ``MAX_SINK``."""
        if self.judgement is Judgement.HELPFUL or self.unused < MIN_UNUSED_SESSIONS:
            return 0.0
        return min(SINK_STEP * (self.unused - MIN_UNUSED_SESSIONS + 1), MAX_SINK)

    @property
    def factor(self) -> float:
        """The factor for the memory's relevance; 1 for most memories."""
        return 1 + HELPFUL_LIFT if self.judgement is Judgement.HELPFUL else 1 - self.sink


def usefulness_of(store: Reader, episode_ids: Collection[str]) -> dict[str, Usefulness]:
    """Return id → usefulness, for the memories that have ever been shown or judged."""
    if not episode_ids:
        return {}
    judgements, reset_ms = _read_history(store, episode_ids)
    showings: dict[str, list[tuple[bool, int, int | None]]] = defaultdict(list)
    for row in store.fetch(_showings(episode_ids)):
        showings[row.episode_id].append((bool(row.is_bite), row.shown_at_ms, row.used_at_ms))
    return {
        episode_id: _count(showings.get(episode_id, ()), reset_ms.get(episode_id, 0), judgements.get(episode_id))
        for episode_id in {*showings, *judgements}
    }


def _count(rows: Iterable[tuple[bool, int, int | None]], reset_ms: int, judgement: Judgement | None) -> Usefulness:
    sessions = list(rows)
    since_ms = max([reset_ms, *(used_at_ms for *_, used_at_ms in sessions if used_at_ms)])
    return Usefulness(
        shown=sum(is_bite for is_bite, *_ in sessions),
        used=sum(used_at_ms is not None for *_, used_at_ms in sessions),
        unused=sum(is_bite and shown_at_ms > since_ms for is_bite, shown_at_ms, _ in sessions),
        judgement=judgement,
        sessions=len(sessions),
    )


def _read_history(store: Reader, episode_ids: Collection[str]) -> tuple[dict[str, Judgement], dict[str, int]]:
    """Return the current judgement on each memory, and when each memory was last changed or judged."""
    steps: dict[str, list[Any]] = defaultdict(list)
    for row in store.fetch(_steps(episode_ids)):
        steps[row.episode_id].append(row)
    standing = {episode_id: standing_judgements(rows) for episode_id, rows in steps.items()}
    judgements = {episode_id: judgement_of(kept[-1]) for episode_id, kept in standing.items() if kept}
    return judgements, {episode_id: max(row.at_ms for row in rows) for episode_id, rows in steps.items()}


@prepared
def _showings(episode_ids: Collection[str]) -> Query:
    injection = tables.Injection
    return (
        injection.select(
            injection.episode_id,
            fn.MAX(injection.channel != AT_START).alias("is_bite"),
            fn.MAX(injection.at_ms).alias("shown_at_ms"),
            fn.MAX(injection.used_at_ms).alias("used_at_ms"),
        )
        .where(in_json_list(injection.episode_id, episode_ids) & (injection.state == "shown"))
        .group_by(injection.episode_id, injection.session_id)
    )


@prepared
def _steps(episode_ids: Collection[str]) -> Query:
    history = tables.History
    actions = history.action.in_([*_RESETTING_ACTIONS, *JUDGEMENTS])
    query = history.select(history.episode_id, history.action, history.at_ms)
    return query.where(in_json_list(history.episode_id, episode_ids) & actions).order_by(history.id)


def used_ids(store: Reader) -> set[str]:
    """Return the ids of the memories that any session has used."""
    injection = tables.Injection
    return set(store.fetch_values(injection.select(injection.episode_id).where(injection.used_at_ms.is_null(False))))


def ids_in(text: str) -> list[str]:
    """Return the distinct ids of memories and quotations in a text."""
    return list(dict.fromkeys(_ID.findall(text))) if "ep_" in text or "q_" in text else []


def mark_used(tx: Tx, session_id: str, used_at_ms: Mapping[str, int]) -> int:
    """Record when a session used memories, given by id; return how many of them were marked as used.

    The latest showing before the use is marked, unless it is marked already. Memories not shown in the session are
    skipped.
    """
    injection, marked = tables.Injection, 0
    showing = injection.alias()
    for episode_id, at_ms in used_at_ms.items():
        of_session = (showing.session_id == session_id) & (showing.episode_id == episode_id)
        is_shown = (showing.state == "shown") & (showing.at_ms <= at_ms)
        latest = showing.select(fn.MAX(showing.id)).where(of_session & is_shown)
        is_new = (injection.id == latest) & injection.used_at_ms.is_null()
        marked += tx.run(injection.update(used_at_ms=at_ms).where(is_new))
    return marked
