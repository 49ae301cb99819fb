"""The scorers of memories: each turns the candidates and the question into one column of numbers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from engram.search.episodes.candidates import Column, EpisodeCandidates
from engram.search.episodes.weights import Weights
from engram.search.question.parsed import ParsedQuery

#: Half-life of recency, in days: a tie-breaker only.
_RECENCY_DAYS = 30.0
#: Best memories of a session whose mean each of its memories shares in.
_SESSION_BEST = 3
#: Distance to the named time of a memory whose own time is unknown, in days.
_UNKNOWN_DAYS = 1e6
_DAY_MS = 86_400_000


@dataclass(frozen=True, slots=True)
class Scorer:
    """A named part of the score."""

    name: str
    #: (candidates, question, the score so far, weights) → what is added to each candidate's score.
    score: Callable[[EpisodeCandidates, ParsedQuery, Column, Weights], Column]


def score_text(candidates: EpisodeCandidates, query: ParsedQuery, score: Column, weights: Weights) -> Column:
    """Return BM25 as a share of the best."""
    best = candidates.bm25.max(initial=0.0)
    return candidates.bm25 * (weights.text / best if best > 0 else 0.0)


def score_vector(candidates: EpisodeCandidates, query: ParsedQuery, score: Column, weights: Weights) -> Column:
    """Return the cosine, scaled from 0 for the worst to 1 for the best; without a vector the words speak for it."""
    known = candidates.cosine[~np.isnan(candidates.cosine)]
    if not len(known):
        return np.zeros(len(candidates))
    low, high = float(known.min()), float(known.max())
    scaled = (candidates.cosine - low) / max(high - low, 1e-6)
    by_words = candidates.bm25 / max(float(candidates.bm25.max(initial=0.0)), 1e-6)
    return np.asarray(weights.vector * np.where(np.isnan(scaled), by_words, scaled), dtype=np.float64)


def score_names(candidates: EpisodeCandidates, query: ParsedQuery, score: Column, weights: Weights) -> Column:
    """Return the share of the question's names (paths, symbols, flags, quoted code) that the text contains."""
    if not query.names:
        return np.zeros(len(candidates))
    texts = [text.lower() for text in candidates.texts]
    return weights.names * np.array([sum(name in text for name in query.names) / len(query.names) for text in texts])


def score_time(candidates: EpisodeCandidates, query: ParsedQuery, score: Column, weights: Weights) -> Column:
    """Return how close a candidate's time is to the time that the question names."""
    if query.date_range is None:
        return np.zeros(len(candidates))
    days = np.array([query.date_range.distance_days(at) if at else _UNKNOWN_DAYS for at in candidates.at_ms])
    return np.asarray(weights.time * np.exp2(-days), dtype=np.float64)


def score_session(candidates: EpisodeCandidates, query: ParsedQuery, score: Column, weights: Weights) -> Column:
    """Return a share of the mean of the session's three best."""
    _, groups = np.unique(candidates.session, return_inverse=True)
    order = np.lexsort((-score, groups))
    starts = np.searchsorted(groups[order], np.arange(groups.max(initial=-1) + 1))
    rank = np.arange(len(order)) - starts[groups[order]]
    is_best = rank < _SESSION_BEST
    sums = np.bincount(groups[order][is_best], score[order][is_best], len(starts))
    return np.where(candidates.session != 0, weights.session * sums[groups] / _SESSION_BEST, 0.0)


def score_validity(candidates: EpisodeCandidates, query: ParsedQuery, score: Column, weights: Weights) -> Column:
    """Return a deduction for memories that are superseded, archived or judged wrong."""
    return -weights.validity * candidates.is_retired.astype(np.float64)


def score_priority(candidates: EpisodeCandidates, query: ParsedQuery, score: Column, weights: Weights) -> Column:
    """Return what puts pinned and important memories first among equals."""
    return weights.pinned * candidates.is_pinned + weights.importance * candidates.is_high


def score_ties(candidates: EpisodeCandidates, query: ParsedQuery, score: Column, weights: Weights) -> Column:
    """Return recency and access, small enough to decide only between equals."""
    age_days = np.maximum(query.now_ms - candidates.at_ms, 0) / _DAY_MS
    recency: Column = np.where(candidates.at_ms > 0, np.exp2(-age_days / _RECENCY_DAYS), 0.0)
    max_access = max(float(candidates.access_count.max(initial=0.0)), 1.0)
    return weights.recency * recency + weights.access / max_access * candidates.access_count


#: All scorers in their order; each sees the score that those before it made.
SCORERS = (
    Scorer("text", score_text),
    Scorer("vector", score_vector),
    Scorer("names", score_names),
    Scorer("time", score_time),
    Scorer("session", score_session),
    Scorer("validity", score_validity),
    Scorer("priority", score_priority),
    Scorer("ties", score_ties),
)
