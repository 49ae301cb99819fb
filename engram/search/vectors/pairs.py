"""Pairs of memories whose vectors agree, found in slices, so that the whole product never stands in memory."""

from __future__ import annotations

from collections.abc import Collection, Iterator

import numpy as np

from engram.models.store import Store
from engram.models.vectors import load_vectors

#: Rows compared with all others at a time.
_SLICE = 64
#: Pairs that are named at most: the most alike.
MOST_PAIRS = 5_000


def similar_pairs(
    store: Store, model: str, least_cosine: float, among: Collection[int] | None = None
) -> Iterator[tuple[int, int, float]]:
    """``(row id, row id, cosine)`` of episodes at least as alike as that, the most alike first.

    ``among``: only pairs that hold one of these row ids; None for all pairs.
    """
    loaded = load_vectors(store, "e", model) if among is None or among else []
    if not loaded:
        return
    ids = np.array([row[0] for row in loaded], dtype=np.int64)
    rows = np.stack([np.frombuffer(row[2], dtype=np.float16).astype(np.float32) for row in loaded])
    is_asked = np.ones(len(ids), bool) if among is None else np.isin(ids, np.fromiter(among, np.int64, len(among)))
    asked = np.flatnonzero(is_asked)
    cosine, first, second = np.zeros(0, np.float32), np.zeros(0, np.int64), np.zeros(0, np.int64)
    for start in range(0, len(asked), _SLICE):
        some = asked[start : start + _SLICE]
        product = rows[some] @ rows.T
        place, other = np.nonzero(product >= least_cosine)
        one = some[place]
        # A pair of two that are asked for comes twice: it counts from the first of them.
        keep = (ids[one] != ids[other]) & ((one < other) | ~is_asked[other])
        cosine = np.concatenate([cosine, product[place, other][keep]])
        first = np.concatenate([first, np.minimum(one, other)[keep]])
        second = np.concatenate([second, np.maximum(one, other)[keep]])
        best = np.lexsort((second, first, -cosine))[:MOST_PAIRS]
        cosine, first, second = cosine[best], first[best], second[best]
        if len(cosine) == MOST_PAIRS:
            least_cosine = max(least_cosine, float(cosine[-1]))
    for number in range(len(cosine)):
        yield int(ids[first[number]]), int(ids[second[number]]), float(cosine[number])
