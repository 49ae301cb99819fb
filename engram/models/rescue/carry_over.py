"""Carry over changes made by hand from a damaged, current or older memory.db into the one that takes its place.

A change is carried over if a person or an agent made it, whether or not the new database has the memory. The work of
extractors and consolidation is not carried over: it is redone from the transcripts, or a restore is meant to undo it.
Memories whose transcripts are gone are carried over as well, because nothing would make them again.
"""

from __future__ import annotations

import contextlib
import dataclasses
import logging
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import peewee
from peewee import SQL

from engram.enums import Actor, Source
from engram.errors import BadRequest, BrokenDatabase, DiskFull, EngramError, NotFound, StoreError
from engram.models import tables
from engram.models.engine.meta import metas_beginning_with, put_meta
from engram.models.engine.transaction import Reader, Store, Tx
from engram.models.forgetting.erase_entries import queued_key
from engram.models.forgetting.forget_memories import apply_tombstones
from engram.models.memories import memory_changes, memory_records
from engram.models.memories.judgements import CONTRADICTIONS, JUDGEMENTS
from engram.models.memories.memory_changes import MOVE, RELEASE
from engram.models.memories.memory_history import (
    BY_HAND_ACTIONS,
    BY_HAND_ACTORS,
    ERASE,
    RETURN,
    TAKE_BACK,
    Change,
    add_history,
    fields_of_snapshot,
    history_of,
    snapshot,
)
from engram.models.memories.memory_imports import carry_contradiction, carry_decision, carry_history
from engram.models.memories.memory_records import IS_MANUAL, Evidence, Memory
from engram.models.memories.memory_undo import is_making
from engram.models.memories.watermarks import keep_undone, load_undone, mark_unjoined, unjoined_rows
from engram.models.projects import projects
from engram.models.projects.project_folders import (
    keep_apart,
    kept_apart,
    link_folder,
    list_merges,
    merge_in,
    undo_merge,
)
from engram.models.projects.projects import ProjectRow, carry_names, find_project_of_identity
from engram.models.rescue.clean_copies import carry_tombstones, is_named_by_tombstone, read_tombstones
from engram.models.rescue.soundness import UNREADABLE, opened_source
from engram.models.sessions import sessions
from engram.models.sessions.reading_progress import gone_sessions, gone_turns, read_missing_again
from engram.models.work.spend import carry_spending, projects_with_spending
from engram.models.work.task_runs import carry_lost_writes
from engram.models.work.work import carry_pauses
from engram.paths import spellings_of

logger = logging.getLogger(__name__)

# -- Changes made by hand.

#: Steps that are only a consequence of something else, even if a person did that.
_EFFECTS = (MOVE, RELEASE, ERASE, RETURN)
#: Reasons for carrying over a memory: a person or an agent kept it, or it can't be made again.
_BY_HAND_REASON, _GONE_REASON = "by hand", "its transcript is gone"


def _quoted(names: Iterable[str]) -> str:
    return ", ".join(f"'{name}'" for name in names)


#: SQL condition for the steps of the history that a person or an agent took. ``_is_by_hand`` is the same in Python.
_STEPS_BY_HAND = (
    f"(action IN ({_quoted(BY_HAND_ACTIONS)}) "
    f"OR (actor IN ({_quoted(BY_HAND_ACTORS)}) AND action NOT IN ({_quoted(_EFFECTS)})))"
)
#: SQL condition for memories that reading transcripts again would not restore: saved, pinned, lowered or from a pack.
_BY_HAND_IN_ROW = f"{IS_MANUAL} OR e.is_pinned OR e.is_lowered OR e.origin LIKE 'pack %'"
#: The same, including memories that a person or an agent changed or chose as a replacement.
_BY_HAND = f"""{_BY_HAND_IN_ROW}
    OR e.episode_id IN (SELECT episode_id FROM history WHERE {_STEPS_BY_HAND})
    OR e.episode_id IN (SELECT CASE WHEN json_valid(after) THEN coalesce(json_extract(after, '$.superseded_by'), '')
        ELSE '' END FROM history WHERE {_STEPS_BY_HAND})"""
