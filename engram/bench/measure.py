"""Figures of a run: recall, nDCG, recall in so many words, intervals by bootstrap, paired differences. Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

#: Ranks at which recall is taken.
RANKS = (1, 3, 5, 10, 25)
#: Words that an agent might pay for.
WORDS = (200, 400, 800)
#: Words of one hit that count.
SHOWN_WORDS = 200
#: Draws of the bootstrap.
_DRAWS = 2000


@dataclass(frozen=True, slots=True)
class Shown:
    """One hit of a run: the evidence it carries and the text that would be shown."""

    evidence: tuple[str, ...]
    text: str


@dataclass(frozen=True, slots=True)
class Asked:
    """One question of a set with what was answered."""

    id: str
    category: str
    #: What must be found; empty where there is no answer.
    wanted: frozenset[str]
    hits: tuple[Shown, ...]
    #: Name of what it belongs to (a conversation, a project): cross-validation leaves whole ones out.
    group: str = ""
    #: How long the search took, in milliseconds.
    took_ms: float = 0.0


@dataclass(frozen=True, slots=True)
class Summary:
    """The figures of a run in percent."""

    questions: int
    figures: Mapping[str, float]
    #: Figure → half the width of its 95 % interval.
    intervals: Mapping[str, float]
    by_category: Mapping[str, Mapping[str, float]]
    #: Mean number of hits for questions without an answer; None where there are none.
    hits_unanswerable: float | None
    #: p50, p95 and p99 of one search, in milliseconds.
    latency_ms: Mapping[str, float] = field(default_factory=dict)


def figures_of(asked: Asked) -> dict[str, float]:
    """Every figure of one question with an answer, from 0 to 1."""
    seen: set[str] = set()
    gains: list[bool] = []
    recall: list[float] = []
    spent, in_words = 0, dict.fromkeys(WORDS, 0.0)
    for hit in asked.hits:
        new = (asked.wanted & set(hit.evidence)) - seen
        seen |= new
        gains.append(bool(new))
        recall.append(len(seen) / len(asked.wanted))
        spent += min(len(hit.text.split()), SHOWN_WORDS)
        for limit in WORDS:
            if spent <= limit:
                in_words[limit] = recall[-1]
    ideal = sum(1 / math.log2(rank + 2) for rank in range(min(len(asked.wanted), 10)))
    found = {f"recall@{rank}": recall[min(rank, len(recall)) - 1] if recall else 0.0 for rank in RANKS}
    found["ndcg@10"] = sum(gain / math.log2(rank + 2) for rank, gain in enumerate(gains[:10])) / ideal
    return found | {f"recall in {limit} words": value for limit, value in in_words.items()}


def summarise(run: Sequence[Asked], *, seed: int = 7) -> Summary:
    """The means over all questions with an answer, with intervals."""
    answerable = [one for one in run if one.wanted]
    rows = [figures_of(one) for one in answerable]
    names = list(rows[0]) if rows else []
    table = np.array([[row[name] for name in names] for row in rows]).reshape(len(rows), len(names))
    categories: dict[str, list[int]] = {}
    for place, one in enumerate(answerable):
        categories.setdefault(one.category, []).append(place)
    idle = [len(one.hits) for one in run if not one.wanted]
    return Summary(
        len(rows),
        {name: _percent(table[:, column].mean()) for column, name in enumerate(names)},
        {name: _half_width(table[:, column], seed) for column, name in enumerate(names)},
        {
            category: {name: _percent(table[places, column].mean()) for column, name in enumerate(names)}
            | {"questions": len(places)}
            for category, places in sorted(categories.items())
        },
        round(sum(idle) / len(idle), 2) if idle else None,
        latency([one.took_ms for one in run]),
    )


def compare(one: Sequence[Asked], other: Sequence[Asked], figure: str, *, seed: int = 7) -> dict[str, float]:
    """The paired difference in percent, its 95 % interval, and how often a draw says the opposite (p)."""
    others = {asked.id: asked for asked in other}
    pairs = [(figures_of(asked), figures_of(others[asked.id])) for asked in one if asked.wanted and asked.id in others]
    gains = np.array([left[figure] - right[figure] for left, right in pairs])
    if not len(gains):
        return {}
    draws = np.random.default_rng(seed).choice(gains, (_DRAWS, len(gains))).mean(axis=1)
    low, high = np.percentile(draws, (2.5, 97.5))
    worse = float(min((draws <= 0).mean(), (draws >= 0).mean()))
    return {
        "difference": _percent(gains.mean()),
        "low": _percent(low),
        "high": _percent(high),
        "p": round(2 * worse, 4),
    }


def _half_width(values: np.ndarray[tuple[int], np.dtype[np.float64]], seed: int) -> float:
    draws = np.random.default_rng(seed).choice(values, (_DRAWS, len(values))).mean(axis=1)
    low, high = np.percentile(draws, (2.5, 97.5))
    return round(50 * float(high - low), 1)


def latency(took_ms: Sequence[float]) -> dict[str, float]:
    """p50, p95 and p99 in milliseconds."""
    return {f"p{share}": round(float(np.percentile(took_ms, share)), 2) for share in (50, 95, 99)} if took_ms else {}


def _percent(value: float) -> float:
    return round(100 * float(value), 1)
