"""Release a memory that was taken for suspect: a person has looked at it."""

from __future__ import annotations

from engram.enums import Actor
from engram.errors import BadRequest
from engram.memories.save import require_episode
from engram.models import episode_changes
from engram.models.episodes import Episode
from engram.models.store import Store


def trust_memory(store: Store, episode_id: str, *, actor: Actor) -> Episode:
    """Let a suspect memory be shown like any other. Only a person does this, after reading it.

    Raises:
        NotFound: there is no such memory.
        BadRequest: it is not suspect.
    """
    with store.transaction() as tx:
        episode = require_episode(tx, episode_id)
        if not episode.suspect:
            raise BadRequest(f"{episode_id} is not suspect")
        return episode_changes.change_episode(
            tx, episode, "trust", f"looked at: {episode.suspect}", actor=actor, suspect=""
        )
