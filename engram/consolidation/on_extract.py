"""What has just been kept is compared with what is there: appended, replacing it, or confirming it, at once."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from engram.consolidation.confirm import confirm_session
from engram.consolidation.context import Context
from engram.consolidation.steps import merge_near_duplicates
from engram.consolidation.supersede import NAMED_COSINE, supersede_pairs
from engram.models import runs
from engram.models.store import Store
from engram.settings import Settings

#: ``(row ids, least cosine)`` → ``(row id, other row id, cosine)``, the most alike first, none within the row ids.
SimilarTo = Callable[[Sequence[int], float], list[tuple[int, int, float]]]


def reconcile_new(
    store: Store, settings: Settings, session_id: str, row_ids: Sequence[int], similar_to: SimilarTo, *,
    duplicate_cosine: float,
) -> list[str]:  # fmt: skip
    """Settle new memories among the old ones; returns a line a change.

    Every change keeps history and belongs to a run, which ``undo_run`` takes back.

    One that says what another of its place says is appended to it; a decision or preference that gives up or changes
    an older one replaces it; and what the session confirms of its own provisional memories becomes active. Memories
    of one extraction are compared with what was there before it, not with each other.

    Args:
        store: the open memory.
        settings: unchanged.
        session_id: the session that was extracted.
        row_ids: memories that came or changed.
        similar_to: finds what is alike.
        duplicate_cosine: from here on two memories say the same; belongs to the embedding model.
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
