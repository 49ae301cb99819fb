"""SQL of forgetting: what an episode rests on, what else rests on it, and no byte of it left in the file."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence

from peewee import ColumnBase, fn

from engram.enums import Actor, Source
from engram.models import tables
from engram.models.entries import entries_of_turn, turn_of_entry
from engram.models.episode_changes import delete_episode, erase_fields, restore_orphans
from engram.models.episode_evidence import forget_evidence
from engram.models.episodes import Episode, episodes_by_row, evidence_of, find_episode, select_episodes
from engram.models.erasing import begin_anew, erase_words
from engram.models.notes import drop_note
from engram.models.store import Store
from engram.models.task_runs import clear_task_errors
from engram.models.tombstones import Forgotten, TombstoneKind, add_entry_tombstones
from engram.models.transaction import Reader, Tx
from engram.models.turns import delete_turn
from engram.models.uuids import pack_uuid, unpack_uuid

_INDEXES = ("passage_fts", "episode_fts", "note_fts")


def turn_ids_of(store: Reader, episode: Episode) -> list[int]:
    """Row ids of the turns that an episode rests on, by its evidence."""
    rows = store.rows(
        "SELECT v.turn_id FROM evidence v JOIN turn t ON t.id = v.turn_id WHERE v.episode_ref = ?", (episode.id,)
    )
    by_entry = (turn_of_entry(store, one.uuid) for one in evidence_of(store, episode.id) if one.uuid)
    return sorted({int(row[0]) for row in rows} | {one for one in by_entry if one is not None})


def episodes_resting_on(store: Reader, turn_ids: Sequence[int]) -> list[Episode]:
    """Every episode that rests on one of the turns."""
    found: dict[int, Episode] = {}
    for turn_id in turn_ids:
        resting = store.rows("SELECT episode_ref FROM evidence WHERE turn_id = ?", (turn_id,))
        uuids = [pack_uuid(entry.uuid) for entry in entries_of_turn(store, turn_id)]
        resting += store.rows_among("SELECT episode_ref FROM evidence WHERE uuid IN", uuids)
        found |= episodes_by_row(store, sorted({int(row[0]) for row in resting}))
    return list(found.values())


def turn_texts(store: Reader, turn_ids: Sequence[int]) -> list[str]:
    """Everything that was said in turns; what must not be found afterwards."""
    return [
        str(row[0]) for turn_id in turn_ids for row in store.rows("SELECT text FROM said WHERE turn_id = ?", (turn_id,))
    ]


def sessions_of_turns(store: Reader, turn_ids: Sequence[int]) -> list[str]:
    """Claude Code's ids of the sessions that turns belong to."""
    found = [
        store.value("SELECT s.session_id FROM turn t JOIN session s ON s.id = t.session_ref WHERE t.id = ?", (one,))
        for one in turn_ids
    ]
    return list(dict.fromkeys(str(one) for one in found if one is not None))


def delete_forgotten(tx: Tx, forgotten: Forgotten, *, actor: Actor) -> int:
    """Delete memories, turns and words with everything that hangs on them; tombstones stay.

    Works on any open memory: what is not there is passed over. Returns how many memories and turns went or changed.
    """
    done = 0
    add_entry_tombstones(tx, forgotten)
    for episode_id in forgotten.episode_ids:
        if (episode := find_episode(tx, episode_id)) is not None:
            delete_episode(tx, episode, actor=actor)
            done += 1
        _cut_from_others(tx, episode_id)
    done += _cut_host(tx, forgotten, actor)
    for key in forgotten.turn_keys:
        for (turn_id,) in tx.rows("SELECT id FROM turn WHERE key = ?", (key,)):
            begin_anew(tx, int(turn_id))
            delete_turn(tx, int(turn_id))
            done += 1
    return done + erase_words(tx, forgotten.erased, actor=actor)


def apply_tombstones(tx: Tx, *, actor: Actor) -> int:
    """Delete everything that the tombstones of an open memory name; returns how much there was.

    Call it after tombstones or memories came from elsewhere: a restore, an import, a migration, a file set aside.
    Automatic memories under another id that rest on erased words go too. What a purge left may stay; what is superseded
    by a memory that is not there comes back into force.
    """
    gone = select_episodes(tx, _is_named_by_tombstone())
    turn_ids = [
        int(row[0])
        for row in tx.rows(
            "SELECT t.id FROM turn t JOIN tombstone d ON d.kind = ? AND d.key = CAST(t.key AS BLOB)",
            (TombstoneKind.TURN.value,),
        )
    ]
    resting = episodes_resting_on(tx, turn_ids)
    erased = tx.rows(
        "SELECT key FROM tombstone WHERE kind IN (?, ?)", (TombstoneKind.WORDS.value, TombstoneKind.ENTRY.value)
    )
    done = delete_forgotten(
        tx,
        Forgotten(
            episode_ids=tuple(dict.fromkeys(episode.episode_id for episode in [*gone, *resting])),
            turn_keys=tuple(turn_keys(tx, turn_ids)),
            erased=tuple(unpack_uuid(row[0]) for row in erased),
        ),
        actor=actor,
    )
    return done + len(restore_orphans(tx, actor=actor))


