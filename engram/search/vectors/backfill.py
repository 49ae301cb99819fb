"""Give rows without a current vector one: think outside any transaction, then write in a short one."""

from __future__ import annotations

import numpy as np

from engram.embedding.embedder import Embedder
from engram.embedding.rows import unit_rows
from engram.models.store import Store
from engram.models.vectors import Missing, missing_vectors, put_vectors
from engram.search.vectors.embedding_text import texts_of

#: Memories that are embedded in one go.
EPISODES_AT_ONCE = 16


def embed_missing(store: Store, embedder: Embedder, limit: int = 64) -> int:
    """Embed up to ``limit`` rows that wait; returns how many were embedded, 0 when none is left.

    Rows that were forgotten meanwhile are passed over. Raises EmbeddingError as the embedder does.
    """
    waiting = missing_vectors(store, embedder.model_id, limit)
    if not waiting:
        return 0
    vectors = _rows_of(waiting, embedder)
    with store.transaction() as tx:
        put_vectors(tx, embedder.model_id, vectors)
    return len(waiting)


def embed_episodes(store: Store, embedder: Embedder) -> int:
    """Embed every memory that has no current vector, and nothing else; returns how many. Raises EmbeddingError."""
    done = 0
    while waiting := [
        missing for missing in missing_vectors(store, embedder.model_id, EPISODES_AT_ONCE) if missing.owner == "e"
    ]:
        vectors = _rows_of(waiting, embedder)
        with store.transaction() as tx:
            put_vectors(tx, embedder.model_id, vectors)
        done += len(waiting)
    return done


def _rows_of(waiting: list[Missing], embedder: Embedder) -> list[tuple[str, int, int, bytes]]:
    """``(owner, owner_id, piece, float16 bytes)``: the mean of a row's texts, brought to length 1."""
    texts = [texts_of(missing) for missing in waiting]
    rows = embedder.embed([text for some in texts for text in some])
    found, start = [], 0
    for missing, some in zip(waiting, texts, strict=True):
        mean = unit_rows(rows[start : start + len(some)].mean(axis=0, keepdims=True))[0]
        found.append((missing.owner, missing.owner_id, 0, mean.astype(np.float16).tobytes()))
        start += len(some)
    return found
