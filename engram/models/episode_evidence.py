"""What memories rest on: entries are added, taken over and dropped here, and history records who did it."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

from engram.enums import Actor
from engram.models import episode_rows, tables
from engram.models.episode_history import ERASE, add_history
from engram.models.episodes import Episode, Evidence, evidence_of
from engram.models.tombstones import barred_entries
from engram.models.transaction import Tx

#: Action of a memory that rests on more entries than before; history keeps how many, so that an undo drops the rest.
ADDED = "evidence"
#: Action of a memory that rests on other entries than before.
REPLACED = "replace evidence"


def add_evidence(
    tx: Tx, episode: Episode, evidence: Sequence[Evidence], reason: str, *, actor: Actor, run_id: int | None = None
) -> bool:
    """Add entries to what a memory rests on; returns True if any was new. Entries without a uuid are left out."""
    before = len(evidence_of(tx, episode.id))
    added = episode_rows.insert_evidence(tx, episode.id, [entry for entry in evidence if entry.uuid])
    if added:
        counts = {"count": before}, {"count": before + added}
        add_history(tx, episode.episode_id, ADDED, reason, *counts, actor=actor, run_id=run_id)
    return added > 0


def merge_evidence(tx: Tx, kept: Episode, merged: Episode, *, actor: Actor, run_id: int | None = None) -> None:
    """Give ``kept`` what ``merged`` rests on, too."""
    before = len(evidence_of(tx, kept.id))
    if added := episode_rows.insert_evidence(tx, kept.id, evidence_of(tx, merged.id)):
        counts = {"count": before}, {"count": before + added}
        add_history(tx, kept.episode_id, ADDED, f"from {merged.episode_id}", *counts, actor=actor, run_id=run_id)


def replace_evidence(
    tx: Tx, episode: Episode, evidence: Sequence[Evidence], reason: str, *, actor: Actor, run_id: int | None = None
) -> None:
    """Let a memory rest on these entries and no others."""
    if evidence_of(tx, episode.id) == list(evidence):
        return
    episode_rows.delete_evidence(tx, episode.id)
    episode_rows.insert_evidence(tx, episode.id, evidence)
    add_history(tx, episode.episode_id, REPLACED, reason, {}, {}, actor=actor, run_id=run_id)


def take_out_evidence(tx: Tx, row_id: int, start: int, stop: int) -> list[list[str | int | None]]:
    """Take entries out of what a memory rests on, from place ``start`` to before ``stop``.

    Returns them as JSON keeps them: uuid, session and turn of each. Only ``episode_undo`` calls this.
    """
    taken = evidence_of(tx, row_id)[start:stop]
    episode_rows.delete_evidence_between(tx, row_id, start, stop)
    return [[entry.uuid, entry.session_id, entry.turn_id] for entry in taken]


def put_back_evidence(tx: Tx, row_id: int, entries: Sequence[Sequence[Any]]) -> tuple[int, int]:
    """Put back what ``take_out_evidence`` took, without what was forgotten meanwhile.

    Returns how many entries the memory rested on before and rests on now.
    """
    barred = barred_entries(tx, [uuid for uuid, _, _ in entries])
    known = [Evidence(uuid, session_id, turn_id) for uuid, session_id, turn_id in entries if uuid not in barred]
    before = len(evidence_of(tx, row_id))
    return before, before + episode_rows.insert_evidence(tx, row_id, known)


def forget_evidence(tx: Tx, episode: Episode, uuids: Collection[str], reason: str, *, actor: Actor) -> None:
    """Take forgotten entries out of what a memory rests on."""
    if episode_rows.delete_evidence(tx, episode.id, uuids):
        _record_forgotten(tx, episode, reason, actor)


def forget_evidence_of_project(tx: Tx, episode: Episode, project_id: int, reason: str, *, actor: Actor) -> None:
    """Take a forgotten project's entries out of what a memory rests on."""
    if episode_rows.delete_evidence_of_project(tx, episode.id, project_id):
        _record_forgotten(tx, episode, reason, actor)


def _record_forgotten(tx: Tx, episode: Episode, reason: str, actor: Actor) -> None:
    """Log the step, and drop the counts and entries of evidence: an undo that went by them would drop others."""
    history = tables.History
    is_counted = (history.action == ADDED) | (history.before ** '{"count"%') | (history.before ** '{"entries"%')
    tx.run(history.delete().where((history.episode_id == episode.episode_id) & is_counted))
    add_history(tx, episode.episode_id, ERASE, reason, {}, {}, actor=actor)
