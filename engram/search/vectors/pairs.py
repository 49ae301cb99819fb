"""Find pairs of memories with similar vectors, in slices, so that the whole product is never in memory."""

from __future__ import annotations

from collections.abc import Collection, Iterator

import numpy as np

from engram.models.store import Store
from engram.models.vectors import load_vectors

#: Rows compared with all others at a time.
_SLICE_ROWS = 64
#: Maximum number of pairs: the most similar ones.
MAX_PAIRS = 5_000


def similar_pairs(
    store: Store, model: str, min_cosine: float, among: Collection[int] | None = None
) -> Iterator[tuple[int, int, float]]:
    """Yield ``(row id, row id, cosine)`` of memories at least as similar as ``min_cosine``, the most similar first.

    ``among``: only pairs that contain one of these row ids; None for all pairs.
    """
    loaded = load_vectors(store, "e", model) if among is None or among else []
    if not loaded:
        return
    ids = np.array([row_id for row_id, _, _ in loaded], dtype=np.int64)
    rows = np.stack([np.frombuffer(data, dtype=np.float16).astype(np.float32) for _, _, data in loaded])
    is_wanted = np.ones(len(ids), bool) if among is None else np.isin(ids, np.fromiter(among, np.int64, len(among)))
    wanted = np.flatnonzero(is_wanted)
    cosine, first, second = np.zeros(0, np.float32), np.zeros(0, np.int64), np.zeros(0, np.int64)
    for start in range(0, len(wanted), _SLICE_ROWS):
        slice_places = wanted[start : start + _SLICE_ROWS]
        product = rows[slice_places] @ rows.T
        slice_row, right = np.nonzero(product >= min_cosine)
        left = slice_places[slice_row]
        # A pair of two wanted rows comes up twice; it is kept when its first row comes up.
        keep = (ids[left] != ids[right]) & ((left < right) | ~is_wanted[right])
        cosine = np.concatenate([cosine, product[slice_row, right][keep]])
        first = np.concatenate([first, np.minimum(left, right)[keep]])
        second = np.concatenate([second, np.maximum(left, right)[keep]])
        best = np.lexsort((second, first, -cosine))[:MAX_PAIRS]
        cosine, first, second = cosine[best], first[best], second[best]
        if len(cosine) == MAX_PAIRS:
            min_cosine = max(min_cosine, float(cosine[-1]))
    for number in range(len(cosine)):
        yield int(ids[first[number]]), int(ids[second[number]]), float(cosine[number])
