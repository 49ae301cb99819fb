"""Undoing changes of memories, with a step in the history of each that says who undid what."""

from __future__ import annotations

from engram.enums import Actor, Status
from engram.models import episode_rows
from engram.models.episode_changes import MOVE, RELEASE, RESTORE, change_episode
from engram.models.episode_evidence import ADDED
from engram.models.episode_history import ERASE, Change, add_history, fields_of_snapshot
from engram.models.episodes import find_episode
from engram.models.packed import pack_text
from engram.models.transaction import Tx

#: Action of a memory that was changed back.
UNDO = "undo"
#: Actions that a new memory begins with where a run made it; an undo archives it.
_MADE = ("save", "correct")
#: Action of a memory that an extractor made, or changed.
_EXTRACTED = "extract"
#: Steps that belong to no run and leave what a run changed as it is, or as an undo would leave it.
_INDEPENDENT = (RESTORE, RELEASE, MOVE, ERASE, UNDO)


def is_in_the_way(change: Change, later: Change) -> bool:
    """Return True if a later step of the same memory forbids that a change is undone.

    A step that changed no field, such as a helpful judgement, forbids nothing.
    """
    is_independent = later.run_id is None and (later.action in _INDEPENDENT or not later.before)
    return later.id > change.id and later.run_id != change.run_id and not is_independent


def undo_change(tx: Tx, change: Change, *, actor: Actor) -> None:
    """Undo one change; a memory that is gone is passed over."""
    episode = find_episode(tx, change.episode_id)
    if episode is None:
        return
    reason = f"run {change.run_id}"
    if change.action == "pack":
        episode_rows.set_packed_content(tx, episode.id, pack_text(episode.content), None)
    elif change.action == ADDED:
        episode_rows.delete_evidence_beyond(tx, episode.id, int(change.before["count"]))
    elif change.action in _MADE or (change.action == _EXTRACTED and not change.before):
        change_episode(tx, episode, UNDO, reason, actor=actor, status=Status.ARCHIVED)
        return
    elif change.before:
        change_episode(tx, episode, UNDO, reason, actor=actor, **fields_of_snapshot(change.before))
        return
    add_history(tx, episode.episode_id, UNDO, reason, {}, {}, actor=actor)


def begin_ageing_anew(tx: Tx, episode_id: str) -> None:
    """Let a memory age from now on. Whoever undoes its ageing has looked at it; history has the undo."""
    episode_rows.set_accessed(tx, episode_id, tx.now_ms(), is_use=False)
