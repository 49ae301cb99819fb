"""The steps of the ranking: each turns candidates and question into one column of numbers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from engram.search.episodes.pool import Column, Pool
from engram.search.episodes.weights import Weights
from engram.search.question.parsed import Asked

#: Half-life of recency, in days: a tie-breaker only.
_RECENCY_DAYS = 30.0
_DAY_MS = 86_400_000


@dataclass(frozen=True, slots=True)
class Step:
    """One step: its name, and what it adds to the score of each candidate."""

    name: str
    #: (candidates, question, the score so far, weights) → what is added.
    added: Callable[[Pool, Asked, Column, Weights], Column]


def text(pool: Pool, asked: Asked, score: Column, weights: Weights) -> Column:
    """BM25, the best candidate being 1."""
    best = pool.bm25.max(initial=0.0)
    return pool.bm25 * (weights.text / best if best > 0 else 0.0)


def vector(pool: Pool, asked: Asked, score: Column, weights: Weights) -> Column:
    """Cosine, scaled so that the best candidate is 1 and the worst 0; one without a vector counts as the worst."""
    known = pool.cosine[~np.isnan(pool.cosine)]
    if not len(known):
        return np.zeros(len(pool))
    low, high = float(known.min()), float(known.max())
    scale = weights.vector / max(high - low, 1e-6)
    return scale * (np.nan_to_num(pool.cosine, nan=low) - low)


def neighbours(pool: Pool, asked: Asked, score: Column, weights: Weights) -> Column:
    """A share of the scores of the passages right before and after in the same session."""
    if not weights.neighbours or len(pool) < 2:
        return np.zeros(len(pool))
    lent = np.zeros(len(pool))
    for apart, share in ((1, 1.0), (2, 0.4)):
        is_near = (pool.session[apart:] == pool.session[:-apart]) & (pool.ids[apart:] - pool.ids[:-apart] == apart)
        lent[:-apart] += share * np.where(is_near, score[apart:], 0.0)
        lent[apart:] += share * np.where(is_near, score[:-apart], 0.0)
    return weights.neighbours * lent


def session(pool: Pool, asked: Asked, score: Column, weights: Weights) -> Column:
    """A share of the mean of the session's three best."""
    _, groups = np.unique(pool.session, return_inverse=True)
    order = np.lexsort((-score, groups))
    starts = np.searchsorted(groups[order], np.arange(groups.max(initial=-1) + 1))
    rank = np.arange(len(order)) - starts[groups[order]]
    sums = np.bincount(groups[order][rank < 3], score[order][rank < 3], len(starts))
    return np.where(pool.session != 0, weights.session * sums[groups] / 3, 0.0)


def time(pool: Pool, asked: Asked, score: Column, weights: Weights) -> Column:
    """How near a candidate's time is to the time that the question names."""
    if asked.span is None:
        return np.zeros(len(pool))
    days = np.array([asked.span.distance_days(at) if at else 1e6 for at in pool.at_ms])
    return np.asarray(weights.time * np.exp2(-days), dtype=np.float64)


def names(pool: Pool, asked: Asked, score: Column, weights: Weights) -> Column:
    """The share of the question's names (paths, symbols, flags, quoted code) that stand in the text."""
    if not asked.names:
        return np.zeros(len(pool))
    lowered = [one.lower() for one in pool.texts]
    return weights.names * np.array([sum(name in one for name in asked.names) / len(asked.names) for one in lowered])


def validity(pool: Pool, asked: Asked, score: Column, weights: Weights) -> Column:
    """Superseded and archived memories sink."""
    return -weights.validity * pool.is_retired.astype(np.float64)


def standing(pool: Pool, asked: Asked, score: Column, weights: Weights) -> Column:
    """Pinned and important memories come first among equals."""
    return weights.pinned * pool.is_pinned + weights.importance * pool.is_high


def ties(pool: Pool, asked: Asked, score: Column, weights: Weights) -> Column:
    """Recency and access decide only between equals."""
    age_days = np.maximum(asked.now_ms - pool.at_ms, 0) / _DAY_MS
    recency: Column = np.where(pool.at_ms > 0, np.exp2(-age_days / _RECENCY_DAYS), 0.0)
    most = max(float(pool.access_count.max(initial=0.0)), 1.0)
    return weights.recency * recency + weights.access / most * pool.access_count


#: All steps in their order; a step sees the score that those before it made.
STEPS = (
    Step("text", text),
    Step("vector", vector),
    Step("names", names),
    Step("time", time),
    Step("neighbours", neighbours),
    Step("session", session),
    Step("validity", validity),
    Step("standing", standing),
    Step("ties", ties),
)
