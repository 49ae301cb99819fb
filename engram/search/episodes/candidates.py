"""The memories that a question may find, as columns: each scorer is a few lines of arithmetic."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from engram.enums import Importance
from engram.models.search_rows import EpisodeRow

#: One number for each candidate.
Column = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class EpisodeCandidates:
    """Memories in the order of their row ids; all columns have the same length."""

    ids: NDArray[np.int64]
    #: BM25; 0 if the text did not match.
    bm25: Column
    #: Cosine to the question; NaN for a memory without a vector.
    cosine: Column
    #: Row id of the session; 0 for none.
    session: NDArray[np.int64]
    #: When it was said, in milliseconds since 1970; 0 if unknown.
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
    rows: Mapping[int, EpisodeRow], bm25: Mapping[int, float], cosine: Mapping[int, float]
) -> EpisodeCandidates:
    """Return memories as columns. Each mapping is from a row id."""
    ids = sorted(rows)
    episodes = [rows[row_id] for row_id in ids]
    return EpisodeCandidates(
        ids=np.array(ids, dtype=np.int64),
        bm25=_column(ids, bm25, 0.0),
        cosine=_column(ids, cosine, np.nan),
        session=np.array([episode.session_ref for episode in episodes], dtype=np.int64),
        at_ms=np.array([episode.created_at_ms for episode in episodes], dtype=np.float64),
        texts=tuple(f"{episode.summary}\n{episode.entities}" for episode in episodes),
        is_retired=np.array([episode.is_lowered or not episode.status.is_current for episode in episodes], dtype=bool),
        is_pinned=np.array([episode.is_pinned for episode in episodes], dtype=bool),
        is_high=np.array([episode.importance is Importance.HIGH for episode in episodes], dtype=bool),
        access_count=np.array([episode.access_count for episode in episodes], dtype=np.float64),
    )


def _column(ids: Sequence[int], values: Mapping[int, float], default: float) -> Column:
    return np.array([values.get(row_id, default) for row_id in ids], dtype=np.float64)
