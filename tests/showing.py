"""Memories that sessions were shown and used, for tests."""

from __future__ import annotations

from engram.models.engine.transaction import Store
from engram.models.memories.judgements import mark_used
from engram.models.shown.injections import Injection, add_injections


def show(
    store: Store,
    episode_id: str,
    session_id: str = "s1",
    *,
    prompt_key: str = "p1",
    channel: str = "prompt",
    score: float = 0.5,
    tokens: int = 10,
    state: str = "shown",
    at_ms: int = 0,
) -> None:
    """Show a memory to a session, now unless a time is given."""
    bite = Injection(
        session_id=session_id,
        prompt_key=prompt_key,
        channel=channel,
        episode_id=episode_id,
        score=score,
        tokens=tokens,
        state=state,
        at_ms=at_ms,
    )
    with store.transaction() as tx:
        add_injections(tx, [bite])


def show_and_use(store: Store, episode_id: str, sessions: int = 3, *, used: int | None = None) -> None:
    """Show a memory to some sessions, of which all use it, or the first ``used``."""
    for number in range(sessions):
        session_id = f"showing-{number}"
        with store.transaction() as tx:
            show(store, episode_id, session_id)
            if used is None or number < used:
                mark_used(tx, session_id, {episode_id: tx.now_ms()})
