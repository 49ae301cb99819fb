"""Statements to push: the first upload, pending statements, and the identities of projects on other machines."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from peewee import SQL, Case, Query, fn

from engram.enums import Actor, Importance, Scope, Source, Status
from engram.hub.protocol.statements import Stamp, Statement, clock_of
from engram.models import tables
from engram.models.engine.meta import get_meta, put_meta
from engram.models.engine.statement import grouped, in_json_list, prepared, unpack_uuid, without_index
from engram.models.engine.transaction import Reader, Store, Tx, asks_records
from engram.models.hub.memory_statements import (
    SAID,
    Clock,
    SaidMemory,
    change_said,
    first_row,
    is_said,
    registers_of,
    text_of,
)
from engram.models.hub.spaces import SetAside, Space, change_space, drop_set_aside
from engram.models.memories.memory_history import histories_of
from engram.models.memories.memory_records import MEMORIES, Memory, memories_of_ids, query_memories
from engram.models.projects.project_folders import link_folder, merge_in, merge_projects
from engram.models.projects.projects import (
    PLACEHOLDER,
    SAME_REMOTE,
    ProjectRow,
    ensure_project,
    find_project_of_identity,
    identities_of_project,
    is_shareable,
    list_projects,
    project_by_id,
)
from engram.models.work.work import paused_scopes

# -- Projects across machines are identified by the URL of their remote, or by a link that the user made.
#
# A project that only other machines have is a placeholder with the identity ``hub:…``, until a repository with the same
# remote is found, or the user runs ``engram hub link``.

#: Prefix of the shared identity of a project without a remote.
_BY_ID = "id:"
#: Reason recorded when an identity that another machine sent without a remote is linked to a local project.
_KNOWN = "another machine knows its remote now"


def shared_identity(store: Reader, project: ProjectRow) -> list[str]:
    """Return ``[identity, first commit, name]`` of a project for other machines, without paths of this machine."""
    linked = [name for name in identities_of_project(store, project) if name.startswith(PLACEHOLDER)]
    table = tables.Project
    row = store.fetch_first(
        table.select(table.remote, table.first_commit, table.stable_id).where(table.id == project.id)
    )
    if is_shareable(row.remote):
        folder = tables.ProjectFolder
        by_itself = folder.select(folder.identity).where((folder.project_id == project.id) & (folder.reason == _KNOWN))
        automatic = set(store.fetch_values(by_itself))
        linked = [name for name in linked if name not in automatic]
    if linked:
        return [linked[0].removeprefix(PLACEHOLDER), row.first_commit, project.name]
    identity = row.remote if is_shareable(row.remote) else _BY_ID + row.stable_id
    return [identity, row.first_commit, project.name]


def place_of(tx: Tx, shared: Sequence[Any], former: str = "") -> ProjectRow:
    """Return the local project that a shared identity refers to, creating a placeholder if there is none.

    Args:
        shared: identity, first commit and name.
        former: the project's identity before its remote was known; "" if there is none. From now on, it also refers to
            this local project, which gets everything from a placeholder with that identity.
    """
    identity, first_commit, name = (str(part) for part in shared)
    known = find_project_of_identity(tx, PLACEHOLDER + identity) or _real_project(tx, identity, first_commit)
    place = known or ensure_project(tx, PLACEHOLDER + identity, name)
    if former.startswith(_BY_ID):
        _let_mean(tx, PLACEHOLDER + former, place)
    return place


def _let_mean(tx: Tx, identity: str, place: ProjectRow) -> None:
    """Make a placeholder's identity refer to a project, unless it refers to another one or either is paused."""
    meant = find_project_of_identity(tx, identity) or _real_project(tx, identity.removeprefix(PLACEHOLDER), "")
    if meant is None:
        link_folder(tx, place, identity, "", _KNOWN)
    elif meant.id != place.id and meant.identity == identity and not {identity, place.identity} & paused_scopes(tx):
        merge_in(tx, place, meant, _KNOWN, actor=Actor.TIDYING)


