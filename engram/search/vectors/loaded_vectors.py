"""Cache the vectors of memory.db in memory, embed rows that have none, and find similar pairs of memories."""

from __future__ import annotations

import threading
from collections.abc import Collection, Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from engram.embedding.embedder import Embedder
from engram.embedding.hashed import unit_rows
from engram.embedding.packed_vectors import unpack_rows
from engram.models.engine.transaction import Store
from engram.models.search.vector_rows import (
    Missing,
    count_vectors,
    last_vector_seq,
    missing_vectors,
    put_vectors,
    vector_batches,
    vector_owner_ids,
    vectors_of,
    vectors_since,
)
from engram.search.vectors.vector_index import VectorIndex
from engram.system.lazy_regex import lazy_regex

Floats = NDArray[np.float32]

#: The group of rows that every project may see.
GLOBAL_GROUP = -1
#: Number of rows read from the database at a time; more than an exact index holds, so that a large index is quantised
#: immediately.
_SLICE_ROWS = 32_768
#: Sample size for the mean cosine; the mean of more rows differs by less than 0.01.
_SAMPLED_ROWS = 512


class VectorCache:
    """The index for one kind of owner: p (passage), e (memory) or n (note). Thread-safe."""

    def __init__(self, owner: str, model: str, dimension: int) -> None:
        self._owner = owner
        self._model = model
        self._dimension = dimension
        self._index = VectorIndex(dimension)
        #: Sequence number of the last vector read.
        self._seq = 0
        #: False until all vectors that were stored at startup have been read.
        self.is_filled = False
        #: The highest sequence number across all kinds of owners at the last update.
        self._newest_seq = -1
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._index)

    @property
    def bytes_used(self) -> int:
        return self._index.bytes_used

    def refresh(self, store: Store) -> int:
        """Load new vectors and drop deleted ones; return the number of rows loaded.

        Deletions are detected by counting, which takes 60 ms for a million vectors.
        """
        total = self.catch_up(store)
        if not self.is_filled:
            return total
        with self._lock:
            if count_vectors(store, self._owner) != len(self._index):
                self._drop_deleted(store)
        return total

    def catch_up(self, store: Store) -> int:
        """Load vectors written since the last call and return how many; return immediately if there are none.

        While another thread fills the cache for the first time, which takes seconds for a large store, this returns 0
        immediately, so that a search uses what has been loaded so far.
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
            # Everything up to newest_seq has been read; vectors of other kinds of owners don't matter here.
            self._seq, self._newest_seq, self.is_filled = max(self._seq, newest_seq), newest_seq, True
            return total
        finally:
            self._lock.release()

    def _load_slice(self, store: Store) -> int:
        """Load the next new vectors, up to ``_SLICE_ROWS``; return how many."""
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

    def search(self, query: Floats, limit: int, project: int | None) -> dict[int, float]:
        """Return id → cosine for the best ``limit`` ids; unless it is None, only from ``project`` and global rows."""
        groups = None if project is None else [project, GLOBAL_GROUP]
        ids, cosines = self._index.top(query, limit, groups=groups)
        return dict(zip(ids.tolist(), cosines.tolist(), strict=True))

    def usual_cosine(self, query: Floats, project: int | None) -> tuple[float, int]:
        """Return the estimated mean cosine of the rows that ``project`` may see, and how many such rows there are."""
        groups = None if project is None else [project, GLOBAL_GROUP]
        return self._index.mean_cosine(query, _SAMPLED_ROWS, groups=groups)

    def scores_of(self, query: Floats, ids: Sequence[int]) -> dict[int, float]:
        """Return id → cosine; NaN for an id without a vector."""
        return dict(zip(ids, self._index.scores_of(query, ids).tolist(), strict=True)) if ids else {}

    def _drop_deleted(self, store: Store) -> None:
        stored = np.array(vector_owner_ids(store, self._owner), dtype=np.int64)
        self._index.remove(np.setdiff1d(self._index.ids, stored))


# -- Embed rows without a current vector: computed outside any transaction, then stored in a short one.

#: Number of memories embedded at a time.
MEMORY_BATCH = 16
#: Maximum number of memories embedded while a client waits.
NEWEST_MEMORIES = 4
#: Maximum number of words from a prompt that are embedded together with a passage of its reply.
MAX_PROMPT_WORDS = 60
#: A role that precedes a text which names its speaker itself, as in a chat.
_ROLE_BEFORE_SPEAKER = lazy_regex(r"(?:user|assistant): (?=[A-Z][\w .'-]{0,30}: )")


def embed_missing(store: Store, embedder: Embedder, limit: int = 64) -> int:
    """Embed up to ``limit`` rows without a current vector; return how many were embedded (0 if none was left).

    Rows that are deleted in the meantime are skipped. Raises EmbeddingError.
    """
    return _embed(store, embedder, missing_vectors(store, embedder.model_id, limit))


def embed_memories(store: Store, embedder: Embedder) -> int:
    """Embed every memory without a current vector, and nothing else; return how many. Raises EmbeddingError."""
    total = 0
    while number := _embed_some_memories(store, embedder, MEMORY_BATCH):
        total += number
    return total


def embed_newest_memories(store: Store, embedder: Embedder) -> int:
    """Embed the newest few memories without a current vector, so that semantic search finds a memory soon after saving.

    Return how many were embedded. Raises EmbeddingError.
    """
    return _embed_some_memories(store, embedder, NEWEST_MEMORIES)


def _embed_some_memories(store: Store, embedder: Embedder, limit: int) -> int:
    missing = missing_vectors(store, embedder.model_id, limit)
    return _embed(store, embedder, [row for row in missing if row.owner == "e"])


def embedding_texts(row: Missing) -> list[str]:
    """Return the texts whose mean vector represents a row.

    The first is the row's own text. The second is, for a reply, the same text preceded by its prompt, and for a memory,
    the questions that it answers.
    """
    own = _ROLE_BEFORE_SPEAKER.sub("", row.text, count=1) if row.owner == "p" else row.text
    if row.questions:
        return [own, " ".join(row.questions)]
    if not row.prompt:
        return [own]
    _, _, without_role = row.text.partition(": ")
    return [own, f"{' '.join(row.prompt.split()[:MAX_PROMPT_WORDS])}\n{without_role}"]


def _embed(store: Store, embedder: Embedder, missing: Sequence[Missing]) -> int:
    """Store a vector for each row: the mean of its texts' vectors, scaled to length 1. Return how many rows."""
    if not missing:
        return 0
    texts = [embedding_texts(row) for row in missing]
    rows = embedder.embed([text for row_texts in texts for text in row_texts])
    vectors, start = [], 0
    for row, row_texts in zip(missing, texts, strict=True):
        mean = unit_rows(rows[start : start + len(row_texts)].mean(axis=0, keepdims=True))[0]
        vectors.append((row.owner, row.owner_id, 0, mean.astype(np.float16).tobytes()))
        start += len(row_texts)
    with store.transaction() as tx:
        put_vectors(tx, embedder.model_id, vectors)
    return len(missing)


