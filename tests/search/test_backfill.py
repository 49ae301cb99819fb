"""What a vector is made of."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from engram.embedding.hashed import HashedEmbedder
from engram.models.engine.transaction import Store
from engram.models.memories.memory_records import Memory
from engram.models.search.vector_rows import Missing, vectors_of
from engram.search.vectors.loaded_vectors import embed_missing, embedding_texts


def test_a_reply_is_embedded_with_its_prompt_and_a_memory_with_its_questions() -> None:
    assert embedding_texts(Missing("p", 1, "assistant: it was cold", prompt="why?")) == [
        "assistant: it was cold",
        "why?\nit was cold",
    ]
    assert embedding_texts(Missing("e", 1, "It was cold", questions=("Why?", "When?"))) == ["It was cold", "Why? When?"]
    assert embedding_texts(Missing("e", 1, "It was cold")) == ["It was cold"]


def test_a_memory_is_nearer_to_what_its_questions_ask(store: Store, keep: Callable[..., Memory]) -> None:
    embedder = HashedEmbedder()
    plain, asked = keep("zebra"), keep("zebra", questions=("Which animal barks?",))

    assert embed_missing(store, embedder) == 2

    stored = {row_id: data for row_id, _, data in vectors_of(store, "e", embedder.model_id, [plain.id, asked.id])}
    question = embedder.embed_query("Which animal barks?")
    cosines = {row_id: float(np.frombuffer(data, np.float16) @ question) for row_id, data in stored.items()}
    assert cosines[asked.id] > cosines[plain.id] + 0.3
    assert np.linalg.norm(np.frombuffer(stored[asked.id], np.float16)) < 1.01
