"""The vectors of memory.db in memory, brought up to date by reading only what is new."""

from __future__ import annotations

import threading
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from engram.embedding.stored import unpack_rows
from engram.models.store import Store
from engram.models.vectors import count_vectors, last_vector_seq, vector_owner_ids, vectors_since
from engram.search.vectors.index import VectorIndex

Floats = NDArray[np.float32]

#: The group of what every project may see.
EVERYONE = -1
#: Rows read from the database at a time: more than an exact index holds, so that a large one is packed at once.
_SLICE = 32_768


class LoadedVectors:
    """The matrix of one owner kind (p, e or n) and how far it was read. Any thread may call any method."""

    def __init__(self, owner: str, model: str, dimension: int) -> None:
        """Nothing is read before ``refresh``."""
        self._owner = owner
        self._model = model
        self._dimension = dimension
        self._index = VectorIndex(dimension)
        self._seq = 0
        #: False until what was there at first has been read.
        self.is_filled = False
        #: What the newest vector of all owners was when this was last brought up to date.
        self._newest = -1
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._index)

    @property
    def bytes_used(self) -> int:
        """Memory of the matrix, in bytes."""
        return self._index.bytes_used

    def refresh(self, store: Store) -> int:
        """Read what was written since the last time and drop what was forgotten; returns how many rows were read.

        The forgotten are found by counting, which takes 60 ms for a million vectors.
        """
        total = self.catch_up(store)
        if not self.is_filled:
            return total
        with self._lock:
            if count_vectors(store, self._owner) != len(self._index):
                self._drop_forgotten(store)
        return total

    def catch_up(self, store: Store) -> int:
        """Read what was written since the last time; returns how many rows. At once where nothing was.

        While another thread reads for the first time, which takes seconds for a large memory, nobody waits for it:
        a search finds what has been read so far.
        """
        newest = last_vector_seq(store)
        if newest == self._newest or not self._lock.acquire(blocking=self.is_filled):
            return 0
        try:
            total = 0
            if not self._seq:
                self._index.expect(count_vectors(store, self._owner))
            while count := self._read(store):
                total += count
            # Whatever was there when the newest was asked for has been read, of other owners too.
            self._seq, self._newest, self.is_filled = max(self._seq, newest), newest, True
            return total
        finally:
            self._lock.release()

    def _read(self, store: Store) -> int:
        """Read one slice of what is new; returns how many rows it had."""
        new = vectors_since(store, self._owner, self._model, self._seq, _SLICE)
        if not new:
            return 0
        seqs, ids, projects, stored = zip(*new, strict=True)
        groups = np.array([EVERYONE if one is None else one for one in projects], dtype=np.int32)
        if self._seq:
            self._index.remove(ids)
        self._index.add(ids, unpack_rows(stored, self._dimension), groups)
        self._seq = seqs[-1]
        return len(new)

    def search(self, query: Floats, limit: int, project: int | None, *, with_global: bool = True) -> dict[int, float]:
        """Id → cosine of the best ``limit`` ids, of one project (and what all may see) where it is named."""
        groups = None if project is None else [project, EVERYONE] if with_global else [project]
        ids, cosines = self._index.top(query, limit, groups=groups)
        return dict(zip(ids.tolist(), cosines.tolist(), strict=True))

    def scores_of(self, query: Floats, ids: Sequence[int]) -> dict[int, float]:
        """Id → cosine, nan for an id without a vector."""
        return dict(zip(ids, self._index.scores_of(query, ids).tolist(), strict=True)) if ids else {}

    def _drop_forgotten(self, store: Store) -> None:
        there = np.array(vector_owner_ids(store, self._owner), dtype=np.int64)
        self._index.remove(np.setdiff1d(self._index.ids, there))
