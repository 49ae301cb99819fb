"""Make one project of several: a repository that was worked on in several places."""

from __future__ import annotations

from collections.abc import Sequence

from engram.models.store import Store


def join_projects(store: Store, into: int, others: Sequence[int]) -> int:
    """Give everything of other projects to the project ``into``; returns how many sessions moved.

    Vectors that are loaded already still carry the old project: load them after this.
    """
    marks = ",".join("?" * len(others))
    moved = 0
    with store.writing():
        for table in ("turn", "passage", "episode", "session"):
            moved = store.run(f"UPDATE {table} SET project_id = ? WHERE project_id IN ({marks})", (into, *others))
    return moved
