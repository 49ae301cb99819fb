"""Rows of numbers checked and brought to length 1."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from engram.errors import EmbeddingError

#: A row shorter than this has no direction.
_SHORTEST = 1e-6


def unit_rows(rows: ArrayLike) -> NDArray[np.float32]:
    """``rows`` as float32, each of length 1; raises EmbeddingError where one is zero or not finite."""
    matrix = np.array(rows, dtype=np.float32, order="C")
    lengths = np.sqrt(np.einsum("ij,ij->i", matrix, matrix))
    if not np.isfinite(lengths).all():
        raise EmbeddingError("the embedding model answered with a number that is not finite")
    if lengths.size and lengths.min() < _SHORTEST:
        raise EmbeddingError("the embedding model answered with an empty vector")
    matrix /= lengths[:, np.newaxis]
    return matrix
