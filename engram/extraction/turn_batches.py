"""Select what an extraction reads: a batch of a session's turns, and their context of older memories and rules."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from engram.enums import Scope, Source, Voice
from engram.errors import Conflict
from engram.extraction.candidate import MAX_NEAR_MEMORIES, ExtractionContext, NearMemory
from engram.extraction.rule_endings import meant_by, takings_back
from engram.extraction.user_rules import is_same_order, orders, typed_texts
from engram.models.engine.transaction import Reader, Store, Tx
from engram.models.memories.judgements import JudgedMemory, is_kept_by_hand, judged_memories
from engram.models.memories.memory_records import Memory, evidence_by_row, memories_of_ids, memories_of_session
from engram.models.memories.tombstones import barred_entries
from engram.models.projects.projects import ProjectRow, project_by_id
from engram.models.search.fulltext import search_passages
from engram.models.search.memory_lists import current_memories, ended_rules
from engram.models.sessions.recent_work import user_texts_elsewhere
from engram.models.sessions.sessions import SessionRow, find_session
from engram.models.sessions.stored_turns import StoredTurn
from engram.settings import Settings
from engram.text.words import content_words, prefixes
from engram.transcripts.registry import has_answers
from engram.transcripts.turns import Turn, without_entries
from engram.trust.display import one_line
from engram.trust.voice import typed_text

#: Maximum number of due turns that an extractor is given at once, unless it is repeatable.
BATCH_TURNS = 60


def within_project(session: SessionRow, turns: Sequence[StoredTurn]) -> tuple[SessionRow, list[StoredTurn]]:
    """Return the session as seen from the project of the first due turn, and the turns in that project.

    A session may work in several projects, and words said in one project never become part of another's memories.
    """
    due = (turn for turn in turns if turn.is_due)
    first = next(due, None) or next(iter(turns), None)
    if first is None or first.project_id == session.project_id:
        return session, [turn for turn in turns if turn.project_id == session.project_id]
    there = replace(session, project_id=first.project_id, is_global=False, rolling_summary="")
    return there, [turn for turn in turns if turn.project_id == first.project_id]


def is_at_home(store: Reader, session: SessionRow) -> bool:
    """Return True for a session as seen from its own project, which is the only one where it has a summary."""
    stored = find_session(store, session.session_id)
    return stored is not None and stored.project_id == session.project_id


# -- Build an extractor's context: the session's existing memories, and memories that are close to the turns.

#: Maximum number of memories ended by a judgement that are shown to an extractor.
MAX_JUDGED_MEMORIES = 6
#: Maximum length at which a judgement's reason is shown, in characters.
MAX_WHY_CHARACTERS = 160

#: Number of an order's longest words to search for in other sessions, and the maximum number of passages to search.
MAX_SEARCHED_WORDS, MAX_SEARCHED_PASSAGES = 3, 50


@dataclass(frozen=True, slots=True)
class ContextBuilder:
    """Builds a session's extraction contexts."""

    store: Store
    settings: Settings
    session: SessionRow
    #: Memories from other sessions that may be shown; None for the current ones. A snapshot makes the requests of
    #: several sessions independent of each other's answers.
    near_memories: Sequence[Memory] | None = None

    def build(self, turns: Sequence[StoredTurn]) -> ExtractionContext:
        """Return the context for the given turns: the session's other memories, and close ones from other sessions."""
        others = self._memories_of_other_turns(turns)
        current = [memory for memory in others if memory.is_current]
        judged = self._judged()
        near = self._nearest(turns, judged, current)
        return replace(
            self._without_memories(),
            known=tuple(memory.summary for memory in current),
            known_of_user=_users(current),
            kept_before=sum(memory.source == Source.AUTO for memory in others),
            rolling_summary=self.session.rolling_summary,
            own=tuple(_near_memory(memory, judged) for memory in current),
            near=tuple(_near_memory(memory, judged) for memory in near),
        )

    def build_repeatable(self, turns: Sequence[StoredTurn], readable: Sequence[Turn]) -> ExtractionContext:
        """Return a context that doesn't depend on when the session is extracted, with the memories saved by hand.

        If the turns withdraw something, ``near`` contains the user's rules from other sessions, including ended ones.
        It contains no other memories, because comparing a whole session with all of its project's memories is slow.
        """
        saved = [memory for memory in self._memories() if memory.source == Source.MANUAL and memory.is_current]
        near: list[Memory] = []
        if any(takings_back(typed) for turn in turns for typed in typed_texts(turn.turn)):
            memories = (*self._memories_of_project(), *ended_rules(self.store, self.session.project_id))
            near = [memory for memory in self._of_others(memories) if memory.is_users_rule]
        return replace(
            self._without_memories(),
            known=tuple(memory.summary for memory in saved),
            known_of_user=_users(saved),
            near=tuple(_near_memory(memory, {}) for memory in near),
            said_before=self._said_before(readable),
        )

    def _without_memories(self) -> ExtractionContext:
        session = self.session
        project = project_by_id(self.store, session.project_id) if session.project_id else None
        return ExtractionContext(
            project=_folder_name(project) if project else "",
            is_global=session.is_global,
            session_cap=self.settings.session_memories,
            project_id=session.project_id,
        )

    def _judged(self) -> dict[int, JudgedMemory]:
        return {memory.memory.id: memory for memory in judged_memories(self.store, self.session.project_id)}

    def readable(self, turns: Sequence[StoredTurn]) -> list[Turn]:
        """Return the turns that an extractor may read, without forgotten memories or prompts that have no answers."""
        turns = [turn for turn in turns if has_answers(turn.turn.agent)]
        entries = {entry.uuid for turn in turns for entry in turn.turn.entries}
        barred = barred_entries(self.store, entries | {turn.turn.key for turn in turns})
        readable = [without_entries(turn.turn, barred) for turn in turns]
        return [turn for turn in readable if turn.said or turn.actions or not barred]

    def _said_before(self, turns: Sequence[Turn]) -> frozenset[str]:
        """Return the orders in these turns that the user also gave in another session of the project."""
        given = {order for turn in turns for text in typed_texts(turn) for order in orders(text)}
        # Prompts in a copy of the session have the same times as the originals.
        times = {said.at_ms for turn in turns for said in turn.users_texts if said.at_ms}
        return frozenset(order for order in given if self._is_said_elsewhere(order, times))

    def _is_said_elsewhere(self, order: str, but_at_ms: Collection[int]) -> bool:
        words = tuple(sorted(content_words(order), key=len)[-MAX_SEARCHED_WORDS:])
        if self.session.own_project_id is None or not words:
            return False
        hits = search_passages(self.store, [words], MAX_SEARCHED_PASSAGES, project_id=self.session.own_project_id)
        texts = user_texts_elsewhere(self.store, [row_id for row_id, _ in hits], self.session.id, but_at_ms)
        return any(is_same_order(order, other) for text in texts for other in orders(typed_text(text)))

    def _nearest(
        self, turns: Sequence[StoredTurn], judged: Mapping[int, JudgedMemory], own: Sequence[Memory]
    ) -> list[Memory]:
        """Return project and global memories that are close to the turns, starting with those ended by a judgement.

        Memories that one of the user's sentences withdraws come next.

        Args:
            judged: row id → memory that was judged wrong or outdated, including those of this session.
            own: the session's memories, which are shown anyway.
        """
        others = self._of_others(self._memories_of_project())
        texts = [turn.turn for turn in turns]
        takings = [taking for turn in texts for typed in typed_texts(turn) for taking in takings_back(typed)]
        # A sentence that withdraws a rule may share only one of many words with it, and so may not be close to it.
        rules = [memory for memory in others if memory.is_users_rule]
        meant = [memory for taking in takings for memory in meant_by(taking, rules)]
        listed = {memory.id for memory in (*others, *own)}
        ended = [m.memory for row_id, m in judged.items() if row_id not in listed and not m.memory.suspect]
        near = {memory.id: memory for memory in (*meant, *nearest(others, texts))}
        return [*nearest(ended, texts, MAX_JUDGED_MEMORIES), *near.values()]

    def _of_others(self, memories: Iterable[Memory]) -> list[Memory]:
        """Return the memories from other sessions that may be shown; none to a session outside any project."""
        if self.session.project_id is None and not self.session.is_global:
            return []
        return [
            memory
            for memory in memories
            if memory.session_id != self.session.session_id and not memory.suspect and not memory.origin
        ]

    def _memories_of_project(self) -> Sequence[Memory]:
        if self.near_memories is not None:
            return self.near_memories
        return current_memories(self.store, self.session.project_id)

    def _memories(self) -> list[Memory]:
        """Return the session's memories that its project may see; the session may also have worked elsewhere."""
        return [
            memory
            for memory in memories_of_session(self.store, self.session.session_id)
            if memory.scope == Scope.GLOBAL or memory.project_id == self.session.own_project_id
        ]

    def _memories_of_other_turns(self, turns: Sequence[StoredTurn]) -> list[Memory]:
        """Return the session's memories that do not rest on any of these turns."""
        ids = {turn.id for turn in turns}
        memories = self._memories()
        evidence = evidence_by_row(self.store, [memory.id for memory in memories])
        return [memory for memory in memories if not any(e.turn_id in ids for e in evidence.get(memory.id, ()))]


