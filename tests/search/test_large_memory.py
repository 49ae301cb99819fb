"""What keeps a search fast in a large memory: few rows scored, few rows read, nothing counted that need not be."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from bench.synthetic import SyntheticMemory
from bench.text_generator import TextGenerator, sentences_of
from engram.embedding.hashed import HashedEmbedder
from engram.enums import Actor
from engram.models.engine.transaction import Store
from engram.models.memories.memory_changes import add_memory, delete_memory
from engram.models.memories.memory_records import Memory, new_memory_id
from engram.models.open_memory import open_store
from engram.models.projects.projects import ensure_project
from engram.models.search import fulltext
from engram.models.search.fulltext import document_counts, match_expression, search_memories
from engram.search.question import LARGE_INDEX_ROWS, MAX_SINGLE_TERM_ROWS, MAX_TERMS, select_terms
from engram.search.searcher import Query, Searcher
from engram.search.vectors.loaded_vectors import embed_missing
from engram.search.vectors.row_blocks import BLOCK_ROWS, ExactBlock
from engram.settings import Settings

TOTAL = 100 * LARGE_INDEX_ROWS


def save(store: Store, summary: str, *, project: str = "", scope: str = "project") -> Memory:
    with store.transaction() as tx:
        row = ensure_project(tx, f"id-{project}", project) if project else None
        memory = Memory(
            new_memory_id(), "fact", summary, summary, project_id=row.id if row else None, project=project, scope=scope
        )
        return add_memory(tx, memory, [], actor=Actor.MODEL)


def test_the_rarest_terms_count_alone_and_the_others_two_by_two() -> None:
    counts = {"rare": 100, "seldom": MAX_SINGLE_TERM_ROWS - 200, "some": 9_000, "more": 10_000, "odd": 11_000}

    assert select_terms(list(counts), counts, TOTAL) == ["rare", "seldom", ("some", "more")]


def test_a_single_term_is_asked_however_common_it_is() -> None:
    counts = {"everywhere": TOTAL // 2}

    assert select_terms(["everywhere"], counts, TOTAL) == ["everywhere"]


def test_a_small_memory_is_asked_for_every_term_alone() -> None:
    counts = {f"t{number}": 5_000 + number for number in range(20)}

    assert select_terms(list(counts), counts, LARGE_INDEX_ROWS) == list(counts)[:MAX_TERMS]


def test_terms_that_must_stand_together_are_one_condition() -> None:
    assert match_expression(["lock", ("queue", "the loader"), ("", "!")]) == '"lock" OR ("queue" AND "the loader")'


def test_a_row_with_both_terms_of_a_pair_is_found_and_one_with_either_is_not(store: Store) -> None:
    both = save(store, "the queue has a lock")
    save(store, "the queue is long")

    assert [row for row, _ in search_memories(store, [("queue", "lock")], 10)] == [both.id]


def test_common_terms_are_counted_about_right_and_rare_ones_exactly(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fulltext, "COUNTED_ROWS", 10)
    for number in range(60):
        save(store, f"every {'third' if number % 3 == 0 else 'other'} {'once' if number == 40 else ''}")

    counts = document_counts(store, "episode_fts", ["every", "third", "once", "never"], 60)

    assert counts["every"] == 60
    assert 18 <= counts["third"] <= 22
    assert (counts["once"], counts["never"]) == (1, 0)


def test_the_best_memories_of_a_project_come_first_also_where_others_have_better_ones(store: Store) -> None:
    for _ in range(30):
        save(store, "parser parser parser", project="other")
    worse = save(store, "the parser and many further words about it all", project="app")
    better = save(store, "parser", project="app")
    everyones = save(store, "the parser of everyone and its further words about it", scope="global")
    assert worse.project_id is not None

    rows = search_memories(store, ["parser"], 10, project_id=worse.project_id)

    assert [score for _, score in rows] == sorted((score for _, score in rows), reverse=True)
    assert rows[0][0] == better.id
    assert {row for row, _ in rows} == {worse.id, better.id, everyones.id}


def test_what_is_new_is_caught_up_with_and_what_is_forgotten_is_never_shown(store: Store) -> None:
    embedder = HashedEmbedder()
    searcher = Searcher(store, Settings(), embedder=embedder)
    kept, forgotten = save(store, "the lock of the queue"), save(store, "the queue and its lock")
    embed_missing(store, embedder)
    assert searcher.catch_up() == 2
    assert searcher.catch_up() == 0

    with store.transaction() as tx:
        delete_memory(tx, forgotten, actor=Actor.USER)
    searcher.catch_up()
    assert [hit.id for hit in searcher.recall(Query("lock of the queue"))] == [kept.episode_id]

    searcher.refresh()
    assert [row for row, _, _ in [*searcher.similar_memories([kept.id], -1.0)]] == []


def test_ids_are_found_in_a_block_however_they_lie(monkeypatch: pytest.MonkeyPatch) -> None:
    numbers = np.random.default_rng(1)
    ids = numbers.integers(0, 6_000, 5_000)
    block = ExactBlock(2)
    block.append(ids[:4_000], np.zeros(4_000, np.int32), np.zeros((4_000, 2)))
    block.alive[::7] = False
    wanted = np.unique(numbers.integers(-10, 7_000, 900))

    for count in (4_000, 3_000):
        expected = np.flatnonzero(np.isin(ids[:count], wanted) & block.alive[:count])
        assert block.find(count, wanted).tolist() == expected.tolist()
    block.append(ids[4_000:], np.zeros(1_000, np.int32), np.zeros((1_000, 2)))
    expected = np.flatnonzero(np.isin(ids, wanted) & block.alive[:5_000])
    assert block.find(5_000, wanted).tolist() == expected.tolist()
    assert block.find(5_000, np.array([-1, 9_999])).tolist() == []
    assert BLOCK_ROWS <= 1 << 16, "places of a block are kept in 16 bits"


def test_made_up_memories_grow_and_are_the_same_each_time(tmp_path: Path) -> None:
    embedder, found = HashedEmbedder(), []
    for name in ("one", "two"):
        with open_store(tmp_path / f"{name}.db") as store:
            made = SyntheticMemory(texts=TextGenerator(topics=3), max_memories=70)
            made.fill(store, 60, embedder)
            made.fill(store, 110, embedder)
            searcher = Searcher(store, Settings(), embedder=embedder)
            assert searcher.refresh() == made.vector_count == 70 + 2 * 110
            assert made.memory_count == 70
            found.append([hit.text for hit in searcher.recall(Query(made.question(), limit=50))])

    assert found[0] == found[1]
    assert found[0]


def test_texts_may_be_put_together_from_real_sentences() -> None:
    sentences = sentences_of(["One short. The loader holds the lock for long.\nIt lets go of it at the very end."])

    assert sentences == ["The loader holds the lock for long.", "It lets go of it at the very end."]
    assert len(TextGenerator(topics=2, sentences=sentences).text(20, 1).split()) == 20