def _real_project(store: Reader, identity: str, first_commit: str) -> ProjectRow | None:
    """Return the project with a folder that a shared identity refers to.

    A repository with the same remote but a different first commit is a different project.
    """
    project = tables.Project
    if identity.startswith(_BY_ID):
        condition = project.stable_id == identity.removeprefix(_BY_ID)
    elif is_shareable(identity):
        condition = project.remote == identity
        if first_commit:
            condition &= project.first_commit.in_(["", first_commit])
    else:
        return None
    is_real = fn.SUBSTR(project.identity, 1, len(PLACEHOLDER)) != PLACEHOLDER
    row_id = store.fetch_value(project.select(project.id).where(condition & is_real).order_by(project.id).limit(1))
    return None if row_id is None else project_by_id(store, row_id)


def adopt_placeholders(store: Store) -> int:
    """Merge placeholders into the projects of folders that have since been found; return how many were merged."""
    adopted = 0
    for placeholder in list_projects(store):
        if placeholder.identity.startswith(PLACEHOLDER):
            real = _real_project(store, placeholder.identity.removeprefix(PLACEHOLDER), "")
            if real is not None and real.id != placeholder.id:
                merge_projects(store, real, placeholder, SAME_REMOTE, actor=Actor.TIDYING)
                adopted += 1
    return adopted


# -- Pending statements of a space, which are built when they are sent.

#: Key in ``meta`` of the space for which the first upload is still being queued, and the value when there is none.
_ENQUEUING, _NOTHING = "hub_enqueuing", "0 0"
#: Maximum number of memories that are queued for the first upload in one transaction.
_BATCH = 1_000


# -- The first upload: every memory of this machine.


def begin_enqueuing(tx: Tx, space_id: int) -> None:
    """Make ``enqueue_all`` queue every memory of this machine for a space."""
    put_meta(tx, _ENQUEUING, f"{space_id} 0")


def enqueue_all(store: Store, space: Space) -> int:
    """Continue queuing the first upload where it stopped; return how many memories were queued.

    Each field is stamped with the time at which it was last decided, so that two machines that started with copies of
    the same memory.db agree on the newer value.
    """
    total = 0
    while get_meta(store, _ENQUEUING) not in (None, _NOTHING):
        with store.transaction() as tx:
            space_id, after_id = (int(part) for part in (get_meta(tx, _ENQUEUING) or _NOTHING).split())
            if space_id != space.id:
                return total
            # Other people's memories are not sent, because each of the user's machines receives them directly.
            of_batch = (tables.Memory.id > after_id) & (tables.Memory.origin == "")
            query = query_memories().where(of_batch).order_by(tables.Memory.id).limit(_BATCH)
            memories = tx.fetch_records(MEMORIES, query)
            if not memories:
                put_meta(tx, _ENQUEUING, _NOTHING)
                return total
            _enqueue(tx, space, memories)
            put_meta(tx, _ENQUEUING, f"{space.id} {memories[-1].id}")
            total += len(memories)
    return total


def _enqueue(tx: Tx, space: Space, memories: Sequence[Memory]) -> None:
    clock = Clock(tx, space)
    histories = histories_of(tx, [memory.episode_id for memory in memories])
    rows = [
        first_row(
            tx,
            clock,
            memory,
            histories.get(memory.episode_id, ()),
            is_extracted=memory.source == Source.AUTO,
            made_at_ms=memory.kept_at_ms,
        )
        for memory in memories
    ]
    tx.insert_many(tables.HubMemory, rows, or_ignore=True)
    clock.store()


# -- Pages to push.


def build_statements(store: Reader, all_said: Sequence[SaidMemory]) -> dict[bytes, Statement]:
    """Return memory id → statement, for memories that exist. Call this in a snapshot."""
    memories = memories_of_ids(store, [said.episode_id for said in all_said if not said.is_forgotten])
    evidence = _evidence_of(store, [memory.id for memory in memories.values()])
    projects = {
        project_id: _project_for_others(store, project)
        for project_id in {memory.project_id for memory in memories.values() if memory.project_id is not None}
        if (project := project_by_id(store, project_id)) is not None
    }
    statements = {}
    for said in all_said:
        memory = memories.get(said.episode_id)
        if memory is not None and not said.is_forgotten:
            birth = _birth(memory, evidence.get(memory.id, []), *projects.get(memory.project_id or 0, (None, "")))
            statements[said.memory_id] = Statement(birth, registers_of(said, said.own_text or text_of(memory)))
    return statements


