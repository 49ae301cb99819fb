"""Take a memory out of the archive: a person wants it in force again."""

from __future__ import annotations

from typing import Any

from engram.enums import Actor, Status
from engram.errors import BadRequest
from engram.memories.save import require_episode
from engram.models import episode_changes, watermarks
from engram.models.episode_undo import begin_ageing_anew
from engram.models.episodes import Episode
from engram.models.store import Store

#: Action of a memory that was taken out of the archive.
REVIVE = "revive"


def revive_memory(store: Store, episode_id: str, *, actor: Actor) -> Episode:
    """Let an archived memory be in force again; it ages anew, and no consolidation archives it as a copy again.

    A memory that was merged stands beside the one that took up its words.

    Raises:
        NotFound: there is no such memory.
        BadRequest: it is not archived.
    """
    with store.transaction() as tx:
        episode = require_episode(tx, episode_id)
        if episode.status is not Status.ARCHIVED:
            raise BadRequest(f"{episode_id} is {episode.status}, not archived")
        begin_ageing_anew(tx, episode_id)
        watermarks.note_undone(tx, [("archive", episode_id)])
        changes: dict[str, Any] = {"status": Status.ACTIVE, "superseded_by": "", "valid_to_ms": None, "weight": 1.0}
        return episode_changes.change_episode(tx, episode, REVIVE, "by hand", actor=actor, **changes)
