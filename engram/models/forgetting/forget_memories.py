"""Delete forgotten and purged memories, with the turns and words that they rest on and every trace in the file."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from peewee import ColumnBase, fn

from engram.enums import Actor, Source
from engram.errors import StoreError
from engram.models import tables
from engram.models.engine.meta import drop_meta, get_meta, put_meta
from engram.models.engine.statement import in_json_list, pack_uuid, unpack_uuid
from engram.models.engine.transaction import Reader, Store, Tx
from engram.models.forgetting.erase_entries import (
    bar_copies,
    clean_sessions,
    drop_summary,
    erase_words,
    invalidate_readers,
)
from engram.models.memories.memory_changes import delete_memory, erase_fields, forget_evidence, restore_orphans
from engram.models.memories.memory_history import cut_report
from engram.models.memories.memory_records import Memory, evidence_of, find_memory, memories_by_row, select_memories
from engram.models.memories.tombstones import Forgotten, TombstoneKind, add_entry_tombstones
from engram.models.projects.notes import drop_note, forget_standing_lines
from engram.models.sessions.stored_turns import entries_of_turn, turn_of_entry
from engram.models.sessions.turn_changes import delete_turn
from engram.models.work.task_runs import clear_task_errors
from engram.system.cached import empty_text_caches

logger = logging.getLogger(__name__)

#: Maximum size, in bytes, of a file that is rewritten in memory.
_MAX_IN_MEMORY_BYTES = 64_000_000
_INDEXES = ("passage_fts", "episode_fts", "note_fts")
#: Kinds of tombstones of entries whose words must not be stored.
_ERASED_KINDS = (TombstoneKind.WORDS.value, TombstoneKind.ENTRY.value)


def turn_ids_of(store: Reader, memory: Memory) -> list[int]:
    evidence, turn = tables.Evidence, tables.Turn
    known = turn.select(turn.id)
    named = evidence.select(evidence.turn_id).where((evidence.memory == memory.id) & evidence.turn_id.in_(known))
    by_entry = (turn_of_entry(store, entry.uuid) for entry in evidence_of(store, memory.id) if entry.uuid)
    return sorted({*store.fetch_values(named), *(turn_id for turn_id in by_entry if turn_id is not None)})


def memories_resting_on(store: Reader, turn_ids: Sequence[int]) -> list[Memory]:
    evidence = tables.Evidence
    resting: dict[int, Memory] = {}
    for turn_id in turn_ids:
        row_ids = set(store.fetch_values(evidence.select(evidence.memory).where(evidence.turn_id == turn_id)))
        uuids = [pack_uuid(entry.uuid) for entry in entries_of_turn(store, turn_id)]
        # Raw SQL, because there may be any number of keys, and they are bytes.
        row_ids |= {row_id for (row_id,) in store.rows_among("SELECT episode_ref FROM evidence WHERE uuid IN", uuids)}
        resting |= memories_by_row(store, sorted(row_ids))
    return list(resting.values())


def turn_texts(store: Reader, turn_ids: Sequence[int]) -> list[str]:
    """Return all texts of turns, to check that none of them is left afterwards."""
    block = tables.TextBlock
    return store.fetch_values(block.select(block.text).where(in_json_list(block.turn, turn_ids)))


def sessions_of_turns(store: Reader, turn_ids: Sequence[int]) -> list[str]:
    """Return the agents' ids of the sessions that turns belong to."""
    session, turn = tables.Session, tables.Turn
    query = session.select(session.session_id).join(turn, on=turn.session == session.id)
    return store.fetch_values(query.where(in_json_list(turn.id, turn_ids)).group_by(session.id))


def delete_forgotten(tx: Tx, forgotten: Forgotten, *, actor: Actor) -> int:
    """Delete memories, turns and words with everything that depends on them, and store tombstones.

    Works in any of Engram's databases: unknown ids are skipped. Return how many memories and turns were deleted or
    changed.
    """
    done = 0
    add_entry_tombstones(tx, forgotten)
    bar_copies(tx, [*forgotten.erased, *forgotten.barred, *_sources_of_turns(tx, forgotten.turn_keys)])
    for episode_id in forgotten.episode_ids:
        if (memory := find_memory(tx, episode_id)) is not None:
            delete_memory(tx, memory, actor=actor)
            drop_summary(tx, tables.Session.session_id == memory.session_id)
            done += 1
        _cut_from_others(tx, episode_id)
    done += _cut_host(tx, forgotten, actor)
    for key in forgotten.turn_keys:
        for turn_id in tx.fetch_values(tables.Turn.select(tables.Turn.id).where(tables.Turn.key == key)):
            invalidate_readers(tx, turn_id)
            delete_turn(tx, turn_id)
            done += 1
    if forgotten.session_ids:
        session = tables.Session
        named = in_json_list(session.session_id, forgotten.session_ids)
        clean_sessions(tx, tx.fetch_values(session.select(session.id).where(named)), forgotten.session_ids)
    done += erase_words(tx, forgotten.erased, actor=actor)
    if done:
        note_wipe_due(tx)
    return done


