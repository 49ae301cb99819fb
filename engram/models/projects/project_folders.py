"""Moved projects: hints, joined folders, and records of merges and sortings, so that these can be undone."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from peewee import Field, Query, Value, fn

from engram.enums import Actor
from engram.errors import BadRequest, NotFound
from engram.models import tables
from engram.models.engine.meta import get_meta, put_meta
from engram.models.engine.statement import grouped, in_json_list
from engram.models.engine.transaction import Reader, Store, Tx
from engram.models.memories.memory_changes import listeners, move_memories
from engram.models.memories.tombstones import project_forgotten_ms
from engram.models.projects.notes import drop_daily_logs
from engram.models.projects.projects import ProjectRow, is_name_taken, keep_name, project_by_id
from engram.models.sessions.turn_changes import (
    SORTED,
    join_in,
    move_sessions,
    move_turns,
    renumber_notes,
    renumber_vectors,
)
from engram.models.tables.memory_tables import IS_CURRENT
from engram.models.tables.session_tables import NO_TITLE, PROJECTS_BY_NAME, sessions_of_projects
from engram.models.work.work import LOG_IS_DUE, make_due, move_pauses, paused_scopes
from engram.system.clock import day_of

# -- Records of what a merge of two projects, or a sorting of sessions and turns, moved, so that it can be undone.

#: Number of merges by hand, and of sortings, that can be undone; older ones are final.
MAX_MERGES = 10
_KEY, _SORTINGS, _KEPT_APART = "project_merges", "project_sortings", "projects_kept_apart"


@dataclass(frozen=True, slots=True)
class Merge:
    #: Its id, which is never reused.
    number: int
    at_ms: int
    #: Row id of the project to which everything was moved.
    into_id: int
    #: Name and folder of the project that was merged into it.
    name: str
    root: str
    sessions: int
    memories: int


def list_merges(store: Reader) -> list[Merge]:
    """Return the merges that can be undone, latest first."""
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


def _note_merge(tx: Tx, into_id: int, other_id: int) -> None:
    """Record everything that belongs to a project that is about to be merged."""
    project, folder, session, memory = tables.Project, tables.ProjectFolder, tables.Session, tables.Memory
    turn, sessions = tables.Turn, session.select(session.id).where(session.project == other_id)
    row = tx.fetch_first(project.select().where(project.id == other_id))
    records = _load(tx)
    # Projects that were merged into this one earlier now belong to the other project.
    earlier = [merge for merge in records if merge["into"] == other_id]
    for merge in earlier:
        merge["into"] = into_id
    number = max((record["number"] for record in records), default=0) + 1
    record = {
        "number": number,
        "at_ms": tx.now_ms(),
        "into": into_id,
        "earlier": [merge["number"] for merge in earlier],
        "project": {name: getattr(row, name) for name in _COLUMNS},
        "folders": tx.fetch_values(folder.select(folder.identity).where(folder.project_id == other_id)),
        # These ids are never reused for another session or memory.
        "sessions": tx.fetch_values(session.select(session.session_id).where(session.project == other_id)),
        "memories": tx.fetch_values(memory.select(memory.id).where(memory.project == other_id)),
        # A turn may belong to a project other than its session's.
        "turns": tx.fetch_values(
            turn.select(turn.stable_id).where((turn.project == other_id) & turn.session.not_in(sessions))
        ),
        "visits": tx.fetch_values(
            turn.select(turn.stable_id).where(turn.session.in_(sessions) & (turn.project == into_id))
        ),
    }
    _save(tx, [*records, record])


def undo_merge(store: Store, number: int, *, actor: Actor) -> ProjectRow:
    """Undo a merge; return the restored project.

    It gets its sessions and memories back. What was added later remains in the other project, and so do records of both
    projects: pauses that have ended, spending, and sharing rules.

    Raises:
        NotFound: there is no such merge, or it has been undone.
        BadRequest: the other project no longer exists, or a third project now has the name or folder.
    """
    with store.transaction() as tx:
        records = _load(tx)
        record = next((merge for merge in records if merge["number"] == number), None)
        if record is None:
            raise NotFound("there is no such merge; only the latest ones can be undone")
        into_id, columns = record["into"], record["project"]
        if project_by_id(tx, into_id) is None:
            raise BadRequest("the project that it was merged into no longer exists")
        identities = [columns["identity"], *record["folders"]]
        is_known = tx.has_any(tables.Project.select().where(tables.Project.identity == columns["identity"]))
        if is_known or is_name_taken(tx, columns["name"], identities):
            raise BadRequest(f"another project now has the folder or the name of {columns['name']}")
        project_id = tx.insert_row(tables.Project, columns | {"updated_at_ms": tx.now_ms()})
        folder = tables.ProjectFolder
        tx.run(folder.delete().where(folder.identity == columns["identity"]))
        tx.run(folder.update(project_id=project_id).where(folder.identity.in_(record["folders"])))
        _move_back(tx, record, into_id, project_id, actor)
        for merge in records:
            if merge["number"] in record["earlier"]:
                merge["into"] = project_id
        _save(tx, [merge for merge in records if merge["number"] != number])
        keep_apart(tx, [columns["identity"]])
        project = project_by_id(tx, project_id)
    assert project is not None
    return project


def _move_back(tx: Tx, record: dict[str, Any], into_id: int, project_id: int, actor: Actor) -> None:
    sessions = record["sessions"]
    refs = _still_there(tx, tables.Session.session_id, sessions, into_id)
    memories = _still_there(tx, tables.Memory.id, record["memories"], into_id)
    is_said = "sorting" not in record
    is_moved = in_json_list(tables.Memory.id, memories)
    move_memories(tx, is_moved, project_id, "a merge of projects was undone", actor=actor, is_said=is_said)
    outcome, turn, passage, session = tables.Outcome, tables.Turn, tables.Passage, tables.Session
    theirs, visits = (
        tx.fetch_values(turn.select(turn.id).where(in_json_list(turn.stable_id, record.get(name, ()))))
        for name in ("turns", "visits")
    )
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


#: Columns of a project that are restored. Its row id is new, because SQLite may have reused the old one.
_COLUMNS = ("stable_id", "identity", "name", "root", "origin", "revision", "remote", "first_commit", "hints_at_ms")


def _load(store: Reader, key: str = _KEY) -> list[dict[str, Any]]:
    """Return the stored records of merges or sortings, oldest first."""
    records: list[dict[str, Any]] = json.loads(get_meta(store, key) or "[]")
    return records


def _save(tx: Tx, records: list[dict[str, Any]], key: str = _KEY) -> None:
    """Store records. Only the latest merges by hand are kept, and other merges only with their sorting."""
    by_hand = [record["number"] for record in records if "sorting" not in record][-MAX_MERGES:]
    sortings = {record["number"] for record in _load(tx, _SORTINGS)} if key == _KEY else set()
    kept = [record for record in records if record["number"] in by_hand or record.get("sorting") in sortings]
    put_meta(tx, key, json.dumps(kept))


# -- Sort sessions and turns into projects by their folders.


@dataclass(frozen=True, slots=True)
class Part:
    """The part of a session that belongs to a project other than that under which it is stored."""

    from_id: int
    to_id: int
    session_ref: int
    #: True if the session itself moves, rather than only some of its turns.
    is_session: bool
    turn_ids: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Sorting:
    number: int
    at_ms: int
    sessions: int
    turns: int
    memories: int
    #: Names of the projects that were merged completely.
    merged: tuple[str, ...]


def begin_sorting(tx: Tx) -> int:
    """Return the number of a new sorting, or of the latest one if it hasn't ended."""
    records = _load(tx, _SORTINGS)
    if records and not records[-1]["is_done"]:
        return int(records[-1]["number"])
    number = max((record["number"] for record in records), default=0) + 1
    record: dict[str, Any] = {"number": number, "at_ms": tx.now_ms(), "is_done": False, "parts": [], "merges": []}
    _save(tx, [*records, record], _SORTINGS)
    return number