# -- Find pairs of memories with similar vectors, tile by tile, to limit the memory used for vectors and products.

#: Number of rows that are read at a time and compared with the wanted rows.
_BATCH_ROWS = 2_048
#: Number of wanted rows compared at a time.
_PAIR_ROWS = 256
#: Maximum number of pairs; the most similar are kept.
MAX_PAIRS = 5_000


def similar_pairs(
    store: Store, model: str, min_cosine: float, among: Collection[int] | None = None
) -> Iterator[tuple[int, int, float]]:
    """Yield ``(smaller row id, larger row id, cosine)`` for memories with at least ``min_cosine``, most similar first.

    Uses 2 bytes of memory for each number in the vectors of ``among``.

    ``among`` restricts the result to pairs that contain one of these row ids; None for all pairs.
    """
    if among is not None and not among:
        return
    wanted_ids, wanted = _wanted(store, model, among)
    cosine, first, second = np.zeros(0, np.float32), np.zeros(0, np.int64), np.zeros(0, np.int64)
    for batch in vector_batches(store, "e", model, _BATCH_ROWS):
        ids, stored = _matrix(batch)
        rows = stored.astype(np.float32).T
        is_wanted = np.isin(ids, wanted_ids)
        for start in range(0, len(wanted_ids), _PAIR_ROWS):
            left_ids = wanted_ids[start : start + _PAIR_ROWS]
            product = wanted[start : start + _PAIR_ROWS].astype(np.float32) @ rows
            left, right = np.nonzero(product >= min_cosine)
            if not len(left):
                continue
            one, other = left_ids[left], ids[right]
            # A pair of two wanted rows occurs twice; keep the one with the smaller id on the left.
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
    """Return the row ids and vectors of the rows whose pairs are wanted."""
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