#: Exceptions that reading damaged rows may raise, apart from Engram's own.
_UNREADABLE = (*UNREADABLE, peewee.IntegrityError)
#: Maximum number of unreadable rows in a damaged table; after that, the rest is skipped.
MAX_UNREADABLE_ROWS = 5_000


def _is_by_hand(step: Change) -> bool:
    return step.is_by_hand or (step.actor in BY_HAND_ACTORS and step.action not in _EFFECTS)


#: Prefix of a key in ``meta`` under which it is recorded what happened when a damaged memory.db was set aside. The
#: file's name follows.
RESCUE = "rescue "
#: A function that carries over additional data into one memory.db from another.
CarryMore = Callable[[Tx, Reader], None]


@dataclass(frozen=True, slots=True)
class Recovered:
    memories: int = 0
    #: Memories that already existed and were changed.
    changed: int = 0
    #: Number of tombstones.
    tombstones: int = 0
    #: Memories kept by hand that could not be read in any source.
    lost: int = 0
    #: Turns that only a damaged file has, because their transcripts no longer exist.
    gone_turns: int = 0
    #: False if the newest source could not be read completely, so data that only it had may be missing.
    is_complete: bool = True


def recover_by_hand(
    store: Store,
    sources: Sequence[Path],
    *,
    actor: Actor,
    carry_more: CarryMore,
    with_new_projects: bool = False,
) -> Recovered:
    """Carry over everything that was saved, changed, decided or forgotten by hand, from the first source that has it.

    Forgotten text remains forgotten, text from a pause remains unread, and money that was spent remains spent.

    Args:
        store: the memory.db to carry it into. If its content is older than the first source, it gets the changes that
            were made there.
        sources: newest first. They may be damaged: unreadable data is skipped, and counts as lost if no other source
            has it.
        carry_more: carries over additional data: joined hubs, which this package knows nothing about.
        with_new_projects: also carry over all memories of projects that ``store`` doesn't have.
    """
    memories = changed = tombstones = 0
    is_complete = not sources
    unread: set[str] = set()
    #: Parts that were read from a newer source, so that an older source is no longer consulted about them.
    carried_parts: set[str] = set()
    present = {str(name) for name in store.fetch_values(tables.Memory.select(tables.Memory.episode_id))}
    for number, path in enumerate(sources):
        is_newest = number == 0
        with opened_source(store, path) as source:
            new_projects = _projects_missing_in(store, source) if with_new_projects and is_newest else ()
            with _skipping_damage(source, "tombstones"):
                tombstones += _carry_tombstones(store, source)
            with _skipping_damage(source, "pauses"), store.transaction() as tx:
                carry_pauses(tx, source, is_newer=is_newest)
            with _skipping_damage(source, "projects", carried_parts):
                _carry_projects(store, source, actor, is_newest="projects" not in carried_parts)
            with _skipping_damage(source, "memories"):
                carried, unreadable = _carry_memories(store, source, sources[number + 1 :], new_projects, actor)
                memories += carried
                unread |= unreadable
                if is_newest:
                    is_complete = _is_whole(source)
            if is_newest:
                changed += _carry_changes(store, source, present)
            _carry_decisions(store, source, carried_parts)
            if "hubs" not in carried_parts:
                with _skipping_damage(source, "hubs", carried_parts), store.transaction() as tx:
                    carry_more(tx, source)
            is_newer = "spending" not in carried_parts
            with _skipping_damage(source, "spending", carried_parts):
                _carry_spending(store, source, is_newer=is_newer)
            if is_newest:
                with _skipping_damage(source, "turns"), store.transaction() as tx:
                    read_missing_again(tx, source)
                with _skipping_damage(source, "news"):
                    _carry_news(store, source)
    # Another source had them, or they were forgotten.
    there = {name for name in unread if memory_records.find_memory(store, name) is not None}
    there |= {name for name in unread if is_named_by_tombstone(store, name, None, (), Source.MANUAL)}
    unread -= there | _automatic(store, sources, unread)
    with store.transaction() as tx:
        apply_tombstones(tx, actor=Actor.TIDYING)
        memory_changes.restore_orphans(tx, actor=Actor.TIDYING)
    return Recovered(
        memories=memories, changed=changed, tombstones=tombstones, lost=len(unread), is_complete=is_complete
    )


