"""Reconcile memories that were just extracted with existing ones: merge, supersede or confirm them at once."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from engram.consolidation.confirm import confirm_session
from engram.consolidation.context import Context
from engram.consolidation.steps import merge_near_duplicates
from engram.consolidation.supersede import NAMED_COSINE, supersede_pairs
from engram.models import runs
from engram.models.store import Store
from engram.settings import Settings

#: ``(row ids, minimum cosine)`` → ``(row id, other row id, cosine)``, the most similar first, no pair within the row
#: ids.
SimilarTo = Callable[[Sequence[int], float], list[tuple[int, int, float]]]


def reconcile_new(
    store: Store,
    settings: Settings,
    session_id: str,
    row_ids: Sequence[int],
    similar_to: SimilarTo,
    *,
    duplicate_cosine: float,
) -> list[str]:
    """Reconcile new memories with existing ones; returns a line for each change.

    A memory that says the same as another one is merged into it. A decision or preference that abandons or changes an
    older one supersedes it. Provisional memories that the session confirms become active. Memories of the same
    extraction are not compared with each other. Every change keeps history and belongs to a run, which ``undo_run``
    takes back.

    Args:
        store: the open memory.
        settings: limits and places.
        session_id: the session that was extracted.
        row_ids: new and changed memories.
        similar_to: finds similar memories.
        duplicate_cosine: cosine from which on two memories say the same; depends on the embedding model.
    """
    with store.transaction() as tx:
        run_id = runs.add_run(tx, "extract")
    context = Context(store, settings, run_id, duplicate_cosine=duplicate_cosine)
    pairs = similar_to(row_ids, NAMED_COSINE) if row_ids else []
    supersede_pairs(
        store, pairs, run_id=run_id, told=context.told, is_spared=lambda older: context.is_undone("supersede", older)
    )
    context.similar = lambda least, _: iter([pair for pair in pairs if pair[2] >= least])
    merge_near_duplicates(context)
    confirm_session(context, session_id)
    with store.transaction() as tx:
        runs.close_run(tx, run_id, context.told)
    return context.told