def _sources_of_turns(store: Reader, keys: Sequence[str]) -> list[str]:
    """Return the ids of the entries of turns, and the keys of the turns, which identify queued prompts."""
    turn = tables.Turn
    turn_ids = store.fetch_values(turn.select(turn.id).where(in_json_list(turn.key, keys))) if keys else []
    return [*keys, *(entry.uuid for turn_id in turn_ids for entry in entries_of_turn(store, turn_id))]


def apply_tombstones(tx: Tx, *, actor: Actor) -> int:
    """Delete everything that the database's own tombstones list; return how many memories and turns changed.

    Call this after a restore, an import, a migration or any other way in which tombstones or memories arrive from
    elsewhere. Automatic memories that rest on erased words are deleted too, under whatever id. What a purge kept is
    kept. Memories superseded by a missing memory become current again.
    """
    gone = select_memories(tx, _is_named_by_tombstone())
    turn, tombstone = tables.Turn, tables.Tombstone
    is_named = (tombstone.kind == TombstoneKind.TURN.value) & (tombstone.key == turn.key.cast("BLOB"))
    turn_ids = tx.fetch_values(turn.select(turn.id).join(tombstone, on=is_named))
    resting = memories_resting_on(tx, turn_ids)
    erased = tx.fetch_values(tombstone.select(tombstone.key).where(tombstone.kind.in_(_ERASED_KINDS)))
    done = delete_forgotten(
        tx,
        Forgotten(
            episode_ids=tuple(dict.fromkeys(memory.episode_id for memory in [*gone, *resting])),
            turn_keys=tuple(turn_keys(tx, turn_ids)),
            erased=tuple(unpack_uuid(key) for key in erased),
        ),
        actor=actor,
    )
    return done + len(restore_orphans(tx, actor=actor))


def _is_named_by_tombstone() -> ColumnBase:
    """Return the condition that a memory is listed by a tombstone, or is automatic and rests on erased words."""
    memory, evidence, tombstone = tables.Memory, tables.Evidence, tables.Tombstone

    def is_there(kind: TombstoneKind, key: ColumnBase) -> ColumnBase:
        return fn.EXISTS(
            tombstone.select(1).where((tombstone.kind == kind.value) & (tombstone.key == key.cast("BLOB")))
        )

    barred = (
        evidence.select(1)
        .join(tombstone, on=tombstone.key == evidence.uuid)
        .where((evidence.memory == memory.id) & tombstone.kind.in_(_ERASED_KINDS))
    )
    is_barred = (memory.source == Source.AUTO.value) & fn.EXISTS(barred)
    return is_there(TombstoneKind.MEMORY, memory.episode_id) | is_there(TombstoneKind.SLOT, memory.slot) | is_barred


def drop_notes(tx: Tx, paths: Sequence[str]) -> None:
    """Remove changed notes from the index; their new content is indexed later."""
    for path in paths:
        for source in tx.fetch_values(tables.Note.select(tables.Note.source).where(tables.Note.path == path)):
            drop_note(tx, source)


def drop_all_notes(tx: Tx) -> None:
    """Empty the index of notes; it is rebuilt from the files later."""
    for source in tx.fetch_values(tables.Note.select(tables.Note.source)):
        drop_note(tx, source)


def clean_runs(
    tx: Tx, is_kept: Callable[[str], bool], clean_note: Callable[[str, str], str | None] | None = None
) -> None:
    """Remove lines from the reports of runs, and from the notes in them that are kept for an undo; delete task errors.

    The arguments are those of ``cut_report``.
    """
    # An error message may quote anything that was read.
    clear_task_errors(tx)
    run = tables.Run
    for row in tx.fetch(run.select(run.id, run.report)):
        report = json.loads(row.report)
        changed = cut_report(report, is_kept, clean_note)
        if changed != report:
            tx.run(run.update(report=json.dumps(changed, ensure_ascii=False)).where(run.id == row.id))


