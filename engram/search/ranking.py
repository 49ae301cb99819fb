"""Rank memories for a question: the candidates as columns, short scoring functions, and their weights."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from engram.enums import Importance
from engram.models.search.fulltext import MemoryRow
from engram.search.question import ParsedQuery
from engram.system.clock import DAY_MS

# -- The candidate memories as columns, so that each scorer is a few lines of arithmetic.

#: One number for each candidate.
Column = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class MemoryCandidates:
    """Memories ordered by row id; all columns have the same length."""

    ids: NDArray[np.int64]
    #: BM25; 0 if the text did not match.
    bm25: Column
    #: Cosine to the question; NaN for a memory without a vector.
    cosine: Column
    #: Row id of the session; 0 for none.
    session: NDArray[np.int64]
    #: When the memory was created, in milliseconds since 1970; 0 if unknown.
    at_ms: Column
    #: Summary and entities.
    texts: tuple[str, ...]
    #: Superseded, archived or judged wrong.
    is_retired: NDArray[np.bool_]
    is_pinned: NDArray[np.bool_]
    is_high: NDArray[np.bool_]
    access_count: Column

    def __len__(self) -> int:
        return len(self.ids)


def build_candidates(
    rows: Mapping[int, MemoryRow], bm25: Mapping[int, float], cosine: Mapping[int, float]
) -> MemoryCandidates:
    """Return memories as columns; the mappings are keyed by row id."""
    ids = sorted(rows)
    memories = [rows[row_id] for row_id in ids]
    return MemoryCandidates(
        ids=np.array(ids, dtype=np.int64),
        bm25=_column(ids, bm25, 0.0),
        cosine=_column(ids, cosine, np.nan),
        session=np.array([memory.session_ref for memory in memories], dtype=np.int64),
        at_ms=np.array([memory.created_at_ms for memory in memories], dtype=np.float64),
        texts=tuple(f"{memory.summary}\n{memory.entities}" for memory in memories),
        is_retired=np.array([memory.is_lowered or not memory.status.is_current for memory in memories], dtype=bool),
        is_pinned=np.array([memory.is_pinned for memory in memories], dtype=bool),
        is_high=np.array([memory.importance is Importance.HIGH for memory in memories], dtype=bool),
        access_count=np.array([memory.access_count for memory in memories], dtype=np.float64),
    )


def _column(ids: Sequence[int], values: Mapping[int, float], default: float) -> Column:
    return np.array([values.get(row_id, default) for row_id in ids], dtype=np.float64)


# -- The scorers of memories: each returns what it adds to the candidates' scores, given their scores so far.

#: Weights of text and vector, both first scaled to 0..1 across the candidates.
_TEXT, _VECTOR = 0.4, 0.6
#: A memory gets this share of the mean of its session's best scores.
_SESSION = 0.05
#: Added to a memory from the time that the question names.
_TIME = 0.15
#: Added to a memory that contains all names from the question (paths, symbols, flags, quoted code).
_NAMES = 0.1
#: Deducted from memories that are superseded, archived or judged wrong.
_RETIRED = 0.8
_PINNED, _IMPORTANT = 0.03, 0.02
#: Tie-breakers.
_RECENCY, _ACCESS = 0.005, 0.005
#: Half-life of recency, in days.
_RECENCY_DAYS = 30.0
#: Number of a session's best scores that are averaged.
_SESSION_BEST = 3
#: Distance, in days, between the time in the question and a memory whose time is unknown.
_UNKNOWN_DAYS = 1e6


def score_text(candidates: MemoryCandidates, query: ParsedQuery, score: Column) -> Column:
    """Score the BM25 value as a share of the best one."""
    best = candidates.bm25.max(initial=0.0)
    return candidates.bm25 * (_TEXT / best if best > 0 else 0.0)


def score_vector(candidates: MemoryCandidates, query: ParsedQuery, score: Column) -> Column:
    """Score the cosine, scaled from 0 (worst) to 1 (best); for a memory without a vector, BM25 instead."""
    known = candidates.cosine[~np.isnan(candidates.cosine)]
    if not len(known):
        return np.zeros(len(candidates))
    low, high = float(known.min()), float(known.max())
    scaled = (candidates.cosine - low) / max(high - low, 1e-6)
    by_words = candidates.bm25 / max(float(candidates.bm25.max(initial=0.0)), 1e-6)
    return np.asarray(_VECTOR * np.where(np.isnan(scaled), by_words, scaled), dtype=np.float64)


def score_names(candidates: MemoryCandidates, query: ParsedQuery, score: Column) -> Column:
    """Score the share of the question's names (paths, symbols, flags, quoted code) that the text contains."""
    if not query.names:
        return np.zeros(len(candidates))
    texts = [text.lower() for text in candidates.texts]
    return _NAMES * np.array([sum(name in text for name in query.names) / len(query.names) for text in texts])


