"""Memories that sessions were shown and used, for tests."""

from __future__ import annotations

from engram.models.engine.transaction import Store
from engram.models.memories.usefulness import mark_used
from engram.models.shown import injections
from engram.models.shown.injections import Injection


def show_and_use(store: Store, episode_id: str, sessions: int = 3, *, used: int | None = None) -> None:
    """Show a memory to some sessions, of which all use it, or the first ``used``."""
    for number in range(sessions):
        session_id = f"showing-{number}"
        bite = Injection(
            session_id=session_id,
            prompt_key="p",
            channel="prompt",
            episode_id=episode_id,
            score=0.5,
            tokens=9,
            state="shown",
        )
        with store.transaction() as tx:
            injections.add_injections(tx, [bite])
            if used is None or number < used:
                mark_used(tx, session_id, {episode_id: tx.now_ms()})
