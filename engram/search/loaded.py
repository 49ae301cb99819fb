"""The vectors of memory.db in memory, brought up to date by reading only what is new."""

from __future__ import annotations

import threading

import numpy as np

from engram.models.store import Store
from engram.models.vectors import count_vectors, vector_owner_ids, vectors_since
from engram.search.matrix import EVERYONE, Floats, Matrix

#: Rows read from the database at a time.
_SLICE = 20_000


class LoadedVectors:
    """The matrix of one owner kind (p, e or n) and how far it was read. Any thread may call any method."""

    def __init__(self, owner: str, model: str, dimension: int) -> None:
        """Nothing is read before ``refresh``."""
        self._owner = owner
        self._model = model
        self._dimension = dimension
        self._matrix = Matrix(dimension)
        self._seq = 0
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._matrix)

    def refresh(self, store: Store) -> int:
        """Read what was written since the last time and drop what was forgotten; returns how many rows were read."""
        with self._lock:
            total = 0
            while rows := vectors_since(store, self._owner, self._model, self._seq, _SLICE):
                ids = np.array([row[1] for row in rows], dtype=np.int64)
                projects = np.array([EVERYONE if row[2] is None else row[2] for row in rows], dtype=np.int64)
                data = np.frombuffer(b"".join(row[3] for row in rows), dtype=np.float16)
                if self._seq:
                    self._matrix.remove(ids)
                self._matrix.add(ids, projects, data.reshape(len(rows), self._dimension).astype(np.float32))
                self._seq = rows[-1][0]
                total += len(rows)
            if count_vectors(store, self._owner) != len(self._matrix):
                self._drop_forgotten(store)
            return total

    def search(self, query: Floats, limit: int, project: int | None, *, with_global: bool = True) -> dict[int, float]:
        """Id → cosine; see ``Matrix.search``."""
        with self._lock:
            return self._matrix.search(query, limit, project, with_global=with_global)

    def _drop_forgotten(self, store: Store) -> None:
        there = np.array(vector_owner_ids(store, self._owner), dtype=np.int64)
        self._matrix.remove(np.setdiff1d(self._matrix.ids, there))