def check_unforgotten(tx: Tx, session_id: str, context: ExtractionContext) -> None:
    """Check that everything in a context still exists.

    Raises:
        Conflict: something in the context has been forgotten in the meantime.
    """
    session = find_session(tx, session_id)
    if context.rolling_summary and (session is None or session.rolling_summary != context.rolling_summary):
        raise Conflict(f"the summary of session {session_id} was erased or replaced in the meantime")
    shown = {memory.reference for memory in (*context.own, *context.near) if memory.reference}
    if gone := shown - memories_of_ids(tx, sorted(shown)).keys():
        raise Conflict(f"memory {min(gone)} was forgotten in the meantime")


def _folder_name(project: ProjectRow) -> str:
    """Return the name of a project's folder; the display name may contain a number that depends on the database."""
    return re.split(r"[\\/]", project.root.rstrip("\\/"))[-1] or project.name


def _near_memory(memory: Memory, judged: Mapping[int, JudgedMemory]) -> NearMemory:
    verdict = judged.get(memory.id)
    return NearMemory(
        summary=memory.summary,
        reference=memory.episode_id,
        kind=memory.kind,
        state="in force" if verdict is None else _judged_state(verdict),
        at_ms=memory.holds_from_ms,
        until_ms=None if memory.is_current else memory.valid_to_ms,
        is_fixed=is_kept_by_hand(memory),
        is_users_rule=memory.is_users_rule,
    )


