"""How useful memories have proved: in how many sessions each was shown and used, and how it was judged.

A session **uses** a memory if the memory was shown in it and the agent then expands it (``memory_expand``) or mentions
its id in a reply. Nothing else counts: not a recall, not an expansion by a person, and not an expansion in a session in
which the memory was not shown.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from peewee import Query, fn

from engram.enums import Judgement
from engram.models import tables
from engram.models.engine.statement import in_json_list, prepared
from engram.models.engine.transaction import Reader, Tx
from engram.models.memories.judgements import JUDGEMENTS, judgement_of, standing_judgements
from engram.models.memories.memory_history import TAKE_BACK
from engram.models.shown.injections import AT_START
from engram.system.lazy_regex import lazy_regex

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
    return sum(tx.run(_mark_used(session_id, episode_id, at_ms)) for episode_id, at_ms in used_at_ms.items())


@prepared
def _mark_used(session_id: str, episode_id: str, at_ms: int) -> Query:
    injection = tables.Injection
    showing = injection.alias()
    of_session = (showing.session_id == session_id) & (showing.episode_id == episode_id)
    is_shown = (showing.state == "shown") & (showing.at_ms <= at_ms)
    latest = showing.select(fn.MAX(showing.id)).where(of_session & is_shown)
    return injection.update(used_at_ms=at_ms).where((injection.id == latest) & injection.used_at_ms.is_null())
