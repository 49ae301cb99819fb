"""Pairs of memories whose vectors agree, found in slices, so that the whole product never stands in memory."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from engram.models.store import Store
from engram.models.vectors import load_vectors

#: Rows compared with all others at a time.
_SLICE = 512
#: Pairs that are named at most.
MOST_PAIRS = 5_000


def similar_pairs(store: Store, model: str, least_cosine: float) -> Iterator[tuple[int, int, float]]:
    """``(row id, row id, cosine)`` of episodes at least as alike as that, the most alike first."""
    loaded = load_vectors(store, "e", model)
    if not loaded:
        return
    ids = [row[0] for row in loaded]
    rows = np.stack([np.frombuffer(row[2], dtype=np.float16).astype(np.float32) for row in loaded])
    found: list[tuple[float, int, int]] = []
    for start in range(0, len(rows), _SLICE):
        cosines = rows[start : start + _SLICE] @ rows.T
        for one, other in np.argwhere(cosines >= least_cosine):
            first, second = start + int(one), int(other)
            if first < second and ids[first] != ids[second]:
                found.append((float(cosines[one, other]), ids[first], ids[second]))
    found.sort(key=lambda pair: -pair[0])
    for cosine, first_id, second_id in found[:MOST_PAIRS]:
        yield first_id, second_id, cosine
