"""After an extraction, settle the session and join new memories with older ones in chronological order."""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Iterator, Sequence

from engram.consolidation.step_context import Context
from engram.consolidation.tidying_steps import NAMED_COSINE, confirm_session, merge_near_duplicates, supersede_pairs
from engram.embedding.embedder import DUPLICATE_COSINE, Embedder, duplicate_cosine
from engram.enums import Actor, Status
from engram.extraction.local.open_work import LEAD
from engram.models.engine.transaction import Store
from engram.models.memories import memory_history
from engram.models.memories.branches import branches_of_memories
from engram.models.memories.judgements import is_kept_by_hand
from engram.models.memories.memory_history import history_of
from engram.models.memories.memory_records import Memory
from engram.models.memories.watermarks import (
    join_horizon_ms,
    mark_joined,
    next_unjoined,
    rows_of_same_turn,
    unjoined_rows,
)
from engram.models.search.memory_lists import current_states_of
from engram.models.sessions.recent_work import latest_sessions_on
from engram.models.sessions.stored_turns import LOCAL_PREFIX
from engram.search.searcher import Searcher
from engram.search.vectors.loaded_vectors import embed_memories
from engram.settings import Settings

#: The end of the recorded reason for archiving open work.
WENT_ON = "continued the work on the branch"


def end_open_work(context: Context) -> None:
    """Archive the open work of a session once a later session of the project has worked on the same branch.

    The later session records for itself what it leaves open. Memories that a person changed or restored are kept.
    """
    states = [
        memory
        for memory in current_states_of(context.store, LOCAL_PREFIX)
        if memory.summary.startswith(LEAD) and memory.project_id is not None and not is_kept_by_hand(memory)
    ]
    branches_of = branches_of_memories(context.store, [memory.id for memory in states])
    for memory in states:
        later = _went_on(context.store, memory, branches_of.get(memory.id, ()))
        is_settled = any(change.is_by_hand for change in history_of(context.store, memory.episode_id))
        if later and not is_settled and not context.is_undone("archive", memory):
            reason = f"session {later} {WENT_ON}"
            if context.change(memory, "archive", reason, actor=Actor.TIDYING, status=Status.ARCHIVED):
                context.add_line(f"archive {memory.episode_id} ({reason})")


def _went_on(store: Store, memory: Memory, branches: Collection[str]) -> str:
    """Return the id of the last session that worked on one of the branches after the memory's own; "" if there is none.

    A session that ran at the same time but ended earlier is ignored.
    """
    sessions = [row for branch in branches for row in latest_sessions_on(store, memory.project_id or 0, branch, 2)]
    own = max((row.last_at_ms for row in sessions if row.session_id == memory.session_id), default=0)
    since_ms = max(own, memory.created_at_ms)
    later = [row for row in sessions if row.session_id != memory.session_id and row.last_at_ms > since_ms]
    return max(later, key=lambda row: row.last_at_ms).session_id if later else ""


def settle_session(store: Store, settings: Settings, session_id: str) -> list[str]:
    """After an extraction, confirm the session's memories where possible, and archive open work that was continued.

    Return a line for each change.
    """
    with _run(store, settings) as context:
        confirm_session(context, session_id)
        end_open_work(context)
    return context.lines


def join_pairs(
    store: Store, settings: Settings, pairs: Sequence[tuple[int, int, float]], *, duplicate_cosine: float
) -> list[str]:
    """Join memories with similar ones; return a line for each change.

    A memory that says the same as another one is merged with it. A decision or preference that abandons or changes an
    older one supersedes the older one.

    Args:
        pairs: ``(row id, other row id, cosine)``, most similar first.
        duplicate_cosine: minimum cosine at which two memories are taken to say the same; it depends on the embedding
            model.
    """
    with _run(store, settings, duplicate_cosine) as context:
        supersede_pairs(context, pairs)
        context.similar = lambda least, _: iter([pair for pair in pairs if pair[2] >= least])
        merge_near_duplicates(context)
    return context.lines


@contextlib.contextmanager
def _run(store: Store, settings: Settings, duplicate_cosine: float = DUPLICATE_COSINE) -> Iterator[Context]:
    """Log the changes made in the block as a run, which ``undo_run`` can undo."""
    with store.transaction() as tx:
        run_id = memory_history.add_run(tx, "extract")
    context = Context(store, settings, run_id, duplicate_cosine=duplicate_cosine)
    yield context
    with store.transaction() as tx:
        memory_history.close_run(tx, run_id, context.lines)


def join_waiting(store: Store, settings: Settings, searcher: Searcher, embedder: Embedder | None) -> list[str]:
    """Join waiting memories with those that were said before them; return a line for each change.

    A memory waits while an earlier turn is due or still open. Therefore the result depends neither on the order in
    which sessions are extracted nor on the number of workers.
    """
    lines: list[str] = []
    horizon_ms = join_horizon_ms(store)
    while (memory := next_unjoined(store, horizon_ms)) is not None:
        hidden = frozenset([*unjoined_rows(store), *rows_of_same_turn(store, memory.id)])
        similar = searcher.similar_memories([memory.id], NAMED_COSINE)
        pairs = sorted((p for p in similar if p[1] not in hidden), key=lambda pair: (-round(pair[2], 4), pair[1]))
        changes = join_pairs(store, settings, pairs, duplicate_cosine=duplicate_cosine(embedder))
        if changes:
            if embedder is not None:
                embed_memories(store, embedder)
            searcher.refresh()
            lines += changes
        mark_joined(store, memory.id)
    return lines
