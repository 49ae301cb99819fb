"""Memories that were kept but not compared with the others yet, in the order in which they are to be."""

from __future__ import annotations

from collections.abc import Collection

from peewee import SQL, Query

from engram.models import tables
from engram.models.episodes import Episode, select_episodes
from engram.models.statement import prepared
from engram.models.store import Store
from engram.models.transaction import Reader, Tx

#: How long nothing is joined that is younger than a turn which is still open, in milliseconds.
OPEN_TURN_MS = 1_200_000


def mark_unjoined(tx: Tx, row_id: int) -> None:
    """The memory came or changed: it is to be compared with the others."""
    tx.run(tables.Episode.update(is_unjoined=1).where(tables.Episode.id == row_id))


def mark_joined(store: Store, row_id: int) -> None:
    """The memory was compared with the others."""
    with store.transaction() as tx:
        tx.run(tables.Episode.update(is_unjoined=0).where(tables.Episode.id == row_id))


def next_unjoined(store: Reader, before_ms: int) -> Episode | None:
    """The oldest memory, by when it was said, that was said before a time and is not compared yet."""
    episode = tables.Episode
    condition = (episode.is_unjoined == SQL("1")) & (episode.created_at_ms < before_ms)
    waiting = select_episodes(store, condition, episode.created_at_ms, episode.slot, limit=1)
    return waiting[0] if waiting else None


def unjoined_rows(store: Reader) -> frozenset[int]:
    """Row ids of the memories that are not compared yet."""
    return frozenset(store.fetch_values(_unjoined_rows()))


def held_back_rows(store: Reader) -> frozenset[int]:
    """Row ids of the memories that still wait for what was said before them."""
    return frozenset(store.fetch_values(_unjoined_rows_since(join_horizon_ms(store))))


@prepared
def _unjoined_rows() -> Query:
    return tables.Episode.select(tables.Episode.id).where(tables.Episode.is_unjoined == SQL("1"))


@prepared
def _unjoined_rows_since(at_ms: int) -> Query:
    episode = tables.Episode
    return episode.select(episode.id).where((episode.is_unjoined == SQL("1")) & (episode.created_at_ms >= at_ms))


def rows_of_same_turn(store: Reader, row_id: int) -> Collection[int]:
    """Row ids of the memories that were taken from the same turn as this one."""
    return set(store.fetch_values(_rows_of_same_turn(row_id)))


@prepared
def _rows_of_same_turn(row_id: int) -> Query:
    mine, other = tables.Evidence.alias(), tables.Evidence.alias()
    turn = mine.select(mine.turn_id).where((mine.episode == row_id) & (mine.seq == 0))
    return other.select(other.episode).where((other.seq == 0) & (other.turn_id == turn))


def join_horizon_ms(store: Reader) -> int:
    """When the oldest turn began that may still give or change memories: it waits for its extraction, or is open.

    Raw SQL: four nested selects over two tables. An extraction that failed before, and a turn that nobody has written
    to for a while, hold nothing up.
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
