"""A rotation of vectors after which their first numbers carry most of a dot product."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from engram.search.vectors.codes import Floats

#: Where the parts of a rotated row end, as shares of it. The first part is compared first; it holds four fifths of the
#: length of MiniLM's vectors.
_PART_ENDS = (1 / 3, 1 / 2, 1)


@dataclass(frozen=True, slots=True)
class Rotation:
    """New axes, the most informative first. Dot products stay the same."""

    #: Shape (dimension, dimension); its columns are the new axes.
    axes: Floats
    #: Which of the new numbers each part has.
    parts: tuple[slice, ...]

    @classmethod
    def fit(cls, moments: NDArray[np.float64]) -> Rotation:
        """Return the rotation for rows whose sum of outer products is ``moments``."""
        _, axes = np.linalg.eigh(moments)
        ends = [max(1, round(len(axes) * share)) for share in _PART_ENDS]
        parts = tuple(slice(start, stop) for start, stop in pairwise([0, *ends]))
        # A random rotation within each part gives its numbers one scale, so that few bits suit all of them.
        rotated = [axes[:, ::-1][:, part] @ _random_rotation(part.stop - part.start) for part in parts]
        return cls(np.ascontiguousarray(np.concatenate(rotated, axis=1), dtype=np.float32), parts)

    def apply(self, rows: Floats) -> Floats:
        """Return rotated rows."""
        rotated: Floats = rows @ self.axes
        return rotated

    def invert(self, rotated: Floats) -> Floats:
        """Return rotated rows in their original axes."""
        rows: Floats = rotated @ self.axes.T
        return rows


def second_moments(rows: NDArray[np.floating]) -> NDArray[np.float64]:
    """Return the sum of the outer products of ``rows``."""
    floats = rows.astype(np.float32)
    return (floats.T @ floats).astype(np.float64)


def _random_rotation(size: int) -> NDArray[np.float64]:
    """Return a random rotation of ``size`` dimensions, the same at each call."""
    return np.linalg.qr(np.random.default_rng(size).standard_normal((size, size)))[0]