def _project_for_others(store: Reader, project: ProjectRow) -> tuple[list[str], str]:
    """Return a project's identity for other machines, and the one before its remote was known; "" if it is unknown."""
    shared, table = shared_identity(store, project), tables.Project
    if shared[0].startswith(_BY_ID):
        return shared, ""
    return shared, _BY_ID + str(store.fetch_value(table.select(table.stable_id).where(table.id == project.id)))


def _birth(memory: Memory, evidence: list[str], project: list[str] | None, former: str) -> dict[str, Any]:
    birth: dict[str, Any] = {
        "id": memory.episode_id,
        "k": memory.kind.value,
        "v": memory.voice.value,
        "s": memory.source.value,
        "x": memory.extractor,
        "c": memory.created_at_ms,
        "t": memory.kept_at_ms,
        "cf": memory.confidence,
        "q": memory.quality,
    }
    optional = {
        "vf": memory.valid_from_ms,
        "su": memory.suspect,
        "sl": memory.slot,
        "p": project,
        "pf": former,
        "e": evidence,
        "pr": int(memory.status == Status.PROVISIONAL),
        "g": int(memory.scope == Scope.GLOBAL),
        "im": int(memory.importance == Importance.HIGH),
    }
    return birth | {name: value for name, value in optional.items() if value}


def _evidence_of(store: Reader, row_ids: Iterable[int]) -> dict[int, list[str]]:
    table = tables.Evidence
    listed = in_json_list(table.memory, row_ids)
    query = table.select(table.memory.alias("row_id"), table.uuid).where(listed & table.uuid.is_null(False))
    rows = store.fetch(query.order_by(table.memory, table.seq))
    return grouped((row.row_id, unpack_uuid(row.uuid)) for row in rows)


def mark_pushed(tx: Tx, space_id: int, pushed: Iterable[tuple[int, bytes, int]]) -> None:
    """Record that the hub has statements, given as (author, memory, version). Newer versions are still pending."""
    tx.run_many(
        _mark_pushed(0, 0, b"", 0).sql,
        [_mark_pushed(space_id, author, memory_id, version).parameters for author, memory_id, version in pushed],
    )


def give_versions(tx: Tx, space_id: int) -> None:
    """Give a version of this device to each statement that this machine sends for another one."""
    memory = tables.HubMemory
    waits = (without_index(memory.space) == space_id) & (memory.version > memory.pushed) & (memory.version == 0)
    tx.run(memory.update(version=1).where(waits))


# -- Wrong clocks, copied machines and restored hubs.


def _restamp(tx: Tx, space: Space, is_due: Any, renew: Any) -> int:
    """Restamp fields of pending statements; return how many statements changed.

    Args:
        is_due: returns True for a stamp to replace.
        renew: returns the new stamp for an old one; called in ascending order of the old stamps.
    """
    dirty = load_outgoing(tx, space.id, 1 << 31)
    due = sorted(
        (Stamp(register[0], register[1]), number, name)
        for number, memory in enumerate(dirty)
        for name, register in memory.said.items()
        if is_due(Stamp(register[0], register[1]))
    )
    changed: dict[int, dict[str, Any]] = {}
    for stamp, number, name in due:
        said = changed.setdefault(number, dict(dirty[number].said))
        said[name] = [*renew(stamp), *said[name][2:]]
    for number, said in changed.items():
        change_said(tx, dirty[number], said=json.dumps(said))
    return len(changed)


def restamp_future(tx: Tx, space: Space, device: int, hub_ms: int, max_ahead_ms: int) -> int:
    """Restamp fields that were stamped by a clock that was ahead, but never with less than the hub has seen."""
    limit = clock_of(hub_ms + max_ahead_ms)
    if space.clock <= limit:
        return 0
    clock = max(clock_of(hub_ms), space.published)

    def renew(stamp: Stamp) -> Stamp:
        nonlocal clock
        clock += 1
        return Stamp(clock, stamp.device)

    count = _restamp(tx, space, lambda stamp: stamp.device == device and stamp.hlc > limit, renew)
    change_space(tx, space.id, clock=clock)
    return count


