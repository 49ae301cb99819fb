"""Make one project of several: a repository that was worked on in several places."""

from __future__ import annotations

from collections.abc import Sequence

from engram.enums import Actor
from engram.models.episode_changes import move_episodes_of_project
from engram.models.store import Store
from engram.models.transaction import Tx

#: Table → owner kind of its vectors.
_OWNERS = {"passage": "p", "episode": "e"}


def join_projects(store: Store, into: int, others: Sequence[int], *, actor: Actor) -> int:
    """Give everything of other projects to the project ``into``; returns how many sessions moved.

    The vectors get new numbers, so that an index in memory reads them again with their new project.
    """
    marks = ",".join("?" * len(others))
    moved = 0
    with store.transaction() as tx:
        _renumber_vectors(tx, "n", "note_chunk_project", others)
        for table in ("turn", "passage", "episode", "session"):
            if table in _OWNERS:
                _renumber_vectors(tx, _OWNERS[table], table, others)
            if table == "episode":
                for project_id in others:
                    move_episodes_of_project(tx, project_id, into, "two projects became one", actor=actor)
                continue
            moved = tx.run(f"UPDATE {table} SET project_id = ? WHERE project_id IN ({marks})", (into, *others))
    return moved


def _renumber_vectors(tx: Tx, owner: str, table: str, projects: Sequence[int]) -> None:
    """Give the vectors of these projects' rows numbers that are new to every index."""
    marks = ",".join("?" * len(projects))
    rows = tx.rows(
        f"SELECT v.seq FROM vector v JOIN {table} o ON o.id = v.owner_id "
        f"WHERE v.owner = ? AND o.project_id IN ({marks}) ORDER BY v.seq",
        (owner, *projects),
    )
    newest = int(tx.value("SELECT coalesce(max(seq), 0) FROM vector"))
    numbers = [(newest + place, int(row[0])) for place, row in enumerate(rows, 1)]
    tx.run_many("UPDATE vector SET seq = ? WHERE seq = ?", numbers)
