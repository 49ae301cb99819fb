"""The outcome of each prompt: the memories shown, or why there were none, and the candidates; without text."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from peewee import SQL, Query, fn

from engram.enums import Channel, Verdict
from engram.models import tables
from engram.models.engine.statement import RecordReader, in_json_list
from engram.models.engine.transaction import Reader, Tx
from engram.models.sessions.passage_rows import is_quotation_id

#: Maximum number of outcomes kept per channel.
MAX_OUTCOMES = 10_000
#: Maximum number of the latest outcomes that are examined to count new ones.
MAX_COUNTED = 200
#: An outcome within this many milliseconds of a turn belongs to the turn, because the two clocks may differ.
SAME_MOMENT_MS = 10_000


#: Minimum score, as a share of the floor, at which a memory that was not shown is recorded. The best one always is.
MIN_FLOOR_SHARE = 0.5


@dataclass(frozen=True, slots=True)
class Candidate:
    #: Its rank among the hits of the search, from 0.
    place: int
    episode_id: str
    verdict: Verdict
    #: Its relevance, from 0 to 1, and the relevance that it needed.
    score: float
    floor: float
    #: Feature → value.
    features: Mapping[str, float] = field(default_factory=dict)

    @property
    def is_near(self) -> bool:
        """True for a memory that was shown or nearly shown."""
        return self.score >= self.floor * MIN_FLOOR_SHARE


@dataclass(frozen=True, slots=True)
class Outcome:
    """The outcome of a prompt, or of another event at which memories may be shown.

    ``Ledger.record`` stores it. It contains no text; the prompt's text is stored in its turn.
    """

    session_id: str
    channel: Channel
    verdict: Verdict
    at_ms: int
    #: As in ``Injection``: the prompt's id, or a hash of its text; "" for an event without a prompt.
    prompt_key: str = ""
    #: Hash of the query text, by which the turn can be found; "" if there is none.
    digest: str = ""
    project_id: int | None = None
    #: How many memories were considered.
    candidates: int = 0
    #: Relevance of the deciding memory, and the relevance that it needed; None if no memory was considered.
    score: float | None = None
    floor: float | None = None
    #: True if the search had no embedding model.
    is_text_only: bool = False
    duration_ms: int = 0
    #: The memories that were shown, and the best of the others.
    considered: tuple[Candidate, ...] = ()
    #: Row id; 0 until it is stored.
    id: int = 0


_OUTCOMES = RecordReader(
    Outcome,
    tables.Outcome,
    expressions={"considered": SQL("NULL")},
    readers={"channel": Channel.from_stored, "verdict": Verdict.from_stored},
)
_COLUMNS = [name for name in tables.column_names(tables.Outcome) if name != "id"]
_CANDIDATES = RecordReader(
    Candidate,
    tables.OutcomeCandidate,
    readers={"verdict": Verdict.from_stored, "features": json.loads},
    left_out={"outcome_id"},
)


def add_outcomes(tx: Tx, outcomes: Sequence[Outcome]) -> None:
    """Store outcomes, without memories that have been deleted in the meantime."""
    known = _known_ids(tx, {candidate.episode_id for outcome in outcomes for candidate in outcome.considered})
    for outcome in outcomes:
        outcome_id = tx.insert_row(
            tables.Outcome,
            {name: getattr(outcome, name) for name in _COLUMNS}
            | {"channel": outcome.channel.value, "verdict": outcome.verdict.value},
        )
        tx.insert_many(
            tables.OutcomeCandidate,
            [
                {
                    "outcome_id": outcome_id,
                    "place": candidate.place,
                    "episode_id": candidate.episode_id,
                    "verdict": candidate.verdict.value,
                    "score": candidate.score,
                    "floor": candidate.floor,
                    "features": json.dumps(dict(candidate.features), separators=(",", ":")),
                }
                for candidate in outcome.considered
                if candidate.episode_id in known or is_quotation_id(candidate.episode_id)
            ],
        )


def outcomes_of_session(store: Reader, session_id: str) -> list[Outcome]:
    """Return the outcomes of a session with their candidates, earliest first."""
    outcome = tables.Outcome
    query = _OUTCOMES.select().where(outcome.session_id == session_id).order_by(outcome.at_ms, outcome.id)
    return _with_candidates(store, query)


def sessions_with_outcomes(store: Reader, prefix: str) -> list[str]:
    """Return the ids of the sessions that have outcomes, limited to ids with a prefix."""
    session_id = tables.Outcome.session_id
    is_match = fn.SUBSTR(session_id, 1, len(prefix)) == prefix
    return store.fetch_values(tables.Outcome.select(session_id).distinct().where(is_match).order_by(session_id))


def outcomes_of_memory(store: Reader, episode_id: str) -> list[Outcome]:
    """Return the outcomes for which a memory was considered, latest first, with that memory as the only candidate."""
    outcome, candidate = tables.Outcome, tables.OutcomeCandidate
    of_memory = candidate.select(candidate.outcome).where(candidate.episode_id == episode_id)
    query = _OUTCOMES.select().where(outcome.id.in_(of_memory)).order_by(outcome.at_ms.desc(), outcome.id.desc())
    return _with_candidates(store, query.limit(MAX_OUTCOMES), episode_id)


def list_outcomes(
    store: Reader,
    *,
    project_id: int | None = None,
    channels: Iterable[Channel] = tuple(Channel),
    limit: int = MAX_OUTCOMES,
) -> list[Outcome]:
    """Return outcomes of the given channels with their candidates, in one project or in all, latest first."""
    outcome = tables.Outcome
    query = _OUTCOMES.select().where(outcome.channel.in_([channel.value for channel in channels]))
    if project_id is not None:
        query = query.where(outcome.project_id == project_id)
    return _with_candidates(store, query.order_by(outcome.at_ms.desc(), outcome.id.desc()).limit(limit))


def count_verdicts(store: Reader, session_id: str) -> dict[tuple[Channel, Verdict], int]:
    """Return how many outcomes a session has for each channel and verdict."""
    outcome = tables.Outcome
    query = outcome.select(outcome.channel, outcome.verdict, fn.COUNT(outcome.id).alias("number"))
    query = query.where(outcome.session_id == session_id).group_by(outcome.channel, outcome.verdict)
    return {
        (Channel.from_stored(row.channel), Verdict.from_stored(row.verdict)): row.number
        for row in store.fetch(query.order_by(outcome.channel, outcome.verdict))
    }


def count_outcomes_since(store: Reader, since_ms: int, project_id: int | None, channel: Channel) -> int:
    """Return how many outcomes a channel has had since a time, in one project or in all. At most ``MAX_COUNTED``."""
    outcome = tables.Outcome
    # In the order of row ids, because there is an index for them; outcomes are stored in order of time.
    query = outcome.select(outcome.at_ms, outcome.project_id).where(outcome.channel == channel.value)
    rows = store.fetch(query.order_by(outcome.id.desc()).limit(MAX_COUNTED))
    return sum(row.at_ms > since_ms and project_id in (None, row.project_id) for row in rows)


def count_asked_prompts(store: Reader, since_ms: int) -> int:
    """Return how many prompts a hook has asked about since a time, whether or not it got a memory.

    A prompt that no hook asked about has an outcome without a duration.
    """
    outcome = tables.Outcome
    is_asked = (outcome.channel == Channel.PROMPT.value) & (outcome.at_ms >= since_ms) & (outcome.duration_ms > 0)
    return int(store.fetch_value(outcome.select(fn.COUNT(outcome.id)).where(is_asked)))


def change_verdicts(tx: Tx, session_id: str, before: Verdict, after: Verdict, *, prompt_key: str | None = None) -> int:
    """Change the verdict of a session's outcomes and candidates; return how many outcomes changed.

    Args:
        before: only outcomes and candidates with this verdict are changed.
        prompt_key: only the outcomes of this prompt; None for all.
    """
    outcome, candidate = tables.Outcome, tables.OutcomeCandidate
    condition = (outcome.session_id == session_id) & (outcome.verdict == before.value)
    if prompt_key is not None:
        condition &= outcome.prompt_key == prompt_key
    is_of_outcome = candidate.outcome.in_(outcome.select(outcome.id).where(condition))
    tx.run(candidate.update(verdict=after.value).where(is_of_outcome & (candidate.verdict == before.value)))
    return tx.run(outcome.update(verdict=after.value).where(condition))


def drop_outcomes_of_turn(tx: Tx, turn_id: int) -> None:
    """Delete the outcomes of a turn's prompt and tool calls, because its words are being erased."""
    turn, session, outcome = tables.Turn, tables.Session, tables.Outcome
    query = turn.select(session.session_id, turn.started_at_ms, turn.ended_at_ms).join(session)
    row = tx.fetch_first(query.where(turn.id == turn_id))
    if row is None or row.started_at_ms is None:
        return
    last_ms = max(row.started_at_ms, row.ended_at_ms or 0) + SAME_MOMENT_MS
    is_then = outcome.at_ms.between(row.started_at_ms - SAME_MOMENT_MS, last_ms)
    tx.run(outcome.delete().where((outcome.session_id == row.session_id) & is_then))