def carry_forgotten(store: Store, sources: Sequence[Path]) -> None:
    """Carry over only tombstones, pauses and the names of projects, from each source that can be read."""
    for number, path in enumerate(sources):
        with opened_source(store, path) as source, _skipping_damage(source, "forgotten"):
            _carry_tombstones(store, source)
            with store.transaction() as tx:
                carry_pauses(tx, source, is_newer=number == 0)
                carry_names(tx, source)


@contextlib.contextmanager
def _skipping_damage(source: Store, part: str, carried_parts: set[str] | None = None) -> Iterator[None]:
    """Log a part of a source that can't be read, and continue with the next part; record one that can be read."""
    try:
        yield
        if carried_parts is not None:
            carried_parts.add(part)
    except DiskFull:
        raise  # nothing is wrong with the source
    except (EngramError, *_UNREADABLE) as error:
        logger.warning("action=recover source=%s part=%s reason=%s", source.path.name, part, error)


def _carry_tombstones(store: Store, source: Store) -> int:
    """Add the tombstones; return how many are new."""
    with store.transaction() as tx:
        return carry_tombstones(tx, read_tombstones(source))


def _carry_news(store: Store, source: Store) -> None:
    """Carry over the records of earlier damage and lost writes, which a new memory.db does not make good."""
    carry_lost_writes(store, source)
    with store.transaction() as tx:
        for key, text in metas_beginning_with(source, RESCUE).items():
            put_meta(tx, key, text)


def _carry_spending(store: Store, source: Store, *, is_newer: bool) -> None:
    """Carry over the ledger. A project without memories is created, because it has its own cap."""
    with store.transaction() as tx:
        spent = (projects.project_by_id(source, project_id) for project_id in projects_with_spending(source))
        project_ids = {project.id: _place(tx, project).id for project in spent if project is not None}
        carry_spending(tx, source, project_ids, is_newer=is_newer)


def _is_whole(source: Store) -> bool:
    """Return True if SQLite finds the memories sound. A misplaced page hides rows without an error."""
    return all(source.value(f"PRAGMA main.integrity_check({table})") == "ok" for table in ("episode", "history"))


# -- Projects: their names, the folders that have been joined to them, and folders that the user keeps apart.


def _projects_missing_in(store: Reader, source: Store) -> tuple[int, ...]:
    """Return the source's row ids of projects that ``store`` doesn't have."""
    with _skipping_damage(source, "new projects"):
        found = projects.list_projects(source)
        return tuple(project.id for project in found if find_project_of_identity(store, project.identity) is None)
    return ()


def _carry_projects(store: Store, source: Store, actor: Actor, *, is_newest: bool) -> None:
    with store.transaction() as tx:
        carry_names(tx, source)
        if not is_newest:
            return
        for project in projects.list_projects(source):
            if len(projects.names_of_project(source, project.id)) > 1:
                _place(tx, project)  # renamed by hand, which reading transcripts again would not restore
        apart = kept_apart(source)
        keep_apart(tx, sorted(apart))
    # Someone who undid a merge wants the folder to remain apart, as a project of its own.
    again = apart & {project.identity for project in projects.list_projects(source)}
    for number in [merge.number for merge in list_merges(store) if merge.root in again]:
        with contextlib.suppress(BadRequest, NotFound):
            undo_merge(store, number, actor=actor)
    folder = tables.ProjectFolder
    for row in source.fetch(folder.select().order_by(folder.added_at_ms)):
        into = projects.project_by_id(source, row.project_id)
        if into is not None:
            with store.transaction() as tx:
                _join(tx, _place(tx, into), row.identity, row.root, row.reason, actor)