def clean_reasons(tx: Tx, is_kept: Callable[[str], bool]) -> None:
    """Delete the steps of histories, and the reasons of contradictions, that quote forgotten text."""
    history, contradiction = tables.History, tables.Contradiction
    for step in tx.fetch(history.select(history.id, history.reason, history.before, history.after)):
        if not all(map(is_kept, [step.reason, *texts_in_json(step.before), *texts_in_json(step.after)])):
            tx.run(history.delete().where(history.id == step.id))
    for row in tx.fetch(contradiction.select(contradiction.id, contradiction.reason)):
        if not is_kept(row.reason):
            changes = contradiction.update(reason="its words were forgotten")
            tx.run(changes.where(contradiction.id == row.id))


def texts_in_json(text: str) -> list[str]:
    """Return every string in a JSON value, unescaped, apart from keys; the text itself if it isn't JSON."""
    try:
        todo = [json.loads(text)]
    except (ValueError, RecursionError):
        return [text]
    found: list[str] = []
    while todo:
        value = todo.pop()
        if isinstance(value, str):
            found.append(value)
        elif isinstance(value, dict | list):
            todo += list(value.values() if isinstance(value, dict) else value)
    return found


def _cut_host(tx: Tx, forgotten: Forgotten, actor: Actor) -> int:
    """Remove a forgotten memory's words from the memory that it was merged into; return 1 if there is one, else 0."""
    cut = forgotten.cut
    host = None if cut is None else find_memory(tx, cut.episode_id)
    if cut is None or host is None:
        return 0
    reason = "a memory that was merged into it was forgotten"
    is_erased = tables.Evidence.uuid.in_([pack_uuid(uuid) for uuid in forgotten.erased])
    forget_evidence(tx, host, is_erased, reason, actor=actor)
    erase_fields(tx, host, reason, actor=actor, summary=cut.summary, content=cut.content, entities=cut.entities)
    return 1


def _cut_from_others(tx: Tx, episode_id: str) -> None:
    """Delete the steps of other histories that mention a memory, because a merge records what it merged."""
    pattern = f"%{episode_id}%"
    history = tables.History
    is_told = (history.before**pattern) | (history.after**pattern) | (history.reason**pattern)
    tx.run(history.delete().where(is_told))


def forget_in_copy(tx: Tx, forgotten: Forgotten, is_kept: Callable[[str], bool], *, actor: Actor) -> int:
    """Make the same deletions in a copy of the database; return how many memories and turns were deleted or changed.

    The copy's index of notes is emptied, because it may contain lines that the files no longer have. It is rebuilt
    later.
    """
    clean_runs(tx, is_kept)
    clean_reasons(tx, is_kept)
    forget_standing_lines(tx, is_kept)
    drop_all_notes(tx)
    return delete_forgotten(tx, forgotten, actor=actor)


def turn_keys(store: Reader, turn_ids: Sequence[int]) -> list[str]:
    """Return the keys of turns. Unlike row ids, they are the same in every copy of the database."""
    turn = tables.Turn
    return store.fetch_values(turn.select(turn.key).where(in_json_list(turn.id, turn_ids)).order_by(turn.id))


def wipe_free_space(store: Store) -> None:
    """Remove all traces of deleted data from the file and its log.

    SQLite overwrites deleted rows (secure_delete), but a text index keeps deleted words until its segments are merged.
    This merges them; the larger the index, the longer it takes. (FTS5 could delete words immediately, but then older
    versions of SQLite could not read the index, and both drivers must be able to read the same memory.db.) Nor does
    SQLite overwrite what it moves to another page, so the file is rewritten: about 20 ms per MB. The copy that this
    needs contains only what is left. It is in memory or, for a large file, in a temporary file of SQLite, which nobody
    else can open.

    Raises:
        StoreError: there is no room for it, or SQLite fails; the traces remain until the next call.
    """
    with store.transaction() as tx:
        due = get_meta(tx, _WIPE_DUE)
        put_meta(tx, _WIPED_AT, str(tx.now_ms()))
    drop_forgotten_texts(store)
    with store.transaction() as tx:
        for table in _INDEXES:
            tx.run(f"INSERT INTO {table}({table}) VALUES ('optimize')")
    is_small = store.path.stat().st_size <= _MAX_IN_MEMORY_BYTES
    store.row(f"PRAGMA temp_store = {'MEMORY' if is_small else 'FILE'}")
    try:
        store.row("VACUUM")
    finally:
        store.row("PRAGMA temp_store = DEFAULT")
    with store.transaction() as tx:
        # What another process has deleted in the meantime leaves traces of its own.
        if get_meta(tx, _WIPE_DUE) == due:
            drop_meta(tx, _WIPE_DUE)
    store.checkpoint("TRUNCATE")


