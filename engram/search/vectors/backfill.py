"""Embed rows without a current vector: outside any transaction, then stored in a short one."""

from __future__ import annotations

import re

import numpy as np

from engram.embedding.embedder import Embedder
from engram.embedding.rows import unit_rows
from engram.models.store import Store
from engram.models.vectors import Missing, missing_vectors, put_vectors

#: Memories that are embedded at a time.
EPISODE_BATCH = 16
#: Memories that are embedded while a client waits.
NEWEST_EPISODES = 4
#: Maximum number of words of a prompt that are embedded with a passage of its reply.
MAX_PROMPT_WORDS = 60
#: The role in front of a text that names its own speaker, as in a chat.
_ROLE_BEFORE_SPEAKER = re.compile(r"(?:user|assistant): (?=[A-Z][\w .'-]{0,30}: )")


def embed_missing(store: Store, embedder: Embedder, limit: int = 64) -> int:
    """Embed up to ``limit`` rows without a current vector; return how many, 0 when none is left.

    Rows that are deleted meanwhile are skipped. Raises EmbeddingError as the embedder does.
    """
    missing = missing_vectors(store, embedder.model_id, limit)
    if not missing:
        return 0
    vectors = _embed(missing, embedder)
    with store.transaction() as tx:
        put_vectors(tx, embedder.model_id, vectors)
    return len(missing)


def embed_episodes(store: Store, embedder: Embedder) -> int:
    """Embed every memory without a current vector, and nothing else; return how many. Raises EmbeddingError."""
    total = 0
    while missing := [row for row in missing_vectors(store, embedder.model_id, EPISODE_BATCH) if row.owner == "e"]:
        vectors = _embed(missing, embedder)
        with store.transaction() as tx:
            put_vectors(tx, embedder.model_id, vectors)
        total += len(missing)
    return total


def embed_newest_episodes(store: Store, embedder: Embedder) -> int:
    """Embed the newest memories without a current vector, a few at most; return how many.

    So a memory is found by its meaning as soon as it was saved. Raises EmbeddingError.
    """
    missing = [row for row in missing_vectors(store, embedder.model_id, NEWEST_EPISODES) if row.owner == "e"]
    if not missing:
        return 0
    vectors = _embed(missing, embedder)
    with store.transaction() as tx:
        put_vectors(tx, embedder.model_id, vectors)
    return len(missing)


def embedding_texts(row: Missing) -> list[str]:
    """Return the texts whose mean vector stands for a row.

    Its own; for a reply also that with its prompt, for a memory also the questions that it answers.
    """
    own = _ROLE_BEFORE_SPEAKER.sub("", row.text, count=1) if row.owner == "p" else row.text
    if row.questions:
        return [own, " ".join(row.questions)]
    if not row.prompt:
        return [own]
    _, _, without_role = row.text.partition(": ")
    return [own, f"{' '.join(row.prompt.split()[:MAX_PROMPT_WORDS])}\n{without_role}"]


def _embed(missing: list[Missing], embedder: Embedder) -> list[tuple[str, int, int, bytes]]:
    """Return ``(owner, owner_id, piece, float16 bytes)``: the mean of a row's texts, scaled to length 1."""
    texts = [embedding_texts(row) for row in missing]
    rows = embedder.embed([text for row_texts in texts for text in row_texts])
    vectors, start = [], 0
    for row, row_texts in zip(missing, texts, strict=True):
        mean = unit_rows(rows[start : start + len(row_texts)].mean(axis=0, keepdims=True))[0]
        vectors.append((row.owner, row.owner_id, 0, mean.astype(np.float16).tobytes()))
        start += len(row_texts)
    return vectors
