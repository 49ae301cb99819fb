"""Memories that were kept but not compared with the others yet, in the order in which they are to be."""

from __future__ import annotations

from collections.abc import Collection

from peewee import SQL

from engram.models import tables
from engram.models.episodes import Episode, select_episodes
from engram.models.store import Store
from engram.models.transaction import Reader, Tx

#: How long nothing is joined that is younger than a turn which is still open, in milliseconds.
OPEN_TURN_MS = 1_200_000


def mark_unjoined(tx: Tx, row_id: int) -> None:
    """The memory came or changed: it is to be compared with the others."""
    tx.run("UPDATE episode SET is_unjoined = 1 WHERE id = ?", (row_id,))


def mark_joined(store: Store, row_id: int) -> None:
    """The memory was compared with the others."""
    with store.transaction() as tx:
        tx.run("UPDATE episode SET is_unjoined = 0 WHERE id = ?", (row_id,))


def next_unjoined(store: Reader, before_ms: int) -> Episode | None:
    """The oldest memory, by when it was said, that was said before a time and is not compared yet."""
    episode = tables.Episode
    condition = (episode.is_unjoined == SQL("1")) & (episode.created_at_ms < before_ms)
    waiting = select_episodes(store, condition, episode.created_at_ms, episode.slot, limit=1)
    return waiting[0] if waiting else None


def unjoined_rows(store: Reader) -> frozenset[int]:
    """Row ids of the memories that are not compared yet."""
    return frozenset(int(row_id) for (row_id,) in store.rows("SELECT id FROM episode WHERE is_unjoined = 1"))


def held_back_rows(store: Reader) -> frozenset[int]:
    """Row ids of the memories that still wait for what was said before them."""
    rows = store.rows("SELECT id FROM episode WHERE is_unjoined = 1 AND created_at_ms >= ?", (join_horizon_ms(store),))
    return frozenset(int(row_id) for (row_id,) in rows)


def rows_of_same_turn(store: Reader, row_id: int) -> Collection[int]:
    """Row ids of the memories that were taken from the same turn as this one."""
    rows = store.rows(
        "SELECT o.episode_ref FROM evidence o WHERE o.seq = 0 AND o.turn_id = "
        "(SELECT m.turn_id FROM evidence m WHERE m.episode_ref = ? AND m.seq = 0)",
        (row_id,),
    )
    return {int(other) for (other,) in rows}


def join_horizon_ms(store: Reader) -> int:
    """When the oldest turn began that may still give or change memories: it waits for its extraction, or is open.

    An extraction that failed before, and a turn that nobody has written to for a while, hold nothing up.
    """
    now_ms = store.now_ms()
    # The turn before one that grew is extracted again with it.
    waiting = store.value(
        "SELECT min(coalesce((SELECT max(b.started_at_ms) FROM turn b WHERE b.session_ref = due.session_ref "
        "AND b.started_at_ms < due.first_ms), due.first_ms)) FROM ("
        "SELECT t.session_ref, min(t.started_at_ms) AS first_ms FROM turn t JOIN session s ON s.id = t.session_ref "
        "JOIN work w ON w.kind = 'extract' AND w.key = s.session_id AND w.state = 'due' AND w.attempts = 0 "
        "WHERE t.extracted_revision < t.revision GROUP BY t.session_ref) due"
    )
    still_open = store.value(
        "SELECT min(started_at_ms) FROM turn WHERE is_closed = 0 AND ended_at_ms > ?", (now_ms - OPEN_TURN_MS,)
    )
    return min(time for time in (waiting, still_open, now_ms + 1) if time is not None)
