"""Pure functions for the figures of a run: recall, nDCG, recall in some words, intervals, paired differences."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

#: Ranks at which recall is measured.
RANKS = (1, 3, 5, 10, 25)
#: Number of ranks that nDCG counts.
NDCG_RANKS = 10
#: Numbers of words that an agent might read.
WORDS = (200, 400, 800)
#: Maximum number of words that are counted in a hit.
MAX_HIT_WORDS = 200
#: Number of bootstrap draws.
_DRAWS = 2000


@dataclass(frozen=True, slots=True)
class ShownHit:
    """A hit in a run: its evidence, and the text that would be shown."""

    evidence: tuple[str, ...]
    text: str


@dataclass(frozen=True, slots=True)
class QuestionResult:
    """A question from a data set with its hits."""

    id: str
    category: str
    #: The evidence that must be found; empty for a question without an answer.
    wanted: frozenset[str]
    hits: tuple[ShownHit, ...]
    #: The conversation or project: cross-validation leaves out whole groups.
    group: str = ""
    #: Duration of the search, in milliseconds.
    took_ms: float = 0.0


@dataclass(frozen=True, slots=True)
class Summary:
    """The figures of a run, in percent."""

    questions: int
    figures: Mapping[str, float]
    #: Figure → half the width of its 95 % interval.
    intervals: Mapping[str, float]
    by_category: Mapping[str, Mapping[str, float]]
    #: Mean number of hits for questions without an answer; None if there are no such questions.
    hits_unanswerable: float | None
    #: p50, p95 and p99 of one search, in milliseconds.
    latency_ms: Mapping[str, float] = field(default_factory=dict)


def question_figures(result: QuestionResult) -> dict[str, float]:
    """Return every figure of a question with an answer, from 0 to 1."""
    seen: set[str] = set()
    gains: list[bool] = []
    recall: list[float] = []
    words, recall_in_words = 0, dict.fromkeys(WORDS, 0.0)
    for hit in result.hits:
        new = (result.wanted & set(hit.evidence)) - seen
        seen |= new
        gains.append(bool(new))
        recall.append(len(seen) / len(result.wanted))
        words += min(len(hit.text.split()), MAX_HIT_WORDS)
        for limit in WORDS:
            if words <= limit:
                recall_in_words[limit] = recall[-1]
    ideal = sum(1 / math.log2(rank + 2) for rank in range(min(len(result.wanted), NDCG_RANKS)))
    figures = {f"recall@{rank}": recall[min(rank, len(recall)) - 1] if recall else 0.0 for rank in RANKS}
    figures["ndcg@10"] = sum(gain / math.log2(rank + 2) for rank, gain in enumerate(gains[:NDCG_RANKS])) / ideal
    return figures | {f"recall in {limit} words": value for limit, value in recall_in_words.items()}


def summarise(run: Sequence[QuestionResult], *, seed: int = 7) -> Summary:
    """Return the means over all questions with an answer, with intervals."""
    answerable = [result for result in run if result.wanted]
    rows = [question_figures(result) for result in answerable]
    names = list(rows[0]) if rows else []
    table = np.array([[row[name] for name in names] for row in rows]).reshape(len(rows), len(names))
    categories: dict[str, list[int]] = {}
    for place, result in enumerate(answerable):
        categories.setdefault(result.category, []).append(place)
    unanswerable_hits = [len(result.hits) for result in run if not result.wanted]
    return Summary(
        questions=len(rows),
        figures={name: _percent(table[:, column].mean()) for column, name in enumerate(names)},
        intervals={name: _half_width(table[:, column], seed) for column, name in enumerate(names)},
        by_category={
            category: {name: _percent(table[places, column].mean()) for column, name in enumerate(names)}
            | {"questions": len(places)}
            for category, places in sorted(categories.items())
        },
        hits_unanswerable=round(sum(unanswerable_hits) / len(unanswerable_hits), 2) if unanswerable_hits else None,
        latency_ms=latency([result.took_ms for result in run]),
    )


def compare(
    run: Sequence[QuestionResult], baseline: Sequence[QuestionResult], figure: str, *, seed: int = 7
) -> dict[str, float]:
    """Return the paired difference in percent, its 95 % interval and p; {} without a question in common."""
    by_id = {result.id: result for result in baseline}
    pairs = [
        (question_figures(result), question_figures(by_id[result.id]))
        for result in run
        if result.wanted and result.id in by_id
    ]
    return paired_difference([own[figure] - other[figure] for own, other in pairs], seed=seed)


def paired_difference(gains: Sequence[float], *, seed: int = 7) -> dict[str, float]:
    """Return the mean of paired gains in percent, its 95 % interval and p; {} if there are none.

    p is how often a bootstrap draw has the opposite sign, two-sided.
    """
    values = np.array(gains, dtype=np.float64)
    if not len(values):
        return {}
    draws = np.random.default_rng(seed).choice(values, (_DRAWS, len(values))).mean(axis=1)
    low, high = np.percentile(draws, (2.5, 97.5))
    opposite = float(min((draws <= 0).mean(), (draws >= 0).mean()))
    return {
        "difference": _percent(values.mean()),
        "low": _percent(low),
        "high": _percent(high),
        "p": round(min(2 * opposite, 1.0), 4),
    }


def share(values: Sequence[bool], *, seed: int = 7) -> tuple[float, float]:
    """Return the share of True in percent, and half the width of its 95 % interval; (0, 0) if there are none."""
    column = np.array(values, dtype=np.float64)
    return (_percent(column.mean()), _half_width(column, seed)) if len(column) else (0.0, 0.0)


def _half_width(values: np.ndarray[tuple[int], np.dtype[np.float64]], seed: int) -> float:
    """Return half the width of the 95 % interval of the mean, in percent."""
    draws = np.random.default_rng(seed).choice(values, (_DRAWS, len(values))).mean(axis=1)
    low, high = np.percentile(draws, (2.5, 97.5))
    return round(50 * float(high - low), 1)


def latency(took_ms: Sequence[float]) -> dict[str, float]:
    """Return p50, p95 and p99 in milliseconds."""
    return {f"p{share}": round(float(np.percentile(took_ms, share)), 2) for share in (50, 95, 99)} if took_ms else {}


def _percent(value: float) -> float:
    return round(100 * float(value), 1)