def end_sorting(tx: Tx) -> None:
    """End the current sorting. Anything sorted from now on belongs to a new one."""
    records = _load(tx, _SORTINGS)
    if records and not records[-1]["is_done"]:
        records[-1]["is_done"] = True
        _save(tx, records, _SORTINGS)


def move_parts(tx: Tx, number: int, parts: Sequence[Part], *, actor: Actor) -> None:
    """Move sessions and turns with the memories that rest on them, as part of a sorting; make their daily logs due."""
    records = _load(tx, _SORTINGS)
    assert records[-1]["number"] == number
    records[-1]["parts"] += [_move_part(tx, part, actor) for part in parts]
    _save(tx, records, _SORTINGS)
    renumber_notes(tx, sorted({part.to_id for part in parts}))


def _move_part(tx: Tx, part: Part, actor: Actor) -> dict[str, Any]:
    """Move those sessions and turns of a part that are still in its project; return what was moved."""
    session, turn, project, memory = tables.Session, tables.Turn, tables.Project, tables.Memory
    is_here = (session.id == part.session_ref) & (session.project == part.from_id) & Value(int(part.is_session))
    sessions = tx.fetch_values(session.select(session.session_id).where(is_here))
    wanted = in_json_list(turn.id, part.turn_ids) & (turn.project == part.from_id)
    turns = tx.fetch(turn.select(turn.id, turn.stable_id).where(wanted))
    refs = [part.session_ref] if sessions else []
    memories = move_sessions(tx, refs, part.from_id, part.to_id, actor=actor)
    resting = move_turns(tx, [row.id for row in turns], part.to_id, SORTED, actor=actor)
    memories += tx.fetch_values(memory.select(memory.id).where(memory.episode_id.in_(resting)))
    # The summary of the session may mention both projects.
    of_part = (session.id == part.session_ref) & (session.project != part.to_id)
    tx.run(session.update(rolling_summary="", **NO_TITLE).where(of_part))
    _make_log_due(tx, [part.session_ref])
    return {
        "from": tx.fetch_value(project.select(project.stable_id).where(project.id == part.from_id)),
        "to": tx.fetch_value(project.select(project.stable_id).where(project.id == part.to_id)),
        "sessions": sessions,
        "turns": [row.stable_id for row in turns],
        "memories": sorted(set(memories)),
    }


