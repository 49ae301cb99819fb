"""List the outcomes of a session's prompts, and the events at which a memory was considered."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from engram.enums import Channel, Verdict
from engram.errors import NotFound
from engram.extraction.user_rules import MIN_WORDS, Judgement, RuleRefusal, judge, typed_prompt, typed_texts
from engram.models.engine.meta import made_at_ms
from engram.models.engine.transaction import Store
from engram.models.memories.memory_records import find_memory, memories_of_session
from engram.models.sessions import prompt_outcomes
from engram.models.sessions.passage_rows import find_quotation, is_quotation_id
from engram.models.sessions.prompt_outcomes import SAME_MOMENT_MS, Outcome
from engram.models.sessions.sessions import SessionRow
from engram.models.sessions.stored_turns import StoredTurn, turns_of_session
from engram.recollection.prompts import digest_of, filter_prompt
from engram.reports.session_report import REASONS, SHOWN_VERDICTS, outcome_to_json
from engram.system.clock import iso_or_none
from engram.text.languages import word_count
from engram.transcripts.turns import Opening


@dataclass(frozen=True, slots=True)
class Moment:
    """A prompt with its outcome and those of its tool calls, or another event of a session."""

    at_ms: int
    #: The text of the prompt; "" for the start of a session, and if its transcript was not read.
    prompt: str
    outcomes: tuple[Outcome, ...]
    #: The verdict on the prompt itself, on any channel.
    verdict: Verdict
    #: Sentences in the prompt that sound like rules but were not kept, each with the reason.
    no_rules: tuple[Judgement, ...] = ()
    #: Row id of the prompt's turn; None if its transcript was not read, and for another event.
    turn_id: int | None = None

    def to_json(self, summaries: Mapping[str, str]) -> dict[str, Any]:
        return {
            "at": iso_or_none(self.at_ms),
            "prompt": self.prompt,
            "verdict": self.verdict,
            "why": REASONS[self.verdict],
            "outcomes": [outcome_to_json(outcome, summaries) for outcome in self.outcomes],
            "no_rules": [{"sentence": rule.sentence, "why": rule.refusal} for rule in self.no_rules],
        }


@dataclass(frozen=True, slots=True)
class SessionWhy:
    session_id: str
    moments: tuple[Moment, ...]
    #: Id of a memory → its summary.
    summaries: Mapping[str, str]

    def to_json(self) -> dict[str, Any]:
        return {"session": self.session_id, "moments": [moment.to_json(self.summaries) for moment in self.moments]}


@dataclass(frozen=True, slots=True)
class MemoryWhy:
    """The events at which a memory or a quotation was considered, latest first."""

    memory_id: str
    #: Summary of the memory, or the text of the quotation.
    summary: str
    outcomes: tuple[Outcome, ...]

    @property
    def shown(self) -> int:
        return sum(outcome.considered[0].verdict is Verdict.SHOWN for outcome in self.outcomes)

    def to_json(self) -> dict[str, Any]:
        summaries = {self.memory_id: self.summary}
        return {
            "memory": self.memory_id,
            "summary": self.summary,
            "shown": self.shown,
            "outcomes": [outcome_to_json(outcome, summaries) for outcome in self.outcomes],
        }


def why_session(store: Store, session_id: str, session: SessionRow | None) -> SessionWhy:
    """Return every prompt of a session with its outcome, in chronological order.

    Args:
        session: the stored session; None if only the outcomes of its prompts are stored.
    """
    recorded = prompt_outcomes.outcomes_of_session(store, session_id)
    turns = [] if session is None else turns_of_session(store, session.id)
    prompts = [stored for stored in turns if stored.turn.opening is not Opening.CONTINUATION]
    moments = _moments(prompts, recorded, _no_rules(store, session_id, turns), made_at_ms(store))
    ids = {candidate.episode_id for outcome in recorded for candidate in outcome.considered}
    return SessionWhy(session_id, tuple(moments), _summaries(store, ids))


def why_memory(store: Store, memory_id: str, limit: int | None = None) -> MemoryWhy:
    """Return when a memory or quotation was shown or nearly shown, and in the latter case, why it was not.

    Raises:
        NotFound: there is no such memory or quotation.
    """
    summaries = _summaries(store, [memory_id])
    if memory_id not in summaries:
        raise NotFound(f"there is no memory or quotation {memory_id[:40]!r}; recall and timeline print the ids")
    recorded = prompt_outcomes.outcomes_of_memory(store, memory_id)
    near = [outcome for outcome in recorded if outcome.considered[0].is_near]
    return MemoryWhy(memory_id, summaries[memory_id], tuple(near[:limit]))


def _no_rules(store: Store, session_id: str, turns: Sequence[StoredTurn]) -> dict[int, tuple[Judgement, ...]]:
    """Return turn id → the user's sentences that sound like rules but were not kept."""
    kept = {memory.summary for memory in memories_of_session(store, session_id)}
    found = {}
    for stored, after in zip(turns, [*turns, None][1:], strict=True):
        following = typed_prompt(None if after is None else after.turn)
        judged = [judgement for typed in typed_texts(stored.turn) for judgement in judge(typed, following=following)]
        found[stored.id] = tuple(
            judgement
            for judgement in judged
            if judgement.refusal is not None
            and judgement.sentence not in kept
            # Nobody would take a prompt such as "commit" for a rule.
            and not (judgement.refusal is RuleRefusal.LENGTH and word_count(judgement.sentence) < MIN_WORDS)
        )
    return found


