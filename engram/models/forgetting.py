"""SQL of forgetting: what an episode rests on, what else rests on it, and no byte of it left in the file."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence

from engram.models.entries import entries_of_turn, turn_of_entry
from engram.models.episode_changes import delete_episode
from engram.models.episodes import Episode, episodes_by_row, evidence_of, select_episodes
from engram.models.notes import drop_note
from engram.models.store import Store
from engram.models.turns import delete_turn, erase_entries
from engram.models.uuids import pack_uuid, unpack_uuid

_INDEXES = ("passage_fts", "episode_fts", "note_fts")

#: Memories that a tombstone names: by id, by slot, or (where no person made them) by an entry that they rest on.
_NAMED_EPISODES = (
    "SELECT e.id FROM tombstone t JOIN episode e ON e.episode_id = CAST(t.key AS TEXT) WHERE t.kind = 'episode' "
    "UNION SELECT e.id FROM tombstone t JOIN episode e ON e.slot = CAST(t.key AS TEXT) WHERE t.kind = 'slot' "
    "UNION SELECT e.id FROM evidence v JOIN tombstone t ON t.kind = 'entry' AND t.key = v.uuid "
    "JOIN episode e ON e.id = v.episode_ref WHERE e.source = 'auto'"
)
_NAMED_TURNS = "SELECT n.id FROM tombstone t JOIN turn n ON n.key = CAST(t.key AS TEXT) WHERE t.kind = 'turn'"


def is_episode_forgotten(store: Store, episode_id: str) -> bool:
    """True where the user forgot the memory of this id."""
    return store.row("SELECT 1 FROM tombstone WHERE kind = 'episode' AND key = ?", (episode_id.encode(),)) is not None


def turn_ids_of(store: Store, episode: Episode) -> list[int]:
    """Row ids of the turns that an episode rests on, by its evidence."""
    rows = store.rows(
        "SELECT v.turn_id FROM evidence v JOIN turn t ON t.id = v.turn_id WHERE v.episode_ref = ?", (episode.id,)
    )
    by_entry = (turn_of_entry(store, one.uuid) for one in evidence_of(store, episode.id) if one.uuid)
    return sorted({int(row[0]) for row in rows} | {one for one in by_entry if one is not None})


def episodes_resting_on(store: Store, turn_ids: Sequence[int]) -> list[Episode]:
    """Every episode that rests on one of the turns."""
    found: dict[int, Episode] = {}
    for turn_id in turn_ids:
        resting = store.rows("SELECT episode_ref FROM evidence WHERE turn_id = ?", (turn_id,))
        uuids = [pack_uuid(entry.uuid) for entry in entries_of_turn(store, turn_id)]
        resting += store.rows_among("SELECT episode_ref FROM evidence WHERE uuid IN", uuids)
        found |= episodes_by_row(store, sorted({int(row[0]) for row in resting}))
    return list(found.values())


def turn_texts(store: Store, turn_ids: Sequence[int]) -> list[str]:
    """Everything that was said in turns; what must not be found afterwards."""
    return [
        str(row[0]) for turn_id in turn_ids for row in store.rows("SELECT text FROM said WHERE turn_id = ?", (turn_id,))
    ]


def sessions_of_turns(store: Store, turn_ids: Sequence[int]) -> list[str]:
    """Claude Code's ids of the sessions that turns belong to."""
    found = [
        store.value("SELECT s.session_id FROM turn t JOIN session s ON s.id = t.session_ref WHERE t.id = ?", (one,))
        for one in turn_ids
    ]
    return list(dict.fromkeys(str(one) for one in found if one is not None))


def delete_memories(store: Store, memories: Sequence[Episode], turn_ids: Sequence[int]) -> None:
    """Delete episodes and turns with everything that hangs on them; tombstones stay. Inside ``writing``."""
    for one in memories:
        _cut_from_others(store, one)
        delete_episode(store, one)
    for turn_id in turn_ids:
        _forget_rolling_summary(store, turn_id)
        delete_turn(store, turn_id)


def apply_tombstones(store: Store) -> int:
    """Delete what the database's own tombstones name; returns how many memories and turns there were.

    A restored, imported, migrated or set-aside database may hold what was forgotten since it was written. Text that
    was deleted leaves the file only with ``wipe_free_space``.
    """
    if not store.value("SELECT EXISTS (SELECT 1 FROM tombstone)"):
        return 0
    with store.writing():
        named = [int(row[0]) for row in store.rows(_NAMED_EPISODES)]
        memories = [memory for row_id in named for memory in select_episodes(store, "e.id = ?", (row_id,))]
        turn_ids = [int(row[0]) for row in store.rows(_NAMED_TURNS)]
        delete_memories(store, memories, turn_ids)
        erased = _erase_forgotten_entries(store)
    return len(memories) + len(turn_ids) + erased