def _join(tx: Tx, into: ProjectRow, identity: str, root: str, reason: str, actor: Actor) -> None:
    """Join a folder to a project. If the folder is a local project, that project is merged into it."""
    other = find_project_of_identity(tx, identity)
    if other is None:
        link_folder(tx, into, identity, root, reason)
    elif other.id != into.id and other.identity == identity:
        merge_in(tx, into, other, reason, actor=actor)


def _place(tx: Tx, project: ProjectRow) -> ProjectRow:
    """Return the local project that corresponds to a source's project; create it if it is missing."""
    return projects.ensure_project(tx, project.identity, project.name, project.root)


# -- Memories that this memory.db doesn't have yet.


def _carry_memories(
    store: Store, source: Store, older: Sequence[Path], new_projects: Collection[int], actor: Actor
) -> tuple[int, set[str]]:
    """Carry over memories kept by hand, and all those of some projects; return their number and the unreadable ones."""
    memories, unread = 0, set[str]()
    sound = _memories_of(store, older)
    by_hand = _rows_by_hand(source)
    unjoined: list[int] = []
    with _skipping_damage(source, "memories to compare"):
        unjoined = unjoined_rows(source)
    of_projects = _rows_of(source, tables.Memory.project, new_projects)
    for row_id, name in (by_hand | of_projects | _rows_of_gone_sessions(source)).items():
        try:
            for memory in memory_records.select_memories(source, tables.Memory.id == row_id):
                copy = sound.get((memory.episode_id, memory.revision), memory)
                if (copy.kind, copy.summary, copy.content) != (memory.kind, memory.summary, memory.content):
                    continue  # the text is damaged, but an older source has it
                why = "its project was missing" if row_id in of_projects else _GONE_REASON
                reason = _BY_HAND_REASON if row_id in by_hand else why
                memories += _carry(store, source, memory, reason, actor, is_unjoined=row_id in unjoined)
        except DiskFull:
            raise
        except (EngramError, *_UNREADABLE) as error:
            logger.warning("action=recover row=%s reason=%s", row_id, error)
            unread.add(name)
    return memories, unread


def _memories_of(store: Store, paths: Sequence[Path]) -> dict[tuple[str, int], Memory]:
    """Return (id, revision) → memory, for all memories kept by hand that can be read in one of the databases."""
    memories: dict[tuple[str, int], Memory] = {}
    is_by_hand = tables.Memory.id.in_(SQL(f"(SELECT e.id FROM episode e WHERE {_BY_HAND})"))
    for path in paths:
        with opened_source(store, path) as source, _skipping_damage(source, "comparison"):
            for memory in memory_records.select_memories(source, is_by_hand):
                memories.setdefault((memory.episode_id, memory.revision), memory)
    return memories


def memories_to_carry(source: Store, identities: Set[str]) -> set[str]:
    """Return the ids of the memories that a restore would carry over, given the projects that the backup has."""
    new = [row.id for row in projects.list_projects(source) if identities.isdisjoint(spellings_of(row.identity))]
    of_projects = _rows_of(source, tables.Memory.project, new)
    return set((_rows_by_hand(source) | of_projects | _rows_of_gone_sessions(source)).values())


def _rows_of_gone_sessions(source: Store) -> dict[int, str]:
    """Return row id → memory id, for every memory of a session or turn without a transcript, or carried over before."""
    rows, step = dict[int, str](), tables.History
    with _skipping_damage(source, "gone transcripts"):
        rows = _rows_of(source, tables.Memory.session, gone_sessions(source))
        found = memory_records.memories_of_turns(source, sorted(gone_turns(source)))
        before = step.select(step.episode_id).where((step.action == RETURN) & (step.reason == _GONE_REASON))
        found += memory_records.select_memories(source, tables.Memory.episode_id.in_(before))
        rows |= {memory.id: memory.episode_id for memory in found}
    return rows


