"""Which turns of a session are extracted together, in one transaction. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from engram.models.sessions import SessionRow, find_session
from engram.models.transaction import Reader
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


def within_project(session: SessionRow, turns: Sequence[StoredTurn]) -> tuple[SessionRow, list[StoredTurn]]:
    """Return the turns of the project whose turn is due first, and the session as what it is in that project.

    A session may work in several projects, and nothing that was said in one goes into the memories of another.
    """
    due = (turn for turn in turns if turn.extracted_revision < turn.revision)
    first = next(due, None) or next(iter(turns), None)
    if first is None or first.project_id == session.project_id:
        return session, [turn for turn in turns if turn.project_id == session.project_id]
    there = replace(session, project_id=first.project_id, is_global=False, rolling_summary="")
    return there, [turn for turn in turns if turn.project_id == first.project_id]


def is_at_home(store: Reader, session: SessionRow) -> bool:
    """True for a session as what it is in its own project: only there it has a summary."""
    stored = find_session(store, session.session_id)
    return stored is not None and stored.project_id == session.project_id


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
