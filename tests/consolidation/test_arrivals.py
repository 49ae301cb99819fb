"""New memories are settled among the old ones as soon as they are kept."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from engram.consolidation.consolidation_run import join_pairs
from engram.consolidation.tidying_steps import NAMED_COSINE
from engram.embedding.embedder import Embedder
from engram.embedding.hashed import HashedEmbedder
from engram.enums import Kind, Status
from engram.models.engine.transaction import Store
from engram.models.memories import memory_history, memory_records
from engram.models.memories.memory_records import Memory
from engram.search.searcher import Searcher
from engram.search.vectors.loaded_vectors import embed_missing
from engram.settings import Settings
from engram.system.clock import FixedClock

Keep = Callable[..., Memory]


def test_a_decision_that_gives_up_an_older_one_replaces_it_at_once(
    store: Store, settings: Settings, clock: FixedClock, keep: Keep
) -> None:
    old = keep("Decided: the cache lives in Redis")
    clock.advance(3600)
    new = keep("Decided: the cache lives in SQLite instead of Redis")

    told = join_pairs(store, settings, [(new.id, old.id, 0.7)], duplicate_cosine=0.92)

    found = memory_records.find_memory(store, old.episode_id)
    assert found is not None
    assert (found.status, found.superseded_by) == ("superseded", new.episode_id)
    assert len(told) == 1
    assert memory_history.history_of(store, old.episode_id)[-1].action == "supersede"


def test_what_is_there_already_takes_the_new_words_up_and_keeps_what_it_said(
    store: Store, settings: Settings, clock: FixedClock, keep: Keep
) -> None:
    old = keep("the queue is SQLite", kind=Kind.FACT)
    clock.advance(3600)
    new = keep("SQLite holds the queue", kind=Kind.FACT)

    join_pairs(store, settings, [(new.id, old.id, 0.95)], duplicate_cosine=0.92)

    found = memory_records.find_memory(store, old.episode_id)
    assert found is not None
    assert found.summary == "the queue is SQLite | SQLite holds the queue"
    assert memory_history.history_of(store, old.episode_id)[-1].before["summary"] == "the queue is SQLite"
    assert [e.episode_id for e in memory_records.all_memories(store) if e.status == Status.ACTIVE] == [old.episode_id]


def test_memories_of_one_extraction_are_not_compared_with_each_other(
    store: Store, settings: Settings, keep: Keep
) -> None:
    embedder = HashedEmbedder()
    old = keep("the queue lives in the SQLite file")
    new = [keep("the queue lives in a SQLite file"), keep("the queue lives in that SQLite file")]
    while embed_missing(store, embedder):
        pass
    searcher = Searcher(store, settings, embedder=embedder)
    searcher.refresh()

    pairs = searcher.similar_memories([one.id for one in new], 0.3)

    assert {(one, other) for one, other, _ in pairs} == {(one.id, old.id) for one in new}
    assert all(cosine >= 0.3 for _, _, cosine in pairs)
    assert searcher.similar_memories([], 0.3) == []
    assert Searcher(store, settings).similar_memories([new[0].id], 0.3) == []


@pytest.mark.model
def test_with_the_bundled_model_a_changed_mind_is_seen_at_once(
    store: Store, settings: Settings, clock: FixedClock, keep: Keep, bundled: Embedder
) -> None:
    old = keep("We deploy with Jenkins pipelines", kind=Kind.DECISION)
    keep("The parser is written by hand", kind=Kind.DECISION)
    clock.advance(3600)
    new = keep("We deploy with GitHub Actions from now on, no longer with Jenkins pipelines", kind=Kind.DECISION)
    while embed_missing(store, bundled):
        pass
    searcher = Searcher(store, settings, embedder=bundled)
    searcher.refresh()

    pairs = searcher.similar_memories([new.id], NAMED_COSINE)
    told = join_pairs(store, settings, pairs, duplicate_cosine=bundled.thresholds.duplicate)

    assert [line.split()[:2] for line in told] == [["supersede", old.episode_id]]