def _moments(
    prompts: Sequence[StoredTurn],
    recorded: Sequence[Outcome],
    no_rules: Mapping[int, tuple[Judgement, ...]],
    made_ms: int,
) -> list[Moment]:
    """Assign every outcome to its prompt or to a separate event; ``made_ms`` is when memory.db was created."""
    of_turn: dict[int, list[Outcome]] = {stored.id: [] for stored in prompts}
    key_of_turn: dict[str, int] = {}
    alone: list[Outcome] = []
    by_digest: dict[str, list[StoredTurn]] = {}
    for stored in prompts:
        by_digest.setdefault(digest_of(filter_prompt(stored.turn.prompt).text), []).append(stored)
    for outcome in recorded:
        turn_id = _turn_of(outcome, prompts, by_digest, key_of_turn)
        if turn_id is None:
            alone.append(outcome)
            continue
        of_turn[turn_id].append(outcome)
        if outcome.channel is not Channel.START:
            key_of_turn.setdefault(outcome.prompt_key, turn_id)
    moments = [_moment_of_turn(stored, of_turn[stored.id], no_rules.get(stored.id, ()), made_ms) for stored in prompts]
    moments += [
        Moment(at_ms=outcome.at_ms, prompt="", outcomes=(outcome,), verdict=outcome.verdict) for outcome in alone
    ]
    return sorted(moments, key=lambda moment: moment.at_ms)


def _turn_of(
    outcome: Outcome,
    prompts: Sequence[StoredTurn],
    by_digest: Mapping[str, Sequence[StoredTurn]],
    key_of_turn: Mapping[str, int],
) -> int | None:
    """Return the turn of an outcome: one with the same words, otherwise of the same prompt, otherwise from the same
    time.
    """
    if outcome.channel is Channel.START:
        return None
    same_words = by_digest.get(outcome.digest, ())
    if same_words:
        return _nearest(outcome, same_words).id
    is_of_call = outcome.channel is not Channel.PROMPT
    if is_of_call and outcome.prompt_key in key_of_turn:
        return key_of_turn[outcome.prompt_key]
    earlier = [stored for stored in prompts if (stored.turn.started_at_ms or 0) <= outcome.at_ms + SAME_MOMENT_MS]
    if not earlier:
        return None
    nearest = _nearest(outcome, earlier)
    return nearest.id if is_of_call or _distance(outcome, nearest) <= SAME_MOMENT_MS else None


def _nearest(outcome: Outcome, turns: Iterable[StoredTurn]) -> StoredTurn:
    return min(turns, key=lambda stored: _distance(outcome, stored))


def _distance(outcome: Outcome, stored: StoredTurn) -> int:
    return abs((stored.turn.started_at_ms or 0) - outcome.at_ms)


def _moment_of_turn(
    stored: StoredTurn, recorded: Sequence[Outcome], no_rules: tuple[Judgement, ...], made_ms: int
) -> Moment:
    digest = digest_of(filter_prompt(stored.turn.prompt).text)
    own = [outcome for outcome in recorded if outcome.channel is Channel.PROMPT or outcome.digest == digest]
    shown = [outcome for outcome in own if outcome.verdict in SHOWN_VERDICTS]
    is_before = stored.turn.started_at_ms is not None and stored.turn.started_at_ms < made_ms
    silence = Verdict.BEFORE_ENGRAM if is_before else filter_prompt(stored.turn.prompt).verdict or Verdict.NO_RECORD
    return Moment(
        at_ms=stored.turn.started_at_ms or 0,
        prompt=stored.turn.prompt,
        outcomes=tuple(recorded),
        verdict=(shown or own)[-1].verdict if own else silence,
        no_rules=no_rules,
        turn_id=stored.id,
    )


def _summaries(store: Store, memory_ids: Iterable[str]) -> dict[str, str]:
    """Return id → summary of a memory, or text of a quotation."""
    summaries: dict[str, str] = {}
    for memory_id in sorted(memory_ids):
        if is_quotation_id(memory_id):
            quotation = find_quotation(store, memory_id)
            summaries |= {memory_id: quotation.text} if quotation is not None else {}
        elif (memory := find_memory(store, memory_id)) is not None:
            summaries[memory_id] = memory.summary
    return summaries