def _make_log_due(tx: Tx, session_refs: Sequence[int]) -> None:
    """Make the daily logs of sessions due, because their sections depend on the project.

    Until then, searches don't find the logs, because a section may mention what now belongs to another project.
    """
    session = tables.Session
    columns = (session.session_id, session.first_at_ms, session.last_at_ms)
    for row in tx.fetch(session.select(*columns).where(session.id.in_(list(session_refs)))):
        make_due(tx, "extract", row.session_id, tx.now_ms(), reason=LOG_IS_DUE)
        drop_daily_logs(tx, day_of(row.first_at_ms), day_of(row.last_at_ms))


def note_merged(tx: Tx, number: int) -> None:
    """Record the latest merge as part of a sorting."""
    records, merges = _load(tx, _SORTINGS), _load(tx)
    merges[-1]["sorting"] = number
    records[-1]["merges"].append({"number": merges[-1]["number"], "name": merges[-1]["project"]["name"]})
    _save(tx, records, _SORTINGS)
    _save(tx, merges)


def list_sortings(store: Reader) -> list[Sorting]:
    """Return the sortings that can be undone, latest first."""
    return [
        Sorting(
            number=record["number"],
            at_ms=record["at_ms"],
            sessions=len({moved for part in record["parts"] for moved in part["sessions"]}),
            turns=len({moved for part in record["parts"] for moved in part["turns"]}),
            memories=len({moved for part in record["parts"] for moved in part["memories"]}),
            merged=tuple(merge["name"] for merge in record["merges"]),
        )
        for record in reversed(_load(store, _SORTINGS))
    ]


def undo_sorting(store: Store, *, actor: Actor) -> Sorting:
    """Undo the latest sorting. The sessions and turns that it moved are not sorted again.

    What was added later is left in place, and so is anything that has since been moved elsewhere or belongs to a
    forgotten project. A merge is not undone if another project now has the name or folder.

    Raises:
        NotFound: there is none.
    """
    with store.transaction() as tx:
        sortings = list_sortings(tx)
        if not sortings:
            raise NotFound("nothing was sorted, or the sorting has already been undone")
        record = _load(tx, _SORTINGS)[-1]
        for part in reversed(record["parts"]):
            _move_part_back(tx, part, actor)
        known = {merge["number"] for merge in _load(tx)}
        for merge in reversed(record["merges"]):
            if merge["number"] in known:
                with contextlib.suppress(BadRequest):
                    undo_merge(store, merge["number"], actor=actor)
        left = _load(tx)
        for part in left:
            if part.get("sorting") == record["number"]:
                del part["sorting"]
        _save(tx, left)
        _save(tx, [sorting for sorting in _load(tx, _SORTINGS) if sorting["number"] != record["number"]], _SORTINGS)
    return sortings[0]


