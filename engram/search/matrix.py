"""Vectors in memory: one growing matrix a kind, searched as a whole."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32]
Ids = NDArray[np.int64]

#: Stands for "every project may see it".
EVERYONE = -1


class Matrix:
    """Rows of length 1 with the id and the project of each; an id may have several rows, the best counts."""

    def __init__(self, dimension: int) -> None:
        """An empty matrix of ``dimension`` columns."""
        self._rows: Floats = np.zeros((0, dimension), dtype=np.float32)
        self._ids: Ids = np.zeros(0, dtype=np.int64)
        self._projects: Ids = np.zeros(0, dtype=np.int64)
        self._size = 0

    def __len__(self) -> int:
        return self._size

    @property
    def ids(self) -> Ids:
        """The id of each row."""
        return self._ids[: self._size]

    def add(self, ids: Ids, projects: Ids, rows: Floats) -> None:
        """Put rows in; rows that an id had before stay (remove them first)."""
        needed = self._size + len(ids)
        if needed > len(self._ids):
            self._grow(max(needed, 2 * len(self._ids), 1024))
        self._rows[self._size : needed] = rows
        self._ids[self._size : needed] = ids
        self._projects[self._size : needed] = projects
        self._size = needed

    def remove(self, ids: Ids) -> None:
        """Take all rows of some ids out."""
        if not len(ids) or not self._size:
            return
        keep = np.flatnonzero(~np.isin(self.ids, ids))
        if len(keep) == self._size:
            return
        self._rows[: len(keep)] = self._rows[keep]
        self._ids[: len(keep)] = self._ids[keep]
        self._projects[: len(keep)] = self._projects[keep]
        self._size = len(keep)

    def search(
        self, query: Floats, limit: int, project: int | None = None, *, with_global: bool = True
    ) -> dict[int, float]:
        """Id → cosine of the best ``limit`` ids, of one project (and everyone's rows) where it is named."""
        if not self._size:
            return {}
        scores = self._rows[: self._size] @ query
        if project is not None:
            projects = self._projects[: self._size]
            seen = (projects == project) | (projects == EVERYONE) if with_global else projects == project
            scores = np.where(seen, scores, -2.0)
        best = np.argpartition(-scores, min(limit * 2, self._size - 1))[: limit * 2]
        found: dict[int, float] = {}
        for index in best[np.argsort(-scores[best], kind="stable")]:
            if scores[index] > -1.5 and len(found) < limit:
                found.setdefault(int(self._ids[index]), float(scores[index]))
        return found

    def _grow(self, capacity: int) -> None:
        for name in ("_rows", "_ids", "_projects"):
            old = getattr(self, name)
            new = np.zeros((capacity, *old.shape[1:]), dtype=old.dtype)
            new[: self._size] = old[: self._size]
            setattr(self, name, new)