def _rows_of(source: Store, reference: peewee.Field, row_ids: Collection[int]) -> dict[int, str]:
    """Return row id → memory id, for every memory that refers to one of the rows."""
    memory = tables.Memory
    query = memory.select(memory.id, memory.episode_id, reference).order_by(memory.id)
    with _skipping_damage(source, f"memories by {reference.name}"):
        rows = source.fetch(query) if row_ids else ()
        return {int(row_id): str(name) for row_id, name, referred in rows if referred in row_ids}
    return {}


def _rows_by_hand(source: Store) -> dict[int, str]:
    """Return row id → memory id, for memories kept by hand; if the table is damaged, for those that may have been."""
    sql = f"SELECT e.id, e.episode_id FROM episode e WHERE {_BY_HAND} ORDER BY e.id"
    try:
        return {int(row_id): str(name) for row_id, name in source.rows(sql)}
    except StoreError as error:  # damage may also hide a table
        logger.warning("action=recover source=%s reason=%s", source.path.name, error)
    found: dict[int, str] = {}
    failures = 0
    for row_id, name in _indexed_rows(source).items():
        if failures > MAX_UNREADABLE_ROWS:
            raise BrokenDatabase(f"{source.path} cannot be read")
        try:
            is_by_hand = source.row(f"SELECT 1 FROM episode e WHERE e.id = ? AND ({_BY_HAND_IN_ROW})", (row_id,))
        except BrokenDatabase:
            failures += 1
        else:
            if is_by_hand is None:
                continue
        found[row_id] = name
    return found


def _indexed_rows(source: Store) -> dict[int, str]:
    """Return row id → memory id, for every memory, from the index only; failing that, for all row ids ever assigned."""
    try:
        rows = source.rows("SELECT id, episode_id FROM episode ORDER BY episode_id")
        return {int(row_id): str(name) for row_id, name in sorted(rows)}
    except BrokenDatabase:
        last = int(source.value("SELECT seq FROM sqlite_sequence WHERE name = 'episode'") or 0)
        return {row_id: f"row {row_id}" for row_id in range(1, last + 1)}


def _automatic(store: Store, sources: Sequence[Path], names: Set[str]) -> set[str]:
    """Return the memories that were not kept by hand according to a source. Reading the transcripts restores them."""
    sql = f"SELECT 1 FROM episode e WHERE e.episode_id = ? AND NOT ({_BY_HAND})"
    found: set[str] = set()
    for path in sources if names else ():
        with opened_source(store, path) as source:
            for name in names - found - set(_rows_of_gone_sessions(source).values()):
                with contextlib.suppress(EngramError, *_UNREADABLE):
                    if source.row(sql, (name,)) is not None:
                        found.add(name)
    return found


def _carry(store: Store, source: Store, memory: Memory, reason: str, actor: Actor, *, is_unjoined: bool) -> bool:
    """Add a memory with its history, unless it exists or was forgotten; return True if it was added."""
    if not memory_records.is_memory_id(memory.episode_id):
        raise BrokenDatabase(f"{memory.episode_id[:40]!r} is not the id of a memory")
    project = None if memory.project_id is None else projects.project_by_id(source, memory.project_id)
    session = sessions.find_session(source, memory.session_id) if memory.session_id else None
    evidence = _evidence_in(source, memory)
    if _is_known(store, memory, evidence):
        return False
    history = _history_in(source, memory.episode_id) or []
    places = {step.id: place for place, step in enumerate(history)}
    with store.transaction() as tx:
        place = None if project is None else _place(tx, project)
        if session is not None:
            sessions.ensure_session(
                tx,
                session.session_id,
                agent=session.agent,
                project_id=None if place is None else place.id,
                is_global=session.is_global,
                cwd=session.cwd,
                at_ms=session.first_at_ms,
            )
        made = dataclasses.replace(memory, id=0, project_id=None if place is None else place.id)
        carry_history(
            tx, memory.episode_id, [dataclasses.replace(step, undoes=places.get(step.undoes or 0)) for step in history]
        )
        action = "recover" if reason == _BY_HAND_REASON else RETURN
        added = memory_changes.add_memory(tx, made, evidence, action=action, reason=reason, actor=actor)
        if is_unjoined:
            mark_unjoined(tx, added.id)
    return True


