"""What holds for every embedder, with and without a model."""

from __future__ import annotations

import threading

import numpy as np

from engram.embedding.embedder import Embedder

WORDS = [
    "the",
    "worker",
    "reads",
    "the",
    "queue",
    "while",
    "the",
    "watcher",
    "follows",
    "the",
    "files",
    "and",
    "hooks",
    "print",
    "bites",
]
LONG = "\n\n".join(f"Paragraph {number}. " + " ".join(WORDS) + "." for number in range(80))


def test_rows_are_float32_of_length_one(embedder: Embedder) -> None:
    rows = embedder.embed(["one text", "another text", LONG])

    assert rows.shape == (3, embedder.dimension)
    assert rows.dtype == np.float32
    assert np.allclose(np.linalg.norm(rows, axis=1), 1, atol=1e-5)


def test_a_query_is_one_vector_of_length_one(embedder: Embedder) -> None:
    vector = embedder.embed_query("where is the queue?")

    assert vector.shape == (embedder.dimension,)
    assert vector.dtype == np.float32
    assert abs(float(np.linalg.norm(vector)) - 1) < 1e-5


def test_no_texts_give_no_rows(embedder: Embedder) -> None:
    assert embedder.embed([]).shape == (0, embedder.dimension)


def test_rows_come_in_the_order_of_the_texts_however_they_are_batched(embedder: Embedder) -> None:
    texts = [" ".join(WORDS[: 1 + number % 11]) * (1 + number % 5) for number in range(40)]

    together = embedder.embed(texts)

    alone = np.stack([embedder.embed([text])[0] for text in texts])
    assert float((together * alone).sum(axis=1).min()) > 0.9999


def test_the_same_text_has_the_same_row_again(embedder: Embedder) -> None:
    assert np.array_equal(embedder.embed(["once more"]), embedder.embed(["once more"]))


def test_blank_texts_have_a_usable_row(embedder: Embedder) -> None:
    rows = embedder.embed(["", "   ", "\n\t", "...", "\x00"])

    assert np.isfinite(rows).all()
    assert np.allclose(np.linalg.norm(rows, axis=1), 1, atol=1e-5)


def test_text_that_is_not_valid_unicode_is_embedded(embedder: Embedder) -> None:
    rows = embedder.embed(["half a pair \ud83d and more", "a" * 5000, "語" * 3000])

    assert np.isfinite(rows).all()


def test_related_texts_are_closer_than_unrelated_ones(embedder: Embedder) -> None:
    query = embedder.embed_query("database connection timeout")

    near, far = embedder.embed(
        ["The database connection ran into a timeout.", "Paint the garden fence green in spring."]
    )

    assert float(query @ near) > float(query @ far) + 0.2


def test_thresholds_are_ordered(embedder: Embedder) -> None:
    thresholds = embedder.thresholds

    assert 0 < thresholds.relevance_floor < thresholds.same_topic < 1
    assert thresholds.same_topic <= thresholds.duplicate < 1


def test_the_model_id_is_a_short_name(embedder: Embedder) -> None:
    assert 0 < len(embedder.model_id) <= 80
    assert not set(embedder.model_id) & set(" /\\\n")


def test_what_a_text_says_beyond_the_limit_does_not_count(embedder: Embedder) -> None:
    filler = "word " * embedder.max_tokens * 2

    rows = embedder.embed([filler + "database", filler + "garden"])

    assert float(rows[0] @ rows[1]) > 0.9999


def test_several_threads_may_embed_at_once(embedder: Embedder) -> None:
    texts = [f"{word} {number}" for number, word in enumerate(WORDS)]
    expected = embedder.embed(texts)
    found: list[float] = []

    def embed() -> None:
        found.append(float((embedder.embed(texts) * expected).sum(axis=1).min()))

    threads = [threading.Thread(target=embed) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)

    assert len(found) == 4
    assert min(found) > 0.9999
