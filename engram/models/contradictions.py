"""Contradictions: two memories that cannot both hold, of which a person saved or pinned one; a person decides."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from peewee import ColumnBase, fn

from engram.enums import Source, Voice
from engram.models import tables
from engram.models.episodes import IS_CURRENT, Episode
from engram.models.records import RecordReader
from engram.models.transaction import Reader, Tx

#: Decision by which both memories stay.
BOTH = "both"
#: Why the older of two memories no longer holds, by what is said of the newer one.
ENDING_REASONS = {
    "supersedes": "says how it is now",
    "corrects": "corrects it",
    "resolves": "says how it was resolved",
    "retracts": "taken back",
}


def is_kept_by_hand(episode: Episode) -> bool:
    """True for what is pinned or was saved: nothing that happens by itself replaces it."""
    return episode.is_pinned or episode.source == Source.MANUAL


def is_persons_own(episode: Episode) -> bool:
    """True for what is pinned or was saved by a person: no agent replaces it."""
    return episode.is_pinned or (episode.source == Source.MANUAL and episode.voice != Voice.AGENT)


@dataclass(frozen=True, slots=True)
class Contradiction:
    """Two memories in force of which one may have to go."""

    id: int
    older_id: str
    newer_id: str
    #: Why they cannot both hold.
    reason: str
    made_at_ms: int


_CONTRADICTIONS = RecordReader(Contradiction, tables.Contradiction, left_out=("decision", "decided_at_ms", "run_id"))


def note_contradiction(tx: Tx, older_id: str, newer_id: str, reason: str) -> int:
    """Note that two memories contradict each other; its number, or 0 where that is known or was decided."""
    table = tables.Contradiction
    pair = [older_id, newer_id]
    known = table.select(table.id).where(table.older_id.in_(pair) & table.newer_id.in_(pair))
    if tx.fetch_first(known) is not None:
        return 0
    return tx.insert(table.insert(older_id=older_id, newer_id=newer_id, reason=reason, made_at_ms=tx.now_ms()))


def open_contradictions(store: Reader, episode_id: str | None = None, number: int | None = None) -> list[Contradiction]:
    """Contradictions that wait for a decision, the oldest first; of one memory, or the one of a number."""
    table = tables.Contradiction
    query = _CONTRADICTIONS.select().where(
        (table.decision == "") & _is_current(table.older_id) & _is_current(table.newer_id)
    )
    if episode_id is not None:
        query = query.where((table.older_id == episode_id) | (table.newer_id == episode_id))
    if number is not None:
        query = query.where(table.id == number)
    return store.fetch_records(_CONTRADICTIONS, query.order_by(table.id))


def _is_current(episode_id: ColumnBase) -> ColumnBase:
    """The condition that a memory is there and current: there is nothing to decide about any other."""
    episode = tables.Episode
    return fn.EXISTS(episode.select(1).where((episode.episode_id == episode_id) & IS_CURRENT))


def note_decision(tx: Tx, number: int, decision: str, run_id: int) -> None:
    """Keep how a contradiction was decided: "both", or the id of the memory that was kept."""
    table = tables.Contradiction
    changes = table.update(decision=decision, decided_at_ms=tx.now_ms(), run_id=run_id)
    tx.run(changes.where(table.id == number))


def reopen_contradictions(tx: Tx, run_id: int) -> None:
    """Ask again what was decided in a run that is undone."""
    table = tables.Contradiction
    tx.run(table.update(decision="", decided_at_ms=None).where(table.run_id == run_id))


def decide_again(tx: Tx, run_id: int, replaced: Mapping[str, str]) -> None:
    """Decide what was opened again as it was decided in a run, whose undo was taken back.

    Args:
        tx: the transaction.
        run_id: the run.
        replaced: the memories that the run replaced, each with the one in its place.
    """
    table = tables.Contradiction
    opened = _CONTRADICTIONS.select().where((table.run_id == run_id) & (table.decision == ""))
    for one in tx.fetch_records(_CONTRADICTIONS, opened):
        decision = replaced.get(one.older_id) or replaced.get(one.newer_id) or BOTH
        note_decision(tx, one.id, decision, run_id)