def score_time(candidates: MemoryCandidates, query: ParsedQuery, score: Column) -> Column:
    """Score how close a candidate's time is to the time that the question names."""
    if query.date_range is None:
        return np.zeros(len(candidates))
    days = np.array([query.date_range.distance_days(at) if at else _UNKNOWN_DAYS for at in candidates.at_ms])
    return np.asarray(_TIME * np.exp2(-days), dtype=np.float64)


def score_session(candidates: MemoryCandidates, query: ParsedQuery, score: Column) -> Column:
    """Score the mean of the three best scores in the candidate's session."""
    return np.where(candidates.session != 0, _SESSION * means_of_best(candidates.session, score), 0.0)


def means_of_best(session: NDArray[np.int64], values: Column) -> Column:
    """Return, for each candidate, the mean of the three best values in its session; missing values count as 0."""
    _, groups = np.unique(session, return_inverse=True)
    order = np.lexsort((-values, groups))
    starts = np.searchsorted(groups[order], np.arange(groups.max(initial=-1) + 1))
    is_best = np.arange(len(order)) - starts[groups[order]] < _SESSION_BEST
    sums = np.bincount(groups[order][is_best], values[order][is_best], len(starts))
    return sums[groups] / _SESSION_BEST


def score_validity(candidates: MemoryCandidates, query: ParsedQuery, score: Column) -> Column:
    """Deduct from memories that are superseded, archived or judged wrong."""
    return -_RETIRED * candidates.is_retired.astype(np.float64)


def score_priority(candidates: MemoryCandidates, query: ParsedQuery, score: Column) -> Column:
    """Raise pinned and important memories, to put them first among equals."""
    return _PINNED * candidates.is_pinned + _IMPORTANT * candidates.is_high


def score_ties(candidates: MemoryCandidates, query: ParsedQuery, score: Column) -> Column:
    """Score recency and use; the weights are so small that they only break ties."""
    age_days = np.maximum(query.now_ms - candidates.at_ms, 0) / DAY_MS
    recency: Column = np.where(candidates.at_ms > 0, np.exp2(-age_days / _RECENCY_DAYS), 0.0)
    max_access = max(float(candidates.access_count.max(initial=0.0)), 1.0)
    return _RECENCY * recency + _ACCESS / max_access * candidates.access_count


#: Name → scorer, in order of execution; each is given the sum of the previous scores.
SCORERS: Mapping[str, Callable[[MemoryCandidates, ParsedQuery, Column], Column]] = {
    "text": score_text,
    "vector": score_vector,
    "names": score_names,
    "time": score_time,
    "session": score_session,
    "validity": score_validity,
    "priority": score_priority,
    "ties": score_ties,
}


# -- Run the scorers over the candidates.


@dataclass(frozen=True, slots=True)
class Ranking:
    """Scores in the order of the candidates."""

    score: Column
    #: Name of a scorer → what it added to each score.
    parts: Mapping[str, Column]

    def parts_of(self, index: int) -> dict[str, float]:
        """Return the parts of one candidate that are not 0."""
        return {name: round(float(column[index]), 4) for name, column in self.parts.items() if column[index]}


def rank(candidates: MemoryCandidates, query: ParsedQuery) -> Ranking:
    score = np.zeros(len(candidates))
    parts: dict[str, Column] = {}
    for name, scorer in SCORERS.items():
        parts[name] = scorer(candidates, query, score)
        score = score + parts[name]
    return Ranking(score, parts)


def best_places(score: Column, limit: int) -> list[int]:
    """Return the places of the best scores, best first, leaving out scores of minus infinity."""
    return [int(place) for place in np.argsort(-score, kind="stable")[:limit] if not np.isneginf(score[place])]
