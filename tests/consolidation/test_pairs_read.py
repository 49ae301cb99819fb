"""What similar memories cost: each is read and split into words once, not once for every memory that it resembles."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence

import pytest
from counted_calls import calls_of

from engram.consolidation import tidying_steps
from engram.consolidation.step_context import Context
from engram.consolidation.tidying_steps import merge_near_duplicates, supersede_pairs
from engram.models.engine.transaction import Reader, Store
from engram.models.memories import memory_records
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


def test_after_a_change_only_the_pairs_that_follow_are_read_again(
    store: Store, settings: Settings, keep: Callable[..., Memory], monkeypatch: pytest.MonkeyPatch
) -> None:
    made = [keep(f"Part {number} is painted with the grey paint of the yard") for number in range(2 * MEMORIES)]
    pairs = [(first.id, second.id, 0.99) for first, second in zip(made[::2], made[1::2], strict=True)]
    read: list[int] = []
    by_row = memory_records.memories_by_row

    def count_rows(reader: Reader, row_ids: Sequence[int]) -> dict[int, Memory]:
        read.extend(row_ids)
        return by_row(reader, row_ids)

    monkeypatch.setattr(memory_records, "memories_by_row", count_rows)
    monkeypatch.setattr(tidying_steps, "_may_merge", lambda *_: True)
    context = Context(store, settings, similar=lambda *_: iter(pairs))
    merge_near_duplicates(context)

    assert len(context.lines) == len(pairs)
    assert len(read) <= 2 * len(made)