def _is_named_by_tombstone() -> ColumnBase:
    """Holds for memories that a tombstone names, and for automatic ones that rest on erased words."""
    episode, evidence, tombstone = tables.Episode, tables.Evidence, tables.Tombstone

    def is_there(kind: TombstoneKind, key: ColumnBase) -> ColumnBase:
        return fn.EXISTS(
            tombstone.select(1).where((tombstone.kind == kind.value) & (tombstone.key == key.cast("BLOB")))
        )

    kinds = [TombstoneKind.WORDS.value, TombstoneKind.ENTRY.value]
    barred = (
        evidence.select(1)
        .join(tombstone, on=tombstone.key == evidence.uuid)
        .where((evidence.episode == episode.id) & tombstone.kind.in_(kinds))
    )
    is_barred = (episode.source == Source.AUTO.value) & fn.EXISTS(barred)
    return is_there(TombstoneKind.EPISODE, episode.episode_id) | is_there(TombstoneKind.SLOT, episode.slot) | is_barred


def drop_notes(tx: Tx, paths: Sequence[str]) -> None:
    """Take notes that were changed out of the index; they are indexed anew as they are now."""
    for path in paths:
        for (source,) in tx.rows("SELECT source FROM note WHERE path = ?", (path,)):
            drop_note(tx, str(source))


def drop_all_notes(tx: Tx) -> None:
    """Empty the index of notes; it is made anew of the files."""
    drop_notes(tx, [str(row[0]) for row in tx.rows("SELECT path FROM note")])


def clean_runs(
    tx: Tx, is_kept: Callable[[str], bool], clean_note: Callable[[str, str], str | None] | None = None
) -> None:
    """Take lines out of the reports of consolidations and of the notes that they keep to undo; drop errors of tasks.

    Args:
        tx: the transaction.
        is_kept: whether a line stays.
        clean_note: returns what stays of a note, given its name and text, or None where an undo shall leave the note as
            it is; by default the lines that are kept.
    """

    def keep_lines(_: str, text: str) -> str:
        return "".join(line for line in text.splitlines(keepends=True) if is_kept(line))

    # The message of an error may quote anything that was read.
    clear_task_errors(tx)
    clean = clean_note or keep_lines
    for run_id, text in tx.rows("SELECT id, report FROM run"):
        report = json.loads(text)
        changed = dict(report)
        if isinstance(report.get("lines"), list):
            changed["lines"] = [line for line in report["lines"] if is_kept(str(line))]
        if isinstance(report.get("files_before"), dict):
            cleaned = {name: clean(name, str(before)) for name, before in report["files_before"].items()}
            changed["files_before"] = {name: text for name, text in cleaned.items() if text is not None}
        if changed != report:
            tx.run("UPDATE run SET report = ? WHERE id = ?", (json.dumps(changed, ensure_ascii=False), run_id))


def clean_reasons(tx: Tx, is_kept: Callable[[str], bool]) -> None:
    """Delete the steps of histories that quote what was forgotten, and the reasons of contradictions."""
    for row_id, *texts in tx.rows("SELECT id, reason, before, after FROM history"):
        if not all(is_kept(text) for text in [texts[0], *texts_in_json(texts[1]), *texts_in_json(texts[2])]):
            tx.run("DELETE FROM history WHERE id = ?", (row_id,))
    for row_id, reason in tx.rows("SELECT id, reason FROM contradiction"):
        if not is_kept(str(reason)):
            tx.run("UPDATE contradiction SET reason = 'its words were forgotten' WHERE id = ?", (row_id,))


def texts_in_json(text: str) -> list[str]:
    """Every text in a JSON value, as it reads without the escapes of JSON; the text itself where it is no JSON."""
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
    """Take the words of a forgotten memory out of the one that took them up; 1 where it is there, 0 otherwise."""
    cut = forgotten.cut
    host = None if cut is None else find_episode(tx, cut.episode_id)
    if cut is None or host is None:
        return 0
    reason = "what it had taken up was forgotten"
    forget_evidence(tx, host, forgotten.erased, reason, actor=actor)
    erase_fields(tx, host, reason, actor=actor, summary=cut.summary, content=cut.content, entities=cut.entities)
    return 1


def _cut_from_others(tx: Tx, episode_id: str) -> None:
    """Take a memory's words out of the history of others: a merge keeps what it merged."""
    pattern = f"%{episode_id}%"
    tx.run("DELETE FROM history WHERE before LIKE ? OR after LIKE ? OR reason LIKE ?", (pattern, pattern, pattern))


def forget_in_copy(tx: Tx, forgotten: Forgotten, is_kept: Callable[[str], bool], *, actor: Actor) -> int:
    """Delete the same in a copy of the database; returns how many memories and turns there were.

    The copy's whole index of notes goes too: it may hold lines that the files no longer have, and is made from them.
    """
    clean_runs(tx, is_kept)
    clean_reasons(tx, is_kept)
    drop_all_notes(tx)
    return delete_forgotten(tx, forgotten, actor=actor)


def turn_keys(store: Reader, turn_ids: Sequence[int]) -> list[str]:
    """Keys of turns: the same in every copy of the database."""
    found = [store.value("SELECT key FROM turn WHERE id = ?", (one,)) for one in turn_ids]
    return [str(one) for one in found if one is not None]


def wipe_free_space(store: Store) -> None:
    """Leave no byte of what was deleted in the file or its log.

    SQLite overwrites deleted rows by itself (secure_delete). A text index keeps deleted words until its parts are
    merged: here they are, which takes as long as the index is large. (FTS5 can also drop words at once, but then an
    older SQLite could no longer read the index, and both drivers shall read one memory.db.)
    """
    with store.transaction() as tx:
        for table in _INDEXES:
            tx.run(f"INSERT INTO {table}({table}) VALUES ('optimize')")
    store.checkpoint("TRUNCATE")
