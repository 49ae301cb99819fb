"""Find pairs of memories with similar vectors, in tiles, so that neither all vectors nor all products are in memory."""

from __future__ import annotations

from collections.abc import Collection, Iterator

import numpy as np
from numpy.typing import NDArray

from engram.models.store import Store
from engram.models.vectors import vector_batches, vectors_of

#: Rows that are read at a time, and compared with the wanted ones.
_BATCH_ROWS = 2_048
#: Wanted rows that are compared at a time.
_SLICE_ROWS = 256
#: Maximum number of pairs: the most similar ones.
MAX_PAIRS = 5_000


def similar_pairs(
    store: Store, model: str, min_cosine: float, among: Collection[int] | None = None
) -> Iterator[tuple[int, int, float]]:
    """Yield ``(row id, row id, cosine)`` of memories at least as similar as ``min_cosine``, the most similar first.

    Of each pair the smaller row id comes first. Needs 2 bytes for each number of the vectors of ``among``.

    ``among``: only pairs that contain one of these row ids; None for all pairs.
    """
    if among is not None and not among:
        return
    wanted_ids, wanted = _wanted(store, model, among)
    cosine, first, second = np.zeros(0, np.float32), np.zeros(0, np.int64), np.zeros(0, np.int64)
    for batch in vector_batches(store, "e", model, _BATCH_ROWS):
        ids, stored = _matrix(batch)
        rows = stored.astype(np.float32).T
        is_wanted = np.isin(ids, wanted_ids)
        for start in range(0, len(wanted_ids), _SLICE_ROWS):
            left_ids = wanted_ids[start : start + _SLICE_ROWS]
            product = wanted[start : start + _SLICE_ROWS].astype(np.float32) @ rows
            left, right = np.nonzero(product >= min_cosine)
            if not len(left):
                continue
            one, other = left_ids[left], ids[right]
            # A pair of two wanted rows comes up twice; it is kept when its smaller id is on the left.
            keep = (one != other) & ((one < other) | ~is_wanted[right])
            cosine = np.concatenate([cosine, product[left, right][keep]])
            first = np.concatenate([first, np.minimum(one, other)[keep]])
            second = np.concatenate([second, np.maximum(one, other)[keep]])
            best = np.lexsort((second, first, -cosine))[:MAX_PAIRS]
            cosine, first, second = cosine[best], first[best], second[best]
            if len(cosine) == MAX_PAIRS:
                min_cosine = max(min_cosine, float(cosine[-1]))
    for number in range(len(cosine)):
        yield int(first[number]), int(second[number]), float(cosine[number])


def _wanted(store: Store, model: str, among: Collection[int] | None) -> tuple[NDArray[np.int64], NDArray[np.float16]]:
    """Row ids and vectors of the rows of which pairs are wanted."""
    if among is None:
        found = [_matrix(batch) for batch in vector_batches(store, "e", model, _BATCH_ROWS)]
    else:
        chosen = vectors_of(store, "e", model, list(among))
        found = [_matrix(chosen)] if chosen else []
    if not found:
        return np.zeros(0, np.int64), np.zeros((0, 0), np.float16)
    return np.concatenate([ids for ids, _ in found]), np.concatenate([rows for _, rows in found])


def _matrix(batch: list[tuple[int, int, bytes]]) -> tuple[NDArray[np.int64], NDArray[np.float16]]:
    ids = np.array([row_id for row_id, _, _ in batch], dtype=np.int64)
    return ids, np.frombuffer(b"".join(data for _, _, data in batch), dtype=np.float16).reshape(len(batch), -1)