def _users(memories: Iterable[Memory]) -> tuple[str, ...]:
    """Return the summaries of the memories that are in the user's own words."""
    return tuple(memory.summary for memory in memories if memory.voice == Voice.USER)


def _judged_state(memory: JudgedMemory) -> str:
    why = f" ({one_line(memory.reason, MAX_WHY_CHARACTERS)})" if memory.reason else ""
    return f"judged {memory.judgement}{why}, not to be kept again"


# -- Select the existing memories that are close to some turns, by common words. Pure, and the same on every machine.
#
# Vectors are not used, because the same memories and turns must result in the same request, so that recorded answers
# still match.

#: Minimum share of a memory's words, weighted by rarity, that a single turn must contain.
MIN_SHARE = 0.2


def nearest(memories: Sequence[Memory], turns: Iterable[Turn], limit: int = MAX_NEAR_MEMORIES) -> list[Memory]:
    """Return the memories that are close to one of the turns, closest first."""
    words_of = [prefixes(content_words(" ".join((memory.summary, *memory.entities)))) for memory in memories]
    counts = Counter(word for words in words_of for word in words)
    weight = {word: math.log(1 + len(memories) / count) for word, count in counts.items()}
    turn_words = [_words(turn) for turn in turns]
    ranked = []
    for memory, words in zip(memories, words_of, strict=True):
        whole = sum(sorted(weight[word] for word in words))
        share = max((sum(sorted(weight[w] for w in words & said)) for said in turn_words), default=0.0) / (whole or 1)
        if share >= MIN_SHARE:
            ranked.append((-round(share, 2), -memory.created_at_ms, memory.summary, memory))
    return [memory for *_, memory in sorted(ranked, key=lambda row: row[:3])[:limit]]


def _words(turn: Turn) -> frozenset[str]:
    return prefixes(content_words("\n".join(said.text for said in turn.said)))