def drop_outcomes_of_project(tx: Tx, project_id: int) -> None:
    """Delete the outcomes of a project's prompts and tool calls, whatever their session."""
    tx.run(tables.Outcome.delete().where(tables.Outcome.project_id == project_id))


def drop_old_outcomes(tx: Tx, before_ms: int, max_outcomes: int = MAX_OUTCOMES) -> int:
    """Delete outcomes from before a time, and all but the newest ``max_outcomes`` of each channel; return how many."""
    dropped = tx.run(tables.Outcome.delete().where(tables.Outcome.at_ms < before_ms))
    outcome = tables.Outcome
    for channel in Channel:
        is_beyond = (outcome.channel == channel.value) & (outcome.id <= _first_beyond(channel, max_outcomes))
        dropped += tx.run(outcome.delete().where(is_beyond))
    return dropped


def has_old_outcomes(store: Reader, before_ms: int, max_outcomes: int = MAX_OUTCOMES) -> bool:
    """Return True if ``drop_old_outcomes`` would delete anything."""
    outcome = tables.Outcome
    return store.has_any(outcome.select(outcome.id).where(outcome.at_ms < before_ms).limit(1)) or any(
        store.has_any(_first_beyond(channel, max_outcomes)) for channel in Channel
    )


def _known_ids(store: Reader, episode_ids: set[str]) -> set[str]:
    memory = tables.Memory
    listed = in_json_list(memory.episode_id, episode_ids)
    return set(store.fetch_values(memory.select(memory.episode_id).where(listed))) if episode_ids else set()


def _with_candidates(store: Reader, outcomes: Query, episode_id: str | None = None) -> list[Outcome]:
    """Return the outcomes of a query with their candidates, or with only one candidate if an id is given."""
    table = tables.OutcomeCandidate
    found = store.fetch_records(_OUTCOMES, outcomes)
    listed = in_json_list(table.outcome, [outcome.id for outcome in found])
    query = _CANDIDATES.select_by(table.outcome).where(listed).order_by(table.outcome, table.place)
    if episode_id is not None:
        query = query.where(table.episode_id == episode_id)
    considered = store.fetch_records_by(_CANDIDATES, query)
    return [replace(outcome, considered=tuple(considered.get(outcome.id, ()))) for outcome in found]


def _first_beyond(channel: Channel, max_outcomes: int) -> Any:
    """Return a query for the newest outcome of a channel that is not among the ``max_outcomes`` newest ones."""
    kept = tables.Outcome.alias("kept")
    query = kept.select(kept.id).where(kept.channel == channel.value).order_by(kept.id.desc())
    return query.limit(1).offset(max_outcomes)