def _move_part_back(tx: Tx, part: dict[str, Any], actor: Actor) -> None:
    session, turn, outcome = tables.Session, tables.Turn, tables.Outcome
    reason, sessions = "a sorting was undone", part["sessions"]
    keep_apart(tx, [*(f"session {key}" for key in sessions), *(f"turn {key}" for key in part["turns"])])
    from_id, to_id = (_row_of_project(tx, part[end]) for end in ("from", "to"))
    if from_id is None or to_id is None or from_id == to_id:
        return
    refs = _still_there(tx, tables.Session.session_id, sessions, to_id)
    is_here = in_json_list(turn.stable_id, part["turns"]) & (turn.project == to_id)
    turn_ids = tx.fetch_values(turn.select(turn.id).where(is_here))
    of_turns = turn.select(turn.session).where(in_json_list(turn.id, turn_ids)).distinct()
    touched = sorted({*refs, *tx.fetch_values(of_turns)})
    tx.run(session.update(rolling_summary="", **NO_TITLE).where(session.id.in_(touched)))
    is_outcome = in_json_list(outcome.session_id, sessions) & (outcome.project_id == to_id)
    tx.run(outcome.update(project_id=from_id).where(is_outcome))
    tx.run(session.update(project=from_id).where(session.id.in_(refs)))
    move_turns(tx, turn_ids, from_id, reason, actor=actor)
    memories = _still_there(tx, tables.Memory.id, part["memories"], to_id)
    move_memories(tx, in_json_list(tables.Memory.id, memories), from_id, reason, actor=actor, is_said=False)
    _make_log_due(tx, touched)
    renumber_vectors(tx, [from_id])


def _row_of_project(tx: Tx, stable_id: str) -> int | None:
    """Return the row id of a project, or of the one into which it was merged; None if it is missing or forgotten."""
    project = tables.Project
    merged = {record["project"]["stable_id"]: record["into"] for record in _load(tx)}
    is_meant = (project.stable_id == stable_id) | (project.id == merged.get(stable_id, 0))
    row = tx.fetch_first(project.select(project.id, project.identity).where(is_meant))
    return None if row is None or project_forgotten_ms(tx, row.identity) is not None else int(row.id)


def kept_apart(store: Reader) -> frozenset[str]:
    """Return what must not be sorted or merged again: identities, ``session ID`` and ``turn STABLE_ID``."""
    return frozenset(json.loads(get_meta(store, _KEPT_APART) or "[]"))


def keep_apart(tx: Tx, names: Sequence[str]) -> None:
    """Record that identities, sessions or turns must not be sorted or merged again."""
    put_meta(tx, _KEPT_APART, json.dumps(sorted(kept_apart(tx) | set(names))))


def _still_there(tx: Tx, column: Field, values: Sequence[Any], into_id: int) -> list[int]:
    """Return the row ids of the sessions or memories in a project whose column has one of the given values."""
    table: Any = column.model
    return tx.fetch_values(table.select(table.id).where(in_json_list(column, values) & (table.project == into_id)))


# -- Moved projects: their hints, the folders that have been joined to them, and how to merge them.


@dataclass(frozen=True, slots=True)
class ProjectHints:
    """A project with hints from its repository."""

    project: ProjectRow
    #: Normalised URL of its remote, without credentials; "" if there is none.
    remote: str
    #: Hash of its first commit; "" if unknown.
    first_commit: str
    #: When the hints were last read, in milliseconds since 1970; 0 if never.
    read_at_ms: int
    #: Folders that have been joined to it.
    folders: tuple[str, ...]

    @property
    def all_folders(self) -> tuple[str, ...]:
        """Its own folder, if it is known, and those that have been joined to it."""
        return tuple(filter(None, dict.fromkeys((self.project.root, *self.folders))))

    @property
    def present_folder(self) -> str:
        """The first of its folders that exists; "" if all are gone."""
        return next(filter(os.path.isdir, self.all_folders), "")