def note_wipe_due(tx: Tx) -> None:
    """Record that the file contains traces of what this transaction deletes, until ``wipe_free_space`` removes them."""
    put_meta(tx, _WIPE_DUE, str(tx.now_ms()))


def finish_wipe(store: Store) -> str:
    """Call ``wipe_free_space`` if it is due; return why it failed, or an empty string. It stays due if it fails."""
    if get_meta(store, _WIPE_DUE) is None:
        return ""
    try:
        wipe_free_space(store)
    except StoreError as error:
        logger.warning("action=wipe failed=%s", error)
        return str(error)
    return ""


#: Key in ``meta`` of the time of the deletion whose traces are still in the file, in milliseconds since 1970.
_WIPE_DUE = "wipe_due_ms"
#: Key in ``meta`` of the time at which something was last forgotten, in milliseconds since 1970.
_WIPED_AT = "wiped_at_ms"
#: Path of a memory.db → that time, when its texts were last dropped from this process.
_dropped: dict[Path, str | None] = {}


def drop_forgotten_texts(store: Store) -> None:
    """Empty this process's caches of texts if anything was forgotten, in any process, since the last call.

    Processes that live for days call this from time to time.
    """
    wiped_at = get_meta(store, _WIPED_AT)
    if wiped_at != _dropped.get(store.path):
        empty_text_caches()
        _dropped[store.path] = wiped_at


# -- Purge archived memories: which ones can be deleted, their size, and the log of purges.


@dataclass(frozen=True, slots=True)
class PurgeRun:
    id: int
    at_ms: int
    #: Ids of the deleted memories.
    episode_ids: tuple[str, ...]
    #: Runs that changed one of them.
    touched_runs: tuple[int, ...]


def untouched_since(store: Reader, status: str, before_ms: int, project_id: int | None = None) -> list[Memory]:
    """Return the memories with a given status that have been neither changed nor used since a given time."""
    memory = tables.Memory
    last_touched = fn.max(memory.updated_at_ms, memory.kept_at_ms, fn.coalesce(memory.accessed_at_ms, 0))
    condition = (memory.status == str(status)) & (last_touched < before_ms)
    if project_id is not None:
        condition &= memory.project == project_id
    return select_memories(store, condition)


def bytes_of(store: Reader, memory: Memory) -> int:
    """Return the size of a memory in the database, in bytes: text, vectors and history, without indexes.

    This uses raw SQL, because it only adds up lengths.
    """
    return int(
        store.value(
            "SELECT length(CAST(summary AS BLOB)) + length(CAST(content AS BLOB)) + coalesce(length(packed_content), "
            "0) + length(CAST(facts AS BLOB)) + length(CAST(entities AS BLOB)) + length(CAST(questions AS BLOB)) "
            "+ (SELECT total(length(data)) FROM vector WHERE owner = 'e' AND owner_id = episode.id) "
            "+ (SELECT total(length(before) + length(after) + length(reason)) FROM history h "
            "WHERE h.episode_id = episode.episode_id) FROM episode WHERE id = ?",
            (memory.id,),
        )
        or 0
    )


def purge_memories(tx: Tx, run_id: int, some: Sequence[Memory], *, actor: Actor) -> None:
    """Delete memories with their index, vectors, evidence and history, and log the purge; turns are kept.

    Tombstones keep extractors from recreating the memories.
    """
    table, history = tables.Run, tables.History
    report = json.loads(tx.fetch_value(table.select(table.report).where(table.id == run_id)))
    runs = set(report.get("touched_runs", []))
    for memory in some:
        of_memory = (history.episode_id == memory.episode_id) & history.run_id.is_null(False)
        runs |= set(tx.fetch_values(history.select(history.run_id).where(of_memory)))
        delete_memory(tx, memory, actor=actor, is_purge=True)
    report = {
        "episodes": [*report.get("episodes", []), *(memory.episode_id for memory in some)],
        "touched_runs": sorted(runs),
    }
    tx.run(table.update(report=json.dumps(report), ended_at_ms=tx.now_ms()).where(table.id == run_id))


def list_purges(store: Reader) -> list[PurgeRun]:
    """Return every purge, newest first."""
    table = tables.Run
    purges = []
    for row in store.fetch(table.select().where(table.kind == "purge").order_by(table.id.desc())):
        report = json.loads(row.report)
        purges.append(
            PurgeRun(
                id=row.id,
                at_ms=row.started_at_ms,
                episode_ids=tuple(report.get("episodes", ())),
                touched_runs=tuple(report.get("touched_runs", ())),
            )
        )
    return purges
