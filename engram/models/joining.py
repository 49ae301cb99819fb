"""Give turns, or everything of a project, to another project."""

from __future__ import annotations

import json
from collections.abc import Sequence

from peewee import SQL, Query, Select, Value, fn

from engram.enums import Actor, Scope, Source
from engram.models import tables
from engram.models.episode_changes import move_episodes, move_episodes_of_project
from engram.models.statement import in_json_list, prepared
from engram.models.store import Store
from engram.models.transaction import Tx

#: Why a memory moved that was sorted to another project. It is not shared there by itself.
SORTED = "sorted by the folder that it was said in"


def join_projects(store: Store, into: int, others: Sequence[int], *, actor: Actor, is_said: bool = True) -> int:
    """Give everything of other projects to the project ``into``; returns how many sessions moved.

    ``is_said`` tells a hub; where that is False, projects are only sorted.
    """
    with store.transaction() as tx:
        return join_in(tx, into, others, actor=actor, is_said=is_said)


def join_in(tx: Tx, into: int, others: Sequence[int], *, actor: Actor, is_said: bool = True) -> int:
    """Do in a transaction what ``join_projects`` does."""
    reason = "two projects became one" if is_said else SORTED
    renumber_vectors(tx, others)
    for project_id in others:
        move_episodes_of_project(tx, project_id, into, reason, actor=actor, is_said=is_said)
    _move_rows(tx, tables.Turn, others, into)
    _move_rows(tx, tables.Passage, others, into)
    _move_rows(tx, tables.Outcome, others, into)
    return _move_rows(tx, tables.Session, others, into)


def move_turns(tx: Tx, turn_ids: Sequence[int], project_id: int | None, reason: str, *, actor: Actor) -> list[str]:
    """Give turns to a project, with the automatic memories that rest on nothing else; returns the ids of those.

    A hub is told nothing: where a turn belongs is each machine's own to find out.
    """
    ids = json.dumps(list(turn_ids))
    memories = tx.fetch(_resting_on_alone(ids))
    row_ids = [row.id for row in memories]
    move_episodes(tx, row_ids, project_id, reason, actor=actor, is_said=False)
    tx.run(tables.Turn.update(project=project_id).where(in_json_list(tables.Turn.id, ids)))
    tx.run(tables.Passage.update(project_id=project_id).where(in_json_list(tables.Passage.turn_id, ids)))
    _renumber(tx, "p", tables.Passage.select(tables.Passage.id).where(in_json_list(tables.Passage.turn_id, ids)))
    _renumber(tx, "e", tables.Episode.select(tables.Episode.id).where(tables.Episode.id.in_(row_ids)))
    return [row.episode_id for row in memories]


def move_sessions(tx: Tx, session_refs: Sequence[int], from_id: int, to_id: int, *, actor: Actor) -> list[int]:
    """Give sessions of a project to another one, with the memories made or saved in them; returns the row ids of those.

    Their turns and notes do not move: ``move_turns`` and ``renumber_notes`` do that. A hub is told nothing.
    """
    refs = json.dumps(list(session_refs))
    session, episode, outcome = tables.Session, tables.Episode, tables.Outcome
    memories = tx.fetch_values(
        episode.select(episode.id).where(in_json_list(episode.session, refs) & (episode.project == from_id))
    )
    move_episodes(tx, memories, to_id, SORTED, actor=actor, is_said=False)
    names = session.select(session.session_id).where(in_json_list(session.id, refs))
    tx.run(outcome.update(project_id=to_id).where(outcome.session_id.in_(names) & (outcome.project_id == from_id)))
    tx.run(session.update(project=to_id).where(in_json_list(session.id, refs) & (session.project == from_id)))
    _renumber(tx, "e", episode.select(episode.id).where(in_json_list(episode.id, json.dumps(memories))))
    return [int(row_id) for row_id in memories]


def renumber_vectors(tx: Tx, projects: Sequence[int]) -> None:
    """Give the vectors of these projects new numbers, so that an index in memory reads them again."""
    renumber_notes(tx, projects)
    _renumber_vectors(tx, "p", tables.Passage, projects)
    _renumber_vectors(tx, "e", tables.Episode, projects)


def renumber_notes(tx: Tx, projects: Sequence[int]) -> None:
    """Give the vectors of these projects' notes new numbers: a note is of the project of its session."""
    _renumber_vectors(tx, "n", tables.NoteChunkProject, projects)


def _move_rows(tx: Tx, table: type[tables.Table], projects: Sequence[int], into: int) -> int:
    project = table._meta.columns["project_id"]
    return tx.run(table.update({project: into}).where(project.in_(list(projects))))


def _renumber_vectors(tx: Tx, owner: str, table: type[tables.Table], projects: Sequence[int]) -> None:
    """Give the vectors of these projects' rows numbers that are new to every index."""
    columns = table._meta.columns
    _renumber(tx, owner, table.select(columns["id"]).where(columns["project_id"].in_(list(projects))))


def _renumber(tx: Tx, owner: str, owned: Query) -> None:
    vector = tables.Vector
    moving = vector.select(vector.seq).where((vector.owner == owner) & vector.owner_id.in_(owned))
    newest = int(tx.fetch_value(vector.select(fn.coalesce(fn.max(vector.seq), 0))))
    for number, seq in enumerate(tx.fetch_values(moving.order_by(vector.seq)), newest + 1):
        tx.run(_renumber_vector(seq, number))


@prepared
def _resting_on_alone(turn_ids: str) -> Query:
    episode, evidence = tables.Episode, tables.Evidence
    here = evidence.select(evidence.episode).where(in_json_list(evidence.turn_id, turn_ids))
    elsewhere = evidence.select(Value(1)).where(
        (evidence.episode == episode.id)
        & (evidence.turn_id.is_null() | evidence.turn_id.not_in(Select([fn.json_each(turn_ids)], [SQL("value")])))
    )
    is_own = (episode.source == Source.AUTO.value) & (episode.scope == Scope.PROJECT.value)
    return episode.select(episode.id, episode.episode_id).where(episode.id.in_(here) & is_own & ~fn.EXISTS(elsewhere))


@prepared
def _renumber_vector(seq: int, number: int) -> Query:
    return tables.Vector.update(seq=number).where(tables.Vector.seq == seq)
