"""The older formula: 0.5 relevance, 0.3 recency, 0.2 access, over the newest 200 memories. Pure."""

from __future__ import annotations

import numpy as np

from engram.search.episodes.pool import Column, Pool
from engram.search.episodes.ranking import Ranked

#: Only so many of the newest memories are looked at.
NEWEST = 200
RELEVANCE, RECENCY, ACCESS = 0.5, 0.3, 0.2
#: Relevance of a single text hit, which cannot be scaled.
SINGLE_HIT = 0.5
#: Least relevance of a memory of high importance.
HIGH_FLOOR = 0.3
#: Recency falls from 1 to 0 over so many days.
RECENCY_DAYS = 30.0
_DAY_MS = 86_400_000.0


def rank_classic(pool: Pool, now_ms: int) -> Ranked:
    """Score all candidates by the older formula."""
    age_days = np.maximum(now_ms - pool.at_ms, 0.0) / _DAY_MS
    most = float(pool.access_count.max(initial=0.0))
    parts = {
        "relevance": RELEVANCE * _relevance(pool),
        "recency": RECENCY * np.maximum(0.0, 1.0 - age_days / RECENCY_DAYS),
        "access": ACCESS * (pool.access_count + 1.0) / (most + 1.0),
    }
    return Ranked(parts["relevance"] + parts["recency"] + parts["access"], parts)


def _relevance(pool: Pool) -> Column:
    """The mean of scaled BM25 and cosine (text alone where there are no vectors), from 0 to 1."""
    text = _scaled_text(pool.bm25)
    known = ~np.isnan(pool.cosine)
    near = np.maximum(np.nan_to_num(pool.cosine), 0.0)
    relevance = np.where(known, (text + near) / 2, text if not known.any() else text / 2)
    return np.asarray(np.where(pool.is_high, np.maximum(relevance, HIGH_FLOOR), relevance), dtype=np.float64)


def _scaled_text(bm25: Column) -> Column:
    """BM25 from 0 to 1 over the hits; a single one gets a half."""
    hit = bm25 > 0
    if hit.sum() == 0:
        return np.zeros(len(bm25))
    low, high = float(bm25[hit].min()), float(bm25[hit].max())
    if hit.sum() == 1 or high == low:
        return SINGLE_HIT * hit.astype(np.float64)
    return np.asarray(np.where(hit, (bm25 - low) / (high - low), 0.0), dtype=np.float64)
