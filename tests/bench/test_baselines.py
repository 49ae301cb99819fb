"""The plain sum over pieces of 100 words that the code bench holds the search against."""

from __future__ import annotations

from pathlib import Path

from bench.baselines import ChunkBaseline
from bench.datasets import Chat, Unit
from bench.memories import write_chat
from engram.embedding.hashed import HashedEmbedder
from engram.models.open_memory import open_store
from engram.search.question import Query


def test_entries_are_cut_into_hundred_words_and_the_piece_that_tells_is_first(tmp_path: Path) -> None:
    told = " ".join(["word"] * 150) + " the queue lock is held by the loader"
    units = (Unit("u1", "s", "", told, 1, True), Unit("u2", "s", "", "Paint the button green.", 2, False))
    store = open_store(tmp_path / "memory.db")
    write_chat(store, Chat("c", units, ()))

    hits = ChunkBaseline(store, HashedEmbedder()).search(Query("Who holds the queue lock?", limit=2))

    assert len(hits[0].text.split()) == 58
    assert hits[0].evidence[0].uuid == "u1"
    assert len(hits) == 2
    store.close()
