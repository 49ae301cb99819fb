"""Pairs of memories whose vectors agree, found in slices, so that the whole product never stands in memory."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from engram.models.store import Store
from engram.models.vectors import load_vectors

#: Rows compared with all others at a time.
_SLICE = 64
#: Pairs that are named at most: the most alike.
MOST_PAIRS = 5_000


def similar_pairs(store: Store, model: str, least_cosine: float) -> Iterator[tuple[int, int, float]]:
    """``(row id, row id, cosine)`` of episodes at least as alike as that, the most alike first."""
    loaded = load_vectors(store, "e", model)
    if not loaded:
        return
    ids = np.array([row[0] for row in loaded], dtype=np.int64)
    rows = np.stack([np.frombuffer(row[2], dtype=np.float16).astype(np.float32) for row in loaded])
    cosine, first, second = np.zeros(0, np.float32), np.zeros(0, np.int64), np.zeros(0, np.int64)
    for start in range(0, len(rows), _SLICE):
        product = rows[start : start + _SLICE] @ rows[start:].T
        one, other = np.nonzero(product >= least_cosine)
        keep = (one < other) & (ids[start + one] != ids[start + other])
        one, other = one[keep], other[keep]
        cosine = np.concatenate([cosine, product[one, other]])
        first, second = np.concatenate([first, start + one]), np.concatenate([second, start + other])
        best = np.argsort(-cosine, kind="stable")[:MOST_PAIRS]
        cosine, first, second = cosine[best], first[best], second[best]
        if len(cosine) == MOST_PAIRS:
            least_cosine = max(least_cosine, float(cosine[-1]))
    for place in range(len(cosine)):
        yield int(ids[first[place]]), int(ids[second[place]]), float(cosine[place])