def _erase_forgotten_entries(store: Store) -> int:
    """Erase the words of forgotten entries that stand in another turn than when they were forgotten."""
    by_turn: dict[int, list[str]] = {}
    for (key,) in store.rows("SELECT key FROM tombstone WHERE kind = 'entry'"):
        uuid = unpack_uuid(key)
        turn_id = turn_of_entry(store, uuid)
        if turn_id is not None:
            by_turn.setdefault(turn_id, []).append(uuid)
    return sum(erase_entries(store, turn_id, uuids) for turn_id, uuids in by_turn.items())


def drop_notes(store: Store, paths: Sequence[str]) -> None:
    """Take notes that were changed out of the index; they are indexed anew as they are now. Inside ``writing``."""
    for path in paths:
        for (source,) in store.rows("SELECT source FROM note WHERE path = ?", (path,)):
            drop_note(store, str(source))


def clean_runs(store: Store, is_kept: Callable[[str], bool]) -> None:
    """Take lines out of the reports of consolidations, and out of the notes that they keep to undo. In ``writing``."""
    for run_id, text in store.rows("SELECT id, report FROM run"):
        report = json.loads(text)
        changed = dict(report)
        if isinstance(report.get("lines"), list):
            changed["lines"] = [line for line in report["lines"] if is_kept(str(line))]
        if isinstance(report.get("files_before"), dict):
            changed["files_before"] = {
                name: "".join(line for line in str(before).splitlines(keepends=True) if is_kept(line))
                for name, before in report["files_before"].items()
            }
        if changed != report:
            store.run("UPDATE run SET report = ? WHERE id = ?", (json.dumps(changed, ensure_ascii=False), run_id))


def _cut_from_others(store: Store, episode: Episode) -> None:
    """Take a memory's words out of the history of others: a merge keeps what it merged."""
    pattern = f"%{episode.episode_id}%"
    store.run("DELETE FROM history WHERE before LIKE ? OR after LIKE ? OR reason LIKE ?", (pattern, pattern, pattern))


def _forget_rolling_summary(store: Store, turn_id: int) -> None:
    """A session's rolling summary may tell what the turn said; the next extraction begins it anew."""
    store.run(
        "UPDATE session SET rolling_summary = '' WHERE id = (SELECT session_ref FROM turn WHERE id = ?)", (turn_id,)
    )


def forget_in_copy(
    store: Store, episode_ids: Sequence[str], turn_keys: Sequence[str], is_kept: Callable[[str], bool]
) -> int:
    """Delete the same memories and turns in a copy of the database; returns how many rows there were. In ``writing``.

    The copy's whole index of notes goes too: it may hold lines that the files no longer have, and is made from them.
    """
    done = 0
    clean_runs(store, is_kept)
    drop_notes(store, [str(row[0]) for row in store.rows("SELECT path FROM note")])
    for episode_id in episode_ids:
        for one in select_episodes(store, "e.episode_id = ?", (episode_id,)):
            delete_memories(store, [one], [])
            done += 1
    for key in turn_keys:
        for (turn_id,) in store.rows("SELECT id FROM turn WHERE key = ?", (key,)):
            delete_memories(store, [], [int(turn_id)])
            done += 1
    return done


def turn_keys(store: Store, turn_ids: Sequence[int]) -> list[str]:
    """Keys of turns: the same in every copy of the database."""
    found = [store.value("SELECT key FROM turn WHERE id = ?", (one,)) for one in turn_ids]
    return [str(one) for one in found if one is not None]


def wipe_free_space(store: Store) -> None:
    """Leave no byte of what was deleted in the file or its log.

    SQLite overwrites deleted rows by itself (secure_delete). A text index keeps deleted words until its parts are
    merged: here they are, which takes as long as the index is large. (FTS5 can also drop words at once, but then an
    older SQLite could no longer read the index, and both drivers shall read one memory.db.)
    """
    with store.writing():
        for table in _INDEXES:
            store.run(f"INSERT INTO {table}({table}) VALUES ('optimize')")
    store.checkpoint("TRUNCATE")
