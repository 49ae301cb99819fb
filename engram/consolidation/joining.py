"""Reconcile new memories with the others in the order in which they were said, whoever extracted them first."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from engram.consolidation.on_extract import SimilarTo, reconcile_new
from engram.models.store import Store
from engram.models.unjoined import join_horizon_ms, mark_joined, next_unjoined, rows_of_same_turn, unjoined_rows
from engram.settings import Settings


def join_waiting(
    store: Store,
    settings: Settings,
    similar_to: SimilarTo,
    bring_up_to_date: Callable[[], None],
    *,
    duplicate_cosine: float,
) -> list[str]:
    """Compare waiting memories with those that were said before them; returns a line for each change.

    A memory waits while an earlier turn is due or still open. So the result does not depend on the order in which
    sessions are extracted, nor on the number of workers.

    Args:
        store: the open memory.
        settings: limits and places.
        similar_to: finds similar memories.
        bring_up_to_date: embeds changed memories and loads their vectors.
        duplicate_cosine: cosine from which on two memories say the same; depends on the embedding model.
    """
    lines: list[str] = []
    horizon_ms = join_horizon_ms(store)
    while (memory := next_unjoined(store, horizon_ms)) is not None:
        hidden = unjoined_rows(store) | frozenset(rows_of_same_turn(store, memory.id))

        def similar(
            row_ids: Sequence[int], least: float, hidden: frozenset[int] = hidden
        ) -> list[tuple[int, int, float]]:
            pairs = [pair for pair in similar_to(row_ids, least) if pair[1] not in hidden]
            return sorted(pairs, key=lambda pair: (-round(pair[2], 4), pair[1]))

        # Without a session: its provisional memories are confirmed after its extraction.
        changes = reconcile_new(store, settings, "", [memory.id], similar, duplicate_cosine=duplicate_cosine)
        if changes:
            bring_up_to_date()
            lines += changes
        mark_joined(store, memory.id)
    return lines
