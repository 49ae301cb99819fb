"""What a merge of two projects moved, so that it can be taken back."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from peewee import Query

from engram.enums import Actor
from engram.errors import BadRequest, NotFound
from engram.models import tables
from engram.models.episode_changes import move_episodes
from engram.models.joining import renumber_vectors
from engram.models.meta import get_meta, put_meta
from engram.models.project_names import is_name_taken
from engram.models.projects import ProjectRow, project_by_id
from engram.models.statement import in_json_list, prepared
from engram.models.store import Store
from engram.models.transaction import Reader, Tx

#: How many merges can be taken back; older ones stay.
MAX_MERGES = 10
_KEY = "project_merges"


@dataclass(frozen=True, slots=True)
class Merge:
    """A merge that can be taken back."""

    #: Names it; never given again.
    number: int
    #: When it was, in milliseconds since 1970.
    at_ms: int
    #: Row id of the project that took everything over.
    into_id: int
    #: Name and folder of the project that went.
    name: str
    root: str
    sessions: int
    memories: int


def list_merges(store: Reader) -> list[Merge]:
    """The merges that can be taken back, the latest first."""
    return [
        Merge(
            number=record["number"],
            at_ms=record["at_ms"],
            into_id=record["into"],
            name=record["project"]["name"],
            root=record["project"]["root"],
            sessions=len(record["sessions"]),
            memories=len(record["memories"]),
        )
        for record in reversed(_load(store))
    ]


def note_merge(tx: Tx, into_id: int, other_id: int) -> None:
    """Keep what belongs to a project that is about to be merged."""
    project, folder, session, episode = tables.Project, tables.ProjectFolder, tables.Session, tables.Episode
    turn, sessions = tables.Turn, session.select(session.id).where(session.project == other_id)
    row = tx.fetch_first(project.select().where(project.id == other_id))
    records = _load(tx)
    # What was merged into the project that goes now is, from now on, where it goes.
    earlier = [one for one in records if one["into"] == other_id]
    for one in earlier:
        one["into"] = into_id
    number = max((record["number"] for record in records), default=0) + 1
    record = {
        "number": number,
        "at_ms": tx.now_ms(),
        "into": into_id,
        "earlier": [one["number"] for one in earlier],
        "project": {name: getattr(row, name) for name in _COLUMNS},
        "folders": tx.fetch_values(folder.select(folder.identity).where(folder.project_id == other_id)),
        # Ids that no other session or memory ever gets.
        "sessions": tx.fetch_values(session.select(session.session_id).where(session.project == other_id)),
        "memories": tx.fetch_values(episode.select(episode.id).where(episode.project == other_id)),
        # A turn may belong to another project than its session.
        "turns": tx.fetch_values(
            turn.select(turn.stable_id).where((turn.project == other_id) & turn.session.not_in(sessions))
        ),
        "visits": tx.fetch_values(
            turn.select(turn.stable_id).where(turn.session.in_(sessions) & (turn.project == into_id))
        ),
    }
    _save(tx, [*records, record])


def undo_merge(store: Store, number: int, *, actor: Actor) -> ProjectRow:
    """Take a merge back; returns the project that is there again.

    Its sessions and memories go back to it. What came since stays with the project that it was merged into, also what
    was told of both at once: pauses that have ended, what was spent, and rules of sharing.

    Raises:
        NotFound: there is no such merge, or it was taken back.
        BadRequest: the project into which it went is gone, or another project has its name or folder now.
    """
    with store.transaction() as tx:
        records = _load(tx)
        record = next((one for one in records if one["number"] == number), None)
        if record is None:
            raise NotFound("there is no such merge; only the latest ones can be taken back")
        into_id, columns = record["into"], record["project"]
        if project_by_id(tx, into_id) is None:
            raise BadRequest("the project that it was merged into is gone")
        identities = [columns["identity"], *record["folders"]]
        if _is_known(tx, columns["identity"]) or is_name_taken(tx, columns["name"], identities):
            raise BadRequest(f"another project has the folder or the name of {columns['name']} now")
        project_id = tx.insert_row(tables.Project, columns | {"updated_at_ms": tx.now_ms()})
        _move_folders(tx, columns["identity"], record["folders"], project_id)
        _move_back(tx, record, into_id, project_id, actor)
        for one in records:
            if one["number"] in record["earlier"]:
                one["into"] = project_id
        _save(tx, [one for one in records if one["number"] != number])
        project = project_by_id(tx, project_id)
    assert project is not None
    return project


def _move_back(tx: Tx, record: dict[str, Any], into_id: int, project_id: int, actor: Actor) -> None:
    sessions = json.dumps(record["sessions"])
    refs = json.dumps(tx.fetch_values(_sessions_still_there(sessions, into_id)))
    memories = tx.fetch_values(_memories_still_there(json.dumps(record["memories"]), into_id))
    move_episodes(tx, memories, project_id, "a merge of projects was undone", actor=actor)
    outcome, turn, passage, session = tables.Outcome, tables.Turn, tables.Passage, tables.Session
    theirs = json.dumps(tx.fetch_values(_turns_still_there(json.dumps(record.get("turns", ())))))
    visits = json.dumps(tx.fetch_values(_turns_still_there(json.dumps(record.get("visits", ())))))
    is_visit, of_visit = in_json_list(turn.id, visits), in_json_list(passage.turn_id, visits)
    for table, is_moved in (
        (turn, (in_json_list(turn.session, refs) & ~is_visit) | in_json_list(turn.id, theirs)),
        (passage, (in_json_list(passage.session_ref, refs) & ~of_visit) | in_json_list(passage.turn_id, theirs)),
        (outcome, in_json_list(outcome.session_id, sessions)),
        (session, in_json_list(session.id, refs)),
    ):
        column = table._meta.columns["project_id"]
        tx.run(table.update({column: project_id}).where(is_moved & (column == into_id)))
    renumber_vectors(tx, [project_id])


def _move_folders(tx: Tx, own: str, folders: Sequence[str], project_id: int) -> None:
    folder = tables.ProjectFolder
    tx.run(folder.delete().where(folder.identity == own))
    tx.run(folder.update(project_id=project_id).where(folder.identity.in_(list(folders))))


#: Columns of a project that come back with it. Its row id is new: SQLite may have given the old one to another.
_COLUMNS = ("stable_id", "identity", "name", "root", "origin", "revision", "remote", "first_commit", "hints_at_ms")


def _load(store: Reader) -> list[dict[str, Any]]:
    """The records as they are stored, the oldest first."""
    stored = get_meta(store, _KEY)
    records: list[dict[str, Any]] = [] if stored is None else json.loads(stored)
    return records


def _save(tx: Tx, records: list[dict[str, Any]]) -> None:
    put_meta(tx, _KEY, json.dumps(records[-MAX_MERGES:]))


def _is_known(store: Reader, identity: str) -> bool:
    return (
        store.fetch_value(tables.Project.select(tables.Project.id).where(tables.Project.identity == identity))
        is not None
    )


@prepared
def _sessions_still_there(session_ids: str, into_id: int) -> Query:
    session = tables.Session
    return session.select(session.id).where(
        in_json_list(session.session_id, session_ids) & (session.project == into_id)
    )


@prepared
def _turns_still_there(stable_ids: str) -> Query:
    return tables.Turn.select(tables.Turn.id).where(in_json_list(tables.Turn.stable_id, stable_ids))


@prepared
def _memories_still_there(row_ids: str, into_id: int) -> Query:
    episode = tables.Episode
    return episode.select(episode.id).where(in_json_list(episode.id, row_ids) & (episode.project == into_id))
