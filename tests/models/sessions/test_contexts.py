"""What an agent's context still holds: from when it grows, and up to where it was copied."""

from __future__ import annotations

from engram.models.engine.transaction import Store
from engram.models.sessions.sessions import context_start_ms, copied_history, note_context_start, note_copied_history


def test_a_context_begins_where_it_was_last_emptied(store: Store) -> None:
    assert context_start_ms(store, "s") == 0

    with store.transaction() as tx:
        note_context_start(tx, "s", 50)
        note_context_start(tx, "s", 20)

    assert (context_start_ms(store, "s"), context_start_ms(store, "other")) == (50, 0)


def test_a_fork_repeats_each_session_up_to_its_latest_entry(store: Store) -> None:
    with store.transaction() as tx:
        note_copied_history(tx, "fork", "parent", 10)
        note_copied_history(tx, "fork", "parent", 30)
        note_copied_history(tx, "fork", "parent", 20)
        note_copied_history(tx, "fork", "grandparent", 5)

    assert sorted(copied_history(store, "fork")) == [("grandparent", 5), ("parent", 30)]
    assert copied_history(store, "parent") == []
