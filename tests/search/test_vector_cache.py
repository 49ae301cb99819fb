"""The vectors of memory.db in memory: what is new comes in, and nobody waits for the first reading."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from engram.embedding.hashed import HashedEmbedder
from engram.enums import Actor
from engram.models.engine.transaction import Store
from engram.models.memories.memory_changes import add_memory
from engram.models.memories.memory_records import Memory, new_memory_id
from engram.models.search.vector_rows import put_vectors
from engram.search.searcher import Searcher
from engram.search.vectors import loaded_vectors as cache_module
from engram.search.vectors.loaded_vectors import VectorCache
from engram.settings import Settings


def keep(store: Store, *rows: list[float]) -> list[int]:
    """One memory a row; returns their ids."""
    ids = []
    with store.transaction() as tx:
        for row in rows:
            made = add_memory(tx, Memory(new_memory_id(), "fact", "a summary", "text"), [], actor=Actor.MODEL)
            put_vectors(tx, "m", [("e", made.id, 0, np.array(row, dtype=np.float16).tobytes())])
            ids.append(made.id)
    return ids


def test_what_came_since_the_last_time_is_read(store: Store) -> None:
    vectors = VectorCache("e", "m", 2)
    (first,) = keep(store, [1, 0])
    vectors.refresh(store)
    (second,) = keep(store, [0, 1])

    assert vectors.catch_up(store) == 1
    assert list(vectors.search(np.array([0, 1], dtype=np.float32), 2, None)) == [second, first]


def test_nobody_waits_while_another_thread_reads_for_the_first_time(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second slice is held back: what the first one brought is found meanwhile."""
    first, second = keep(store, [1, 0], [0, 1])
    monkeypatch.setattr(cache_module, "_SLICE_ROWS", 1)
    reached, go_on = threading.Event(), threading.Event()
    asked = []
    plain = cache_module.vectors_since

    def held(*arguments: Any) -> Any:
        asked.append(arguments)
        if len(asked) == 2:
            reached.set()
            assert go_on.wait(60)
        return plain(*arguments)

    monkeypatch.setattr(cache_module, "vectors_since", held)
    vectors = VectorCache("e", "m", 2)
    reader = threading.Thread(target=vectors.refresh, args=(store,))
    reader.start()
    assert reached.wait(60)

    meanwhile = vectors.catch_up(store), vectors.refresh(store)
    found = list(vectors.search(np.array([0, 1], dtype=np.float32), 2, None))
    go_on.set()
    reader.join(60)

    assert meanwhile == (0, 0)
    assert found == [first]
    assert list(vectors.search(np.array([0, 1], dtype=np.float32), 2, None)) == [second, first]


def test_the_memory_that_it_takes_is_told(store: Store) -> None:
    vectors = VectorCache("e", "m", 2)
    keep(store, [1, 0])
    before = vectors.bytes_used

    vectors.refresh(store)

    assert vectors.bytes_used > before == 0


def test_a_question_reads_no_kind_of_vectors_for_the_first_time_while_another_thread_does(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    embedder = HashedEmbedder()
    keep(store, [1, 0])
    searcher = Searcher(store, Settings(home=tmp_path), embedder=embedder)
    reached, go_on = threading.Event(), threading.Event()
    plain = cache_module.last_vector_seq

    def held(store: Store) -> int:
        if threading.current_thread() is reader and not reached.is_set():
            reached.set()
            assert go_on.wait(60)
        return plain(store)

    monkeypatch.setattr(cache_module, "last_vector_seq", held)
    reader = threading.Thread(target=searcher.refresh)
    reader.start()
    assert reached.wait(60)
    with store.transaction() as tx:
        made = add_memory(tx, Memory(new_memory_id(), "fact", "a summary", "text"), [], actor=Actor.MODEL)
        put_vectors(tx, embedder.model_id, [("e", made.id, 0, np.ones(embedder.dimension, np.float16).tobytes())])

    meanwhile = searcher.catch_up(), searcher.refresh()
    go_on.set()
    reader.join(60)

    assert meanwhile == (0, 0)
    assert searcher.index_bytes > 0
    assert searcher.catch_up() == 0
