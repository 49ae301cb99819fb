"""The one way in which tests write raw SQL: for states that no function of the program makes."""

from __future__ import annotations

from collections.abc import Sequence

from engram.models.engine.transaction import Store, Value


def plant(store: Store, sql: str, parameters: Sequence[Value] = ()) -> int:
    """Run one writing statement in a transaction of its own; returns how many rows it changed."""
    with store.transaction() as tx:
        return tx.run(sql, parameters)
