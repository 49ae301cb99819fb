"""The vectors of memory.db in memory; only new ones are read to bring it up to date."""

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

#: The group of rows that every project may see.
GLOBAL_GROUP = -1
#: Rows read from the database at a time: more than an exact index has, so that a large one is quantised at once.
_SLICE_ROWS = 32_768
#: Rows whose mean cosine stands for that of all: the mean of more differs by less than 0.01.
_SAMPLED_ROWS = 512


class VectorCache:
    """The index of one owner kind (p, e or n), and how far it was read. Any thread may call any method."""

    def __init__(self, owner: str, model: str, dimension: int) -> None:
        """Create an empty cache; ``refresh`` fills it."""
        self._owner = owner
        self._model = model
        self._dimension = dimension
        self._index = VectorIndex(dimension)
        #: Sequence number of the last vector that was read.
        self._seq = 0
        #: False until everything that was stored at first has been read.
        self.is_filled = False
        #: The highest sequence number of all owners when this was last brought up to date.
        self._newest_seq = -1
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._index)

    @property
    def bytes_used(self) -> int:
        """Memory of the vectors, in bytes."""
        return self._index.bytes_used

    def refresh(self, store: Store) -> int:
        """Load new vectors and drop deleted ones; return the number of rows loaded.

        Deleted ones are noticed by counting, which takes 60 ms for a million vectors.
        """
        total = self.catch_up(store)
        if not self.is_filled:
            return total
        with self._lock:
            if count_vectors(store, self._owner) != len(self._index):
                self._drop_deleted(store)
        return total

    def catch_up(self, store: Store) -> int:
        """Load vectors written since the last call and return their number; returns immediately if there are none.

        While another thread fills the cache for the first time, which takes seconds for a large store, this returns 0
        at once: a search uses what has been loaded so far.
        """
        newest_seq = last_vector_seq(store)
        if newest_seq == self._newest_seq or not self._lock.acquire(blocking=self.is_filled):
            return 0
        try:
            total = 0
            if not self._seq:
                self._index.expect(count_vectors(store, self._owner))
            while count := self._load_slice(store):
                total += count
            # Everything up to newest_seq has been read, vectors of other owners included.
            self._seq, self._newest_seq, self.is_filled = max(self._seq, newest_seq), newest_seq, True
            return total
        finally:
            self._lock.release()

    def _load_slice(self, store: Store) -> int:
        """Load one slice of the new vectors; return its number of rows."""
        vectors = vectors_since(store, self._owner, self._model, self._seq, _SLICE_ROWS)
        if not vectors:
            return 0
        seqs, ids, projects, stored = zip(*vectors, strict=True)
        groups = np.array([GLOBAL_GROUP if project is None else project for project in projects], dtype=np.int32)
        if self._seq:
            self._index.remove(ids)
        self._index.add(ids, unpack_rows(stored, self._dimension), groups)
        self._seq = seqs[-1]
        return len(vectors)

    def search(self, query: Floats, limit: int, project: int | None, *, with_global: bool = True) -> dict[int, float]:
        """Return id → cosine of the best ``limit`` ids; only of ``project`` (and global ones) unless it is None."""
        groups = None if project is None else [project, GLOBAL_GROUP] if with_global else [project]
        ids, cosines = self._index.top(query, limit, groups=groups)
        return dict(zip(ids.tolist(), cosines.tolist(), strict=True))

    def usual_cosine(self, query: Floats, project: int | None) -> tuple[float, int]:
        """Return the mean cosine of the rows that a query of ``project`` sees, by a sample, and their number."""
        groups = None if project is None else [project, GLOBAL_GROUP]
        return self._index.mean_cosine(query, _SAMPLED_ROWS, groups=groups)

    def scores_of(self, query: Floats, ids: Sequence[int]) -> dict[int, float]:
        """Return id → cosine; NaN for an id without a vector."""
        return dict(zip(ids, self._index.scores_of(query, ids).tolist(), strict=True)) if ids else {}

    def _drop_deleted(self, store: Store) -> None:
        stored = np.array(vector_owner_ids(store, self._owner), dtype=np.int64)
        self._index.remove(np.setdiff1d(self._index.ids, stored))
