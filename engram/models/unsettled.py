"""Sessions whose folder is not known yet: what was stored of them goes again where the folder may not be read."""

from __future__ import annotations

from collections.abc import Sequence

from peewee import fn

from engram.enums import Actor, Source
from engram.models import tables
from engram.models.episode_changes import delete_episode
from engram.models.erasing import begin_anew
from engram.models.forgetting import episodes_resting_on
from engram.models.pauses import Span
from engram.models.sessions import SessionRow
from engram.models.store import Store
from engram.models.turn_changes import withdraw_turn


def drop_unsettled_turns(store: Store, session: SessionRow, spans: Sequence[Span] | None) -> int:
    """Delete turns that were stored before the session's folder was known, with memories made of them; returns how
    many.

    Args:
        store: the open memory.
        session: a session that is not settled.
        spans: when the folder's project was paused; None where the folder is excluded, so that all turns go.
    """
    turn, session_table = tables.Turn, tables.Session
    query = turn.select(turn.id, turn.key, turn.started_at_ms).where(turn.session == session.id).order_by(turn.id)
    turns = [row for row in store.fetch(query) if spans is None or _is_within(row.started_at_ms, spans)]
    if not turns:
        return 0
    with store.transaction() as tx:
        for row in turns:
            for episode in episodes_resting_on(store, [row.id]):
                if episode.source == Source.AUTO:
                    delete_episode(tx, episode, actor=Actor.TIDYING)
            begin_anew(tx, row.id)
            withdraw_turn(tx, row.key)
        messages_left = fn.MAX(0, session_table.message_count - len(turns))
        tx.run(session_table.update(message_count=messages_left).where(session_table.id == session.id))
    return len(turns)


def _is_within(at_ms: int | None, spans: Sequence[Span]) -> bool:
    return at_ms is not None and any(begin <= at_ms < end for begin, end in spans)
