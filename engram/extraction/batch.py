"""Which turns of a session are extracted together, in one transaction. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from engram.models.turns import StoredTurn

#: Maximum number of due turns in a batch; bounds memory and how long the write lock is held.
BATCH_TURNS = 60


@dataclass(frozen=True, slots=True)
class Batch:
    """The turns of a batch, within their session."""

    #: Turns to propose candidates from: the due ones, and for a repeatable extractor those before and between them.
    turns: tuple[StoredTurn, ...] = ()
    #: The session's turns after them; empty for an extractor that is not repeatable.
    after: tuple[StoredTurn, ...] = ()

    @property
    def due(self) -> tuple[StoredTurn, ...]:
        """The turns that grew since they were extracted."""
        return tuple(turn for turn in self.turns if turn.extracted_revision < turn.revision)


def next_batch(turns: Sequence[StoredTurn]) -> Batch:
    """Return the next batch of a session for a repeatable extractor; an empty one if no turn is due.

    Only the best passages of a session are kept, and the candidates of a turn depend on the turns before it and on the
    prompt after it. So the batch begins with the session, and ends with it or where the next batch begins.

    Args:
        turns: every turn of the session.
    """
    due = [place for place, turn in enumerate(turns) if turn.extracted_revision < turn.revision]
    if not due:
        return Batch()
    stop = due[BATCH_TURNS] if len(due) > BATCH_TURNS else len(turns)
    return Batch(turns=tuple(turns[:stop]), after=tuple(turns[stop:]))
