"""Sessions whose folder is not known yet: what was stored of them goes again where the folder may not be read."""

from __future__ import annotations

from collections.abc import Sequence

from engram.enums import Actor, Source
from engram.models.episode_changes import delete_episode
from engram.models.erasing import begin_anew
from engram.models.forgetting import episodes_resting_on
from engram.models.pauses import Span
from engram.models.sessions import SessionRow
from engram.models.store import Store
from engram.models.turns import withdraw_turn


def drop_unsettled_turns(store: Store, session: SessionRow, spans: Sequence[Span] | None) -> int:
    """Delete turns that were stored before the session's folder was known, with memories made of them; returns how many.

    Args:
        store: the open memory.
        session: a session that is not settled.
        spans: when the folder's project was paused; None where the folder is excluded, so that all turns go.
    """
    turns = [
        (int(turn_id), str(key))
        for turn_id, key, at_ms in store.rows(
            "SELECT id, key, started_at_ms FROM turn WHERE session_ref = ? ORDER BY id", (session.id,)
        )
        if spans is None or (at_ms is not None and any(begin <= at_ms < end for begin, end in spans))
    ]
    if not turns:
        return 0
    with store.transaction() as tx:
        for turn_id, key in turns:
            for episode in episodes_resting_on(store, [turn_id]):
                if episode.source == Source.AUTO:
                    delete_episode(tx, episode, actor=Actor.TIDYING)
            begin_anew(tx, turn_id)
            withdraw_turn(tx, key)
        tx.run("UPDATE session SET message_count = max(0, message_count - ?) WHERE id = ?", (len(turns), session.id))
    return len(turns)
