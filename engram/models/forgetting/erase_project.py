"""Permanently erase a project's data, and data of sessions in folders that must not be read."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from peewee import EXCLUDED, ColumnBase, Query, Select, fn

from engram.enums import Actor, Scope, Source
from engram.models import tables
from engram.models.engine.statement import in_json_list
from engram.models.engine.transaction import Reader, Store, Tx, writes
from engram.models.forgetting.erase_entries import clean_sessions, invalidate_readers
from engram.models.forgetting.forget_memories import clean_runs, drop_all_notes, memories_resting_on
from engram.models.memories.judgements import is_settled_by_hand
from engram.models.memories.memory_changes import delete_memory, erase_fields, forget_evidence
from engram.models.memories.memory_records import Memory, select_memories
from engram.models.memories.tombstones import TombstoneKind, project_forgotten_ms
from engram.models.projects.projects import ProjectRow, find_project_of_identity, identities_of_project
from engram.models.sessions.prompt_outcomes import drop_outcomes_of_project
from engram.models.sessions.sessions import SessionRow
from engram.models.sessions.turn_changes import delete_turn, withdraw_turn
from engram.models.tables.session_tables import was_in_project
from engram.models.work.work import Span


@dataclass(frozen=True, slots=True)
class ProjectContents:
    project: ProjectRow
    #: The agents' ids of the sessions that began in it.
    session_ids: tuple[str, ...]
    #: Row ids of those sessions, and of sessions that began elsewhere and worked in it.
    session_refs: tuple[int, ...]
    turn_ids: tuple[int, ...]
    #: Memories to delete: those that belong to this project only.
    memories: tuple[Memory, ...]
    #: Global memories that came from the project. They are kept, but lose their evidence.
    released: tuple[Memory, ...]
    #: Memories from elsewhere that also rest on its turns. They are kept with their other evidence.
    supported: tuple[Memory, ...]


def contents_of_project(store: Reader, project: ProjectRow, until_ms: int | None = None) -> ProjectContents:
    """Return a project's contents; with ``until_ms``, only those up to that time."""
    limit = 1 << 62 if until_ms is None else until_ms
    memory, turn, session = tables.Memory, tables.Turn, tables.Session
    is_early_turn = fn.COALESCE(turn.started_at_ms, 0) <= limit
    turns = turn.select(turn.id).where((turn.project == project.id) & is_early_turn).order_by(turn.id)
    sessions = session.select(session.session_id).where(session.project == project.id).order_by(session.id)
    is_early = memory.created_at_ms <= limit
    own = select_memories(store, (memory.project == project.id) & is_early)
    is_foreign = fn.coalesce(memory.project, 0) != project.id
    evidence = tables.Evidence
    supporting = evidence.select(evidence.memory).where(_is_from_project(project.id))
    resting = select_memories(store, is_foreign & is_early & memory.id.in_(supporting))
    return ProjectContents(
        project=project,
        session_ids=tuple(store.fetch_values(sessions)),
        session_refs=tuple(store.fetch_values(_sessions_of(project.id).order_by(session.id))),
        turn_ids=tuple(store.fetch_values(turns)),
        memories=tuple(memory for memory in own if memory.scope != Scope.GLOBAL),
        released=tuple(memory for memory in own if memory.scope == Scope.GLOBAL),
        supported=tuple(resting),
    )


def _is_from_project(project_id: int) -> ColumnBase:
    """Return the condition that evidence comes from a project: by its turn or, if that is unknown, by its session."""
    evidence, session, turn = tables.Evidence, tables.Session, tables.Turn
    sessions = session.select(session.session_id).where(session.project == project_id)
    turns = turn.select(turn.id).where(turn.project == project_id)
    of_session = evidence.turn_id.is_null() & evidence.session_id.in_(sessions)
    condition: ColumnBase = of_session | evidence.turn_id.in_(turns)
    return condition


# -- tombstones of projects


def note_forgotten_project(tx: Tx, project: ProjectRow) -> int:
    """Record that everything in a project up to now is forgotten, and return the current time.

    Reads of its transcripts that are in progress start over.
    """
    until_ms = tx.now_ms()
    for identity in identities_of_project(tx, project):
        _mark_forgotten(tx, identity.encode(), until_ms)
    transcript = tables.Transcript
    query = transcript.update(generation=transcript.generation + 1)
    tx.run(query.where(transcript.session.in_(_sessions_of(project.id))))
    return until_ms


def forgotten_marks(store: Reader, identities: Iterable[str]) -> list[tuple[str, bytes, int]]:
    """Return the tombstones of forgotten projects, to be carried into a copy of the database."""
    until = {identity: project_forgotten_ms(store, identity) for identity in identities}
    return [
        (TombstoneKind.PROJECT.value, identity.encode(), until_ms)
        for identity, until_ms in until.items()
        if until_ms is not None
    ]


def carry_forgotten_projects(
    tx: Tx,
    tombstones: Iterable[tuple[str, bytes, int]],
    clean_note: Callable[[str, str], str | None] = lambda name, text: None,
    *,
    actor: Actor,
) -> int:
    """Erase projects that were forgotten later in another database than in this one; return how many items were erased.

    Projects that this database has already forgotten are skipped, because others may have been joined to them since.

    Args:
        clean_note: takes the name and text of a note that a run keeps for an undo, and returns what may remain of the
            text.
    """
    erased = 0
    for kind, key, until_ms in tombstones:
        identity = key.decode("utf-8", "replace")
        if kind != TombstoneKind.PROJECT.value or until_ms <= (project_forgotten_ms(tx, identity) or -1):
            continue
        _mark_forgotten(tx, key, until_ms)
        project = find_project_of_identity(tx, identity)
        if project is not None:
            erased += _erase_project(tx, contents_of_project(tx, project, until_ms), clean_note, actor)
    return erased


