"""``ranking = "classic"``: 0.5 relevance, 0.3 recency, 0.2 access, over the newest 200 memories. Pure."""

from __future__ import annotations

import numpy as np

from engram.search.episodes.candidates import Column, EpisodeCandidates
from engram.search.episodes.ranking import Ranking

#: Number of memories that are ranked: the newest.
MAX_CLASSIC_CANDIDATES = 200
RELEVANCE_WEIGHT, RECENCY_WEIGHT, ACCESS_WEIGHT = 0.5, 0.3, 0.2
#: Relevance of a single text match, which cannot be scaled.
SINGLE_MATCH_RELEVANCE = 0.5
#: Minimum relevance of a memory of high importance.
MIN_HIGH_RELEVANCE = 0.3
#: Recency falls from 1 to 0 over this number of days.
RECENCY_DAYS = 30.0
_DAY_MS = 86_400_000.0


def rank_classic(candidates: EpisodeCandidates, now_ms: int) -> Ranking:
    """Score all candidates by the classic formula."""
    age_days = np.maximum(now_ms - candidates.at_ms, 0.0) / _DAY_MS
    max_access = float(candidates.access_count.max(initial=0.0))
    parts = {
        "relevance": RELEVANCE_WEIGHT * _relevance(candidates),
        "recency": RECENCY_WEIGHT * np.maximum(0.0, 1.0 - age_days / RECENCY_DAYS),
        "access": ACCESS_WEIGHT * (candidates.access_count + 1.0) / (max_access + 1.0),
    }
    return Ranking(parts["relevance"] + parts["recency"] + parts["access"], parts)


def _relevance(candidates: EpisodeCandidates) -> Column:
    """Return the mean of scaled BM25 and cosine (BM25 alone if there are no vectors), from 0 to 1."""
    text = _scaled_bm25(candidates.bm25)
    has_vector = ~np.isnan(candidates.cosine)
    cosine = np.maximum(np.nan_to_num(candidates.cosine), 0.0)
    relevance = np.where(has_vector, (text + cosine) / 2, text if not has_vector.any() else text / 2)
    return np.asarray(
        np.where(candidates.is_high, np.maximum(relevance, MIN_HIGH_RELEVANCE), relevance), dtype=np.float64
    )


def _scaled_bm25(bm25: Column) -> Column:
    """Return BM25 scaled to 0..1 over the matches."""
    is_match = bm25 > 0
    if is_match.sum() == 0:
        return np.zeros(len(bm25))
    low, high = float(bm25[is_match].min()), float(bm25[is_match].max())
    if is_match.sum() == 1 or high == low:
        return SINGLE_MATCH_RELEVANCE * is_match.astype(np.float64)
    return np.asarray(np.where(is_match, (bm25 - low) / (high - low), 0.0), dtype=np.float64)