def list_hints(store: Reader) -> list[ProjectHints]:
    folder = tables.ProjectFolder
    rows = store.fetch(folder.select(folder.project_id, folder.root).order_by(folder.root))
    folders = grouped((row.project_id, row.root) for row in rows)
    return [
        ProjectHints(
            project=ProjectRow(row.id, row.identity, row.name, row.root),
            remote=row.remote,
            first_commit=row.first_commit,
            read_at_ms=row.hints_at_ms,
            folders=tuple(folders.get(row.id, ())),
        )
        for row in store.fetch(tables.Project.select().order_by(*PROJECTS_BY_NAME))
    ]


@dataclass(frozen=True, slots=True)
class ProjectCounts:
    sessions: int = 0
    #: Current memories.
    memories: int = 0


def count_projects(store: Reader) -> dict[int, ProjectCounts]:
    """Return row id → counts, for each project. Sessions count if they have turns, even if only some belong to it.

    Takes three passes over the tables, however many projects there are: 0.2 s for 100,000 turns.
    """
    sessions = {row.project: row.number for row in store.fetch(sessions_of_projects())}
    memories = {row.project: row.number for row in store.fetch(_memories_of_projects())}
    return {
        project_id: ProjectCounts(sessions.get(project_id, 0), memories.get(project_id, 0))
        for project_id in store.fetch_values(tables.Project.select(tables.Project.id))
    }


def _memories_of_projects() -> Query:
    memory = tables.Memory
    query = memory.select(memory.project.alias("project"), fn.COUNT(memory.id).alias("number"))
    return query.where(IS_CURRENT).group_by(memory.project)


def note_hints(tx: Tx, project_id: int, remote: str, first_commit: str) -> None:
    """Store hints that have just been read from a project's repository."""
    query = tables.Project.update(remote=remote, first_commit=first_commit, hints_at_ms=tx.now_ms())
    tx.run(query.where(tables.Project.id == project_id))


def link_folder(tx: Tx, project: ProjectRow, identity: str, root: str, reason: str) -> None:
    """Record that a folder's identity refers to a project."""
    query = tables.ProjectFolder.insert(
        identity=identity, project_id=project.id, root=root, reason=reason, added_at_ms=tx.now_ms()
    )
    tx.run(query.on_conflict_replace())


def check_merge(store: Store, into: ProjectRow, other: ProjectRow) -> None:
    """Raise BadRequest if two projects can't be merged: both are the same, or one of them is paused."""
    if into.id == other.id:
        raise BadRequest(f"{into.name} can't be merged with itself: name two projects")
    if {into.identity, other.identity} & paused_scopes(store):
        raise BadRequest(f"{into.name} or {other.name} is paused: end the pause before merging them")


def merge_projects(
    store: Store, into: ProjectRow, other: ProjectRow, reason: str, *, actor: Actor, is_said: bool = True
) -> int:
    """Move everything in ``other`` to ``into``, including its folders; return how many sessions were moved.

    ``undo_merge`` undoes the merge. With ``is_said``, hubs are notified.

    Raises:
        BadRequest: both are the same, or one of them is paused.
    """
    check_merge(store, into, other)
    with store.transaction() as tx:
        return merge_in(tx, into, other, reason, actor=actor, is_said=is_said)


def merge_in(tx: Tx, into: ProjectRow, other: ProjectRow, reason: str, *, actor: Actor, is_said: bool = True) -> int:
    """Do what ``merge_projects`` does, in a transaction, for two projects that aren't paused."""
    _note_merge(tx, into.id, other.id)
    moved = join_in(tx, into.id, other.id, actor=actor, is_said=is_said)
    folder, spend = tables.ProjectFolder, tables.Spend
    tx.run(folder.update(project_id=into.id).where(folder.project_id == other.id))
    tx.run(spend.update(project_id=into.id).where(spend.project_id == other.id))
    for listener in listeners():
        listener.merged(tx, other.id, into.id)
    move_pauses(tx, other.identity, into.identity)
    keep_name(tx, other.id)
    link_folder(tx, into, other.identity, other.root, reason)
    tx.run(tables.Project.delete().where(tables.Project.id == other.id))
    return moved