def become_device(tx: Tx, space: Space, old: int, new: int) -> int:
    """Send pending statements as a new device, because this machine is a copy of the old one or was restored.

    Stamps that the hub has not seen become those of the new device, and version numbers restart.
    """
    count = _restamp(
        tx,
        space,
        lambda stamp: stamp.device == old and stamp.hlc > space.published,
        lambda stamp: Stamp(stamp.hlc, new),
    )
    memory = tables.HubMemory
    waits = Case(None, [(memory.version > memory.pushed, 1)], 0)
    tx.run(memory.update(version=waits, pushed=0).where(memory.space == space.id))
    return count


def say_all_again(tx: Tx, space_id: int, author: int) -> None:
    """Queue all of the user's statements and, for a keeper, erasures of other people's, because the hub has lost some.

    Statements that the hub still has leave the queue when they are pulled. This machine's own statements are sent with
    a new version, because they may include statements from other machines that the hub lacks.
    """
    memory = tables.HubMemory
    is_erased = (memory.is_forgotten == 1) & (memory.version > 0)
    is_said_here = (memory.author == author) | is_erased
    newer = Case(None, [(memory.version > 0, memory.version + 1)], 0)
    tx.run(memory.update(version=newer, pushed=-1).where((memory.space == space_id) & is_said_here))


def say_refused_again(tx: Tx, space_id: int, rows: Sequence[SetAside]) -> None:
    memory = tables.HubMemory
    for row in rows:
        of_row = is_said(space_id, row.author, row.memory_id)
        tx.run(memory.update(pushed=memory.version - 1).where(of_row & (memory.version == memory.pushed)))
    drop_set_aside(tx, space_id, "push", [(row.author, row.memory_id) for row in rows])


def say_with_new_key(tx: Tx, space_id: int, author: int) -> None:
    """Queue all of the user's statements again, so that they are sealed with the newest key."""
    memory = tables.HubMemory
    tx.run(memory.update(version=memory.version + 1).where((memory.space == space_id) & (memory.author == author)))


def seal_again(tx: Tx, space_id: int) -> None:
    """Queue what this device has sent to a space again, so that it is sealed with the key that was just stored."""
    memory = tables.HubMemory
    tx.run(memory.update(version=memory.version + 1).where((memory.space == space_id) & (memory.version > 0)))


def forgotten_in_space(store: Reader, space_id: int) -> set[tuple[int, bytes]]:
    """Return (author, memory id) of everything in a space that was forgotten on any machine."""
    memory = tables.HubMemory
    of_space = (without_index(memory.space) == space_id) & (memory.is_forgotten == 1)
    return {
        (row.author, bytes(row.memory_id))
        for row in store.fetch(memory.select(memory.author, memory.memory_id).where(of_space))
    }


def count_statements(store: Reader, space_id: int) -> Mapping[str, int]:
    """Return how many memories of a space this machine has, and how many of them were forgotten."""
    memory = tables.HubMemory
    gone = fn.COALESCE(fn.SUM(memory.is_forgotten), 0).alias("gone")
    row = store.fetch_first(memory.select(fn.COUNT(SQL("*")).alias("all"), gone).where(memory.space == space_id))
    return {"memories": row.all - row.gone, "forgotten": row.gone}


@asks_records(SAID)
def load_outgoing(space_id: int, limit: int) -> Query:
    """Return at most ``limit`` pending statements."""
    memory = tables.HubMemory
    in_space = without_index(memory.space) == space_id
    return SAID.select().where(in_space & (memory.version > memory.pushed)).limit(limit)


@prepared
def _mark_pushed(space_id: int, author: int, memory_id: bytes, version: int) -> Query:
    memory = tables.HubMemory
    return memory.update(pushed=fn.MAX(memory.pushed, version)).where(is_said(space_id, author, memory_id))
