"""What similar memories cost: each is read and split into words once, not once for every memory that it resembles."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import pytest
from counted_calls import calls_of

from engram.consolidation.step_context import Context
from engram.consolidation.tidying_steps import merge_near_duplicates, supersede_pairs
from engram.models.engine.transaction import Reader, Store
from engram.models.memories.memory_records import Memory
from engram.settings import Settings
from engram.text import words

MEMORIES = 24


@pytest.mark.parametrize("step", ["supersede", "merge"])
def test_similar_memories_are_read_in_batches_and_split_into_words_once(
    step: str, store: Store, settings: Settings, keep: Callable[..., Memory]
) -> None:
    made = [
        keep(f"Part {number} of the hull is painted with the grey paint of yard {number}") for number in range(MEMORIES)
    ]
    pairs = [(first.id, second.id, 0.95) for first, second in itertools.combinations(made, 2)]
    context = Context(store, settings, similar=lambda *_: iter(pairs))
    words.words_of.cache_clear()

    def tidy() -> None:
        supersede_pairs(context, pairs) if step == "supersede" else merge_near_duplicates(context)

    reads = Reader.fetch_records.__code__
    assert calls_of(tidy, reads) < len(pairs) / 10
    assert context.lines == []
    assert calls_of(tidy, words.stem.__code__) < 1
    words.words_of.cache_clear()
    assert calls_of(tidy, words.stem.__code__) < 12 * MEMORIES