def _evidence_in(source: Store, memory: Memory) -> list[Evidence]:
    """Return a memory's evidence; none if it can't be read, so that the memory's text is recovered nevertheless.

    Turns have different row ids here, so they are left out. A queued prompt, which has no id, is identified by the key
    of its turn.
    """
    try:
        return [
            dataclasses.replace(entry, uuid=entry.uuid or queued_key(source, entry.turn_id), turn_id=None)
            for entry in memory_records.evidence_of(source, memory.id)
        ]
    except (EngramError, *_UNREADABLE) as error:
        logger.warning("action=recover memory=%s part=evidence reason=%s", memory.episode_id, error)
        return []


def _history_in(source: Store, episode_id: str) -> list[Change] | None:
    """Return a memory's history; None if it can't be read."""
    try:
        return history_of(source, episode_id)
    except (EngramError, *_UNREADABLE) as error:
        logger.warning("action=recover memory=%s part=history reason=%s", episode_id, error)
        return None


def _is_known(store: Reader, memory: Memory, evidence: Sequence[Evidence]) -> bool:
    if is_named_by_tombstone(store, memory.episode_id, memory.slot, [entry.uuid for entry in evidence], memory.source):
        return True
    if memory_records.find_memory(store, memory.episode_id) is not None:
        return True
    return memory.slot is not None and memory_records.memory_by_slot(store, memory.slot) is not None


# -- Changes to memories that exist here in an earlier state, and judgements on quotations.

#: Fields that are taken from a memory's row if its history is missing.
_FIELDS_OF_ROW = (
    *("kind", "summary", "content", "facts", "entities", "questions", "title", "importance", "voice", "suspect"),
    *("is_pinned", "is_lowered", "status", "valid_from_ms", "valid_to_ms", "superseded_by", "scope"),
)


def _carry_changes(store: Store, source: Store, present: Set[str]) -> int:
    """Repeat the changes that were made by hand in the source; return how many memories changed."""
    changed = 0
    for name in _changed_in(source, present):
        if name in present:
            with _skipping_damage(source, f"changes of {name}"), store.transaction() as tx:
                changed += _carry_changes_of(tx, source, name)
        elif not memory_records.is_memory_id(name):
            with _skipping_damage(source, f"judgements on {name}"), store.transaction() as tx:
                for step, undoes in _new_steps(tx, name, history_of(source, name)):
                    add_history(
                        tx, name, step.action, step.reason, {}, {}, actor=step.actor, at_ms=step.at_ms, undoes=undoes
                    )
    return changed


def _changed_in(source: Store, present: Set[str]) -> list[str]:
    """Return the ids of memories that were changed by hand or lost forgotten words.

    If the history can't be read, return every id.
    """
    sql = f"SELECT DISTINCT episode_id FROM history WHERE {_STEPS_BY_HAND} OR action = '{ERASE}' ORDER BY episode_id"
    with _skipping_damage(source, "changes"):
        return [str(name) for (name,) in source.rows(sql)]
    return sorted(present)


