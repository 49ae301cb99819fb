"""The candidates of one search as columns, so that each step is a few lines of arithmetic."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from engram.enums import Importance
from engram.models.search_rows import EpisodeRow

Column = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Pool:
    """Candidates of one kind, ordered by row id; all columns have the same length."""

    ids: NDArray[np.int64]
    #: BM25, 0 where the text did not match.
    bm25: Column
    #: Cosine to the query; nan where there is no vector.
    cosine: Column
    #: Row id of the session; 0 for none.
    session: NDArray[np.int64]
    #: When it was said or made, in milliseconds since 1970; 0 where it is not known.
    at_ms: Column
    texts: tuple[str, ...]
    #: Says who said it, for passages.
    is_user: NDArray[np.bool_]
    #: superseded or archived.
    is_retired: NDArray[np.bool_]
    is_pinned: NDArray[np.bool_]
    is_high: NDArray[np.bool_]
    access_count: Column

    def __len__(self) -> int:
        return len(self.ids)


def pool_of_episodes(rows: Mapping[int, EpisodeRow], bm25: Mapping[int, float], cosine: Mapping[int, float]) -> Pool:
    """Episodes as a pool."""
    ids = sorted(rows)
    return Pool(
        ids=np.array(ids, dtype=np.int64),
        bm25=_column(ids, bm25, 0.0),
        cosine=_column(ids, cosine, np.nan),
        session=np.array([rows[i].session_ref for i in ids], dtype=np.int64),
        at_ms=np.array([rows[i].created_at_ms for i in ids], dtype=np.float64),
        texts=tuple(f"{rows[i].summary}\n{rows[i].entities}" for i in ids),
        is_user=np.zeros(len(ids), dtype=bool),
        is_retired=np.array([not rows[i].status.is_current for i in ids], dtype=bool),
        is_pinned=np.array([rows[i].is_pinned for i in ids], dtype=bool),
        is_high=np.array([rows[i].importance is Importance.HIGH for i in ids], dtype=bool),
        access_count=np.array([rows[i].access_count for i in ids], dtype=np.float64),
    )


def _column(ids: Sequence[int], values: Mapping[int, float], default: float) -> Column:
    return np.array([values.get(i, default) for i in ids], dtype=np.float64)