def _erase_project(
    tx: Tx, contents: ProjectContents, clean_note: Callable[[str, str], str | None], actor: Actor
) -> int:
    ids = {memory.episode_id for memory in contents.memories}
    clean_runs(tx, lambda line: not any(episode_id in line for episode_id in ids), clean_note)
    drop_all_notes(tx)
    release_memories(tx, contents, actor=actor)
    clean_traces(tx, contents)
    erase_turns(tx, contents.turn_ids)
    erase_memories(tx, contents.memories, actor=actor)
    return len(contents.turn_ids) + len(contents.memories) + len(contents.released)


# -- erasing


def erase_turns(tx: Tx, turn_ids: Sequence[int]) -> None:
    """Delete turns, with tombstones for them and their entries."""
    for turn_id in turn_ids:
        invalidate_readers(tx, turn_id)
        delete_turn(tx, turn_id)


def erase_memories(tx: Tx, memories: Sequence[Memory], *, actor: Actor) -> None:
    """Delete memories with their index, vectors and history, and the steps of other histories that mention them."""
    for memory in memories:
        delete_memory(tx, memory, actor=actor)
    ids = {memory.episode_id for memory in memories}
    history = tables.History
    told = history.before.concat(history.after).concat(history.reason)
    # SQLite can't search for many strings at once, so it finds text with any id, and the ids are compared here.
    rows = tx.fetch(history.select(history.id, told.alias("told")).where(fn.INSTR(told, "ep_") > 0))
    row_ids = [row.id for row in rows if any(episode_id in row.told for episode_id in ids)]
    tx.run(history.delete().where(in_json_list(history.id, row_ids)))


def release_memories(tx: Tx, contents: ProjectContents, *, actor: Actor) -> None:
    """Remove a project's text from the memories that are kept."""
    reason = "its evidence was forgotten"
    for memory in (*contents.released, *contents.supported):
        forget_evidence(tx, memory, _is_from_project(contents.project.id), reason, actor=actor)
    for memory in contents.released:
        erase_fields(
            tx,
            memory,
            reason,
            actor=actor,
            content="",
            facts=(),
            entities=(),
            questions=(),
            title="",
            stale_reason="",
            project_id=None,
            session_id="",
        )


def clean_traces(tx: Tx, contents: ProjectContents) -> None:
    """Delete everything that is stored about a project and its sessions, except turns and memories."""
    clean_sessions(tx, contents.session_refs, contents.session_ids)
    tx.run(tables.StandingFile.delete().where(tables.StandingFile.project == contents.project.id))
    tx.run(tables.Branch.delete().where(tables.Branch.project == contents.project.id))
    # Someone who forgets a project doesn't want to share what is said in it later.
    tx.run(tables.HubRule.delete().where(tables.HubRule.project == contents.project.id))
    drop_outcomes_of_project(tx, contents.project.id)


def _sessions_of(project_id: int) -> Select:
    """Return a query for the sessions that began or worked in a project."""
    return tables.Session.select(tables.Session.id).where(was_in_project(project_id))


@writes
def _mark_forgotten(key: bytes, until_ms: int) -> Query:
    """Store a project's tombstone; if it was forgotten before, the later time applies."""
    tombstone = tables.Tombstone
    return tombstone.insert(kind=TombstoneKind.PROJECT, key=key, at_ms=until_ms).on_conflict(
        conflict_target=(tombstone.kind, tombstone.key),
        update={tombstone.at_ms: fn.MAX(tombstone.at_ms, EXCLUDED.at_ms)},
    )


# -- Sessions whose folder isn't known yet: what was stored is deleted if the folder turns out to be excluded or paused.


def drop_unsettled_turns(store: Store, session: SessionRow, spans: Sequence[Span] | None) -> int:
    """Delete turns that were stored before the session's folder was known, and memories made from them.

    What a person pinned, saved or changed is kept. Return how many turns were deleted.

    Args:
        spans: when the folder's project was paused; None if the folder is excluded, so all turns are deleted.
    """
    turn, session_table = tables.Turn, tables.Session
    query = turn.select(turn.id, turn.key, turn.started_at_ms).where(turn.session == session.id).order_by(turn.id)
    if not store.has_any(query.limit(1)):
        return 0
    with store.transaction() as tx:
        turns = [row for row in tx.fetch(query) if spans is None or is_within(row.started_at_ms, spans)]
        for row in turns:
            for memory in memories_resting_on(tx, [row.id]):
                if memory.source == Source.AUTO and not is_settled_by_hand(tx, memory):
                    delete_memory(tx, memory, actor=Actor.TIDYING)
            invalidate_readers(tx, row.id)
            withdraw_turn(tx, row.key)
        messages_left = fn.MAX(0, session_table.message_count - len(turns))
        tx.run(session_table.update(message_count=messages_left).where(session_table.id == session.id))
    return len(turns)


def is_within(at_ms: int | None, spans: Sequence[Span]) -> bool:
    """Return True if a time is in one of the spans; an unknown time is in none."""
    return at_ms is not None and any(begin <= at_ms < end for begin, end in spans)