def _carry_changes_of(tx: Tx, source: Store, name: str) -> bool:
    memory = memory_records.find_memory(tx, name)
    if memory is None:
        return False
    history = _history_in(source, name)
    if history is None:
        return _take_row(tx, source, memory, is_erased=False)
    is_changed = False
    later = _fields_set_later(tx, name)
    for step, undoes in _new_steps(tx, name, history):
        if step.action == ERASE:
            # Forgetting deleted the history, so only the row is left.
            is_changed |= _take_row(tx, source, memory, is_erased=True)
        elif _is_by_hand(step) and not is_making(step):
            fields = _fields_after(tx, source, memory, step)
            fields = {field: value for field, value in fields.items() if later.get(field, 0) <= step.at_ms}
            changes = memory_changes.differing(memory, fields)
            if changes or not step.after or step.action in (*JUDGEMENTS, TAKE_BACK):
                # The memories that it had replaced have steps of their own.
                memory_changes.change_alone(
                    tx, memory, step.action, step.reason, actor=step.actor, undoes=undoes, at_ms=step.at_ms, **changes
                )
                is_changed = True
        memory = memory_records.find_memory(tx, name)
        assert memory is not None
    return is_changed


def _new_steps(tx: Tx, name: str, history: Sequence[Change]) -> Iterator[tuple[Change, int | None]]:
    """Yield the steps of a source's history that the local one lacks, each with the local id of the step that it undid.

    The caller adds each step to the history before requesting the next one, or skips it.
    """
    here: defaultdict[tuple[int, str, str], list[int]] = defaultdict(list)
    last = 0
    for step in history_of(tx, name):
        last = step.id
        here[step.at_ms, step.action, step.actor].append(last)
    numbers: dict[int, int] = {}
    for step in history:
        known = here[step.at_ms, step.action, step.actor]
        if known:
            numbers[step.id] = known.pop(0)
            continue
        yield step, numbers.get(step.undoes or 0)
        added = history_of(tx, name)[-1:]
        if added and added[0].id != last:
            numbers[step.id] = last = added[0].id


def _fields_set_later(tx: Tx, name: str) -> Mapping[str, int]:
    """Return field → when it was last set by hand here, because this database may be newer than the source."""
    return {field: step.at_ms for step in history_of(tx, name) if _is_by_hand(step) for field in step.after}


def _fields_after(tx: Tx, source: Store, memory: Memory, step: Change) -> dict[str, Any]:
    """Return the fields of a memory that a source's step set, with values for this database."""
    fields = fields_of_snapshot({name: value for name, value in step.after.items() if name in snapshot(memory)})
    if (project_id := fields.pop("project_id", None)) is not None:
        project = projects.project_by_id(source, project_id)
        fields |= {} if project is None else {"project_id": _place(tx, project).id}
    return fields


def _take_row(tx: Tx, source: Store, memory: Memory, *, is_erased: bool) -> bool:
    """Update a memory from its row in a source, if that row is newer; return True if the memory changed."""
    newer = memory_records.find_memory(source, memory.episode_id)
    if newer is None or newer.revision <= memory.revision:
        return False
    changes = memory_changes.differing(memory, {name: getattr(newer, name) for name in _FIELDS_OF_ROW})
    if not changes:
        return False
    if is_erased:
        memory_changes.erase_fields(tx, memory, "words of it were forgotten", actor=Actor.TIDYING, **changes)
    else:
        memory_changes.change_memory(tx, memory, "recover", "by hand", actor=Actor.TIDYING, **changes)
    return True


def _carry_decisions(store: Store, source: Store, carried_parts: set[str]) -> None:
    """Carry over contradictions with their decisions, and undone changes, which consolidation must not repeat."""
    if "contradictions" not in carried_parts:
        with _skipping_damage(source, "contradictions", carried_parts), store.transaction() as tx:
            table = tables.Contradiction
            for contradiction in source.fetch_records(CONTRADICTIONS, CONTRADICTIONS.select().order_by(table.id)):
                carry_contradiction(tx, contradiction)
                carry_decision(tx, contradiction)
    if "undone changes" not in carried_parts:
        with _skipping_damage(source, "undone changes", carried_parts), store.transaction() as tx:
            keep_undone(tx, load_undone(source))
