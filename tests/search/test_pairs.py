"""Pairs of memories that say nearly the same, the most alike first, however many there are."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from bench.storing import load_vectors
from engram.enums import Actor
from engram.models.engine.transaction import Store
from engram.models.memories.memory_changes import add_memory
from engram.models.memories.memory_records import Memory, new_memory_id
from engram.models.open_memory import open_store
from engram.models.search.vector_rows import put_vectors
from engram.search.vectors import loaded_vectors
from engram.search.vectors.loaded_vectors import similar_pairs


def keep(store: Store, rows: np.ndarray) -> list[int]:
    """One memory a row; returns their ids."""
    ids = []
    with store.transaction() as tx:
        for number, row in enumerate(rows):
            made = add_memory(tx, Memory(new_memory_id(), "fact", f"memory {number}", "text"), [], actor=Actor.MODEL)
            unit = (row / np.linalg.norm(row)).astype(np.float16).tobytes()
            put_vectors(tx, "test", [("e", made.id, 0, unit)])
            ids.append(made.id)
    return ids


def test_each_pair_comes_once_and_the_most_alike_first(tmp_path: Path) -> None:
    with open_store(tmp_path / "memory.db") as store:
        one, two, three, _ = keep(store, np.array([[1, 0, 0.0], [1, 0.1, 0], [1, 0.3, 0], [0, 0, 1]]))

        found = list(similar_pairs(store, "test", 0.9))

    assert [pair[:2] for pair in found] == [(one, two), (two, three), (one, three)]
    assert [round(pair[2], 2) for pair in found] == [1.0, 0.98, 0.96]


@pytest.mark.parametrize(("batch", "part"), [(2_048, 256), (16, 7), (7, 16)])
def test_it_agrees_with_the_whole_product(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, batch: int, part: int
) -> None:
    monkeypatch.setattr(loaded_vectors, "_BATCH_ROWS", batch)
    monkeypatch.setattr(loaded_vectors, "_SLICE_ROWS", part)
    rows = np.random.default_rng(3).normal(size=(150, 8))
    with open_store(tmp_path / "memory.db") as store:
        ids = keep(store, rows)
        named = [(one, other) for one, other, _ in similar_pairs(store, "test", 0.8)]
        stored = np.array(
            [np.frombuffer(one[2], dtype=np.float16) for one in load_vectors(store, "e", "test")], np.float32
        )
    product = stored @ stored.T

    wanted = {(ids[a], ids[b]) for a in range(150) for b in range(a + 1, 150) if product[a, b] >= 0.8}

    assert set(named) == wanted
    assert len(named) == len(wanted)


def test_of_very_many_pairs_the_most_alike_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loaded_vectors, "_BATCH_ROWS", 32)
    rows = np.random.default_rng(4).normal(size=(140, 3)) * 0.05 + np.array([1.0, 0, 0])
    with open_store(tmp_path / "memory.db") as store:
        keep(store, rows)
        every = list(similar_pairs(store, "test", 0.5))
        monkeypatch.setattr(loaded_vectors, "MAX_PAIRS", 20)

        few = list(similar_pairs(store, "test", 0.5))

    assert few == every[:20]


def test_without_vectors_there_are_no_pairs(tmp_path: Path) -> None:
    with open_store(tmp_path / "memory.db") as store:
        assert list(similar_pairs(store, "test", 0.5)) == []


def test_asked_for_some_only_pairs_with_one_of_them_come(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loaded_vectors, "_BATCH_ROWS", 32)
    rows = np.random.default_rng(5).normal(size=(150, 8))
    with open_store(tmp_path / "memory.db") as store:
        ids = keep(store, rows)
        some = set(ids[::7])
        wanted = [pair for pair in similar_pairs(store, "test", 0.7) if some & set(pair[:2])]

        found = list(similar_pairs(store, "test", 0.7, some))
        none = list(similar_pairs(store, "test", 0.7, set()))

    assert [pair[:2] for pair in found] == [pair[:2] for pair in wanted]
    assert none == []
