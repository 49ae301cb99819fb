"""Make one project of several: a repository that was worked on in several places."""

from __future__ import annotations

from collections.abc import Sequence

from peewee import Query, fn

from engram.enums import Actor
from engram.models import tables
from engram.models.episode_changes import move_episodes_of_project
from engram.models.statement import prepared
from engram.models.store import Store
from engram.models.transaction import Tx


def join_projects(store: Store, into: int, others: Sequence[int], *, actor: Actor) -> int:
    """Give everything of other projects to the project ``into``; returns how many sessions moved."""
    with store.transaction() as tx:
        renumber_vectors(tx, others)
        for project_id in others:
            move_episodes_of_project(tx, project_id, into, "two projects became one", actor=actor)
        _move_rows(tx, tables.Turn, others, into)
        _move_rows(tx, tables.Passage, others, into)
        _move_rows(tx, tables.Outcome, others, into)
        return _move_rows(tx, tables.Session, others, into)


def renumber_vectors(tx: Tx, projects: Sequence[int]) -> None:
    """Give the vectors of these projects new numbers, so that an index in memory reads them again."""
    _renumber_vectors(tx, "n", tables.NoteChunkProject, projects)
    _renumber_vectors(tx, "p", tables.Passage, projects)
    _renumber_vectors(tx, "e", tables.Episode, projects)


def _move_rows(tx: Tx, table: type[tables.Table], projects: Sequence[int], into: int) -> int:
    project = table._meta.columns["project_id"]
    return tx.run(table.update({project: into}).where(project.in_(list(projects))))


def _renumber_vectors(tx: Tx, owner: str, table: type[tables.Table], projects: Sequence[int]) -> None:
    """Give the vectors of these projects' rows numbers that are new to every index."""
    vector = tables.Vector
    columns = table._meta.columns
    owned = table.select(columns["id"]).where(columns["project_id"].in_(list(projects)))
    moving = vector.select(vector.seq).where((vector.owner == owner) & vector.owner_id.in_(owned))
    newest = int(tx.fetch_value(vector.select(fn.coalesce(fn.max(vector.seq), 0))))
    for number, seq in enumerate(tx.fetch_values(moving.order_by(vector.seq)), newest + 1):
        tx.run(_renumber_vector(seq, number))


@prepared
def _renumber_vector(seq: int, number: int) -> Query:
    return tables.Vector.update(seq=number).where(tables.Vector.seq == seq)
