"""Delete forgotten data from other databases of Engram, such as backups, and carry tombstones between databases."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Collection, Iterator, Sequence
from pathlib import Path

from peewee import SQL, fn

from engram.enums import Actor, Source
from engram.errors import BrokenDatabase, OlderSchema, StoreError
from engram.models import tables
from engram.models.engine.database import copy_files
from engram.models.engine.statement import unpack_text, unpack_uuid
from engram.models.engine.transaction import Reader, Store, Tx, Value
from engram.models.forgetting.erase_entries import stored_words
from engram.models.forgetting.erase_project import carry_forgotten_projects
from engram.models.forgetting.forget_memories import apply_tombstones, wipe_free_space
from engram.models.memories.memory_records import find_memory, memory_by_slot
from engram.models.memories.tombstones import TombstoneKind, barred_entries, is_memory_gone, is_slot_gone
from engram.models.projects.projects import find_project_of_identity
from engram.models.rescue.backup import drop_database
from engram.models.rescue.soundness import mend_indexes
from engram.models.sessions.stored_turns import turn_of_entry
from engram.text.words import in_pairs

# -- Open other databases of Engram, such as backups, if they are sound, and delete forgotten data from them.

#: The first version whose tables have the same rows as the current ones.
_FIRST_ALIKE = 5


@contextlib.contextmanager
def open_sound_copy(path: Path, driver: str) -> Iterator[Store]:
    """Open another database of Engram, and rebuild its indexes if only they are damaged.

    Raises:
        StoreError: the database is damaged or not Engram's; it is unchanged.
    """
    copy = Store(path, driver=driver)
    try:
        copy.open()
        if damage := mend_indexes(copy):
            raise BrokenDatabase(damage)
        yield copy
    finally:
        copy.close()


def clean_copy(path: Path, driver: str, clean: Callable[[Tx], int]) -> int:
    """Delete rows from another database, and all traces of them; return how many ``clean`` deleted.

    A copy of an earlier version is not migrated, so that it remains the way back to that version.

    Raises:
        StoreError: the file is damaged, or not Engram's; it is unchanged.
    """
    version = _older_version(path, driver)
    if version >= _FIRST_ALIKE:
        return _clean_older(path, driver, version, clean)
    with open_sound_copy(path, driver) as copy:
        with copy.transaction() as tx:
            cleaned = clean(tx)
        wipe_free_space(copy)
    return cleaned


def _older_version(path: Path, driver: str) -> int:
    """Return the version of the tables in an earlier version's database; 0 for any other. Raises StoreError."""
    store = Store(path, driver=driver, may_upgrade=False)
    try:
        store.open()
    except OlderSchema as error:
        return error.version
    finally:
        store.close()
    return 0


def _clean_older(path: Path, driver: str, version: int, clean: Callable[[Tx], int]) -> int:
    """Clean a migrated copy of an older file, then make the same deletions and changes in the older file.

    This is necessary because ``clean`` supports only the current tables. If the process is killed, the file is either
    unchanged or cleaned.
    """
    twin = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    older = Store(path, driver=driver)
    try:
        copy_files(path, twin)
        with open_sound_copy(twin, driver) as upgraded:
            with upgraded.transaction() as tx:
                cleaned = clean(tx)
            upgraded.checkpoint("TRUNCATE")
        _take_over(older, twin, version)
        wipe_free_space(older)
    except OSError as error:
        raise StoreError(f"{path} can't be cleaned: {error.strerror or error}") from error
    finally:
        older.close()
        drop_database(twin)
    return cleaned


def _take_over(older: Store, twin: Path, version: int) -> None:
    """Make the deletions and changes of a cleaned copy in the older database too, in one transaction."""
    older.rows("SELECT 1")
    older.rows("ATTACH DATABASE ? AS cleaned", (str(twin),))
    changed = "n.id IS NULL OR n.summary IS NOT o.summary OR n.content IS NOT o.content OR n.entities IS NOT o.entities"
    sql = f"SELECT o.id FROM main.episode o LEFT JOIN cleaned.episode n ON n.id = o.id WHERE {changed}"
    with older.transaction() as tx:
        older.rows("PRAGMA defer_foreign_keys = 1")
        changed_ids = [int(row_id) for (row_id,) in tx.rows(sql)]
        for row_id in changed_ids:
            _index_older(tx, row_id, version, is_deleted=True)
        for table in _plain_tables(tx):
            _take_over_table(tx, table)
        tx.run("INSERT OR IGNORE INTO main.tombstone SELECT * FROM cleaned.tombstone")
        for row_id in changed_ids:
            _index_older(tx, row_id, version, is_deleted=False)
        for index in ("passage_fts", "note_fts"):
            tx.run(f"INSERT INTO {index}({index}) VALUES ('rebuild')")


def _plain_tables(store: Reader) -> list[str]:
    """Return the tables that both databases have, except SQLite's own, those of text indexes, and ``meta``."""
    return [
        str(name)
        for (name,) in store.rows(
            "SELECT name FROM main.sqlite_master o JOIN cleaned.sqlite_master n USING (name, type) "
            "WHERE type = 'table' AND NOT (name GLOB 'sqlite_*' OR name GLOB '*_fts*' OR name = 'meta')"
        )
    ]


def _take_over_table(tx: Tx, table: str) -> None:
    columns: dict[str, int] = {
        str(name): int(place) for name, place in tx.rows("SELECT name, pk FROM pragma_table_info(?, 'main')", (table,))
    }
    present = {str(name) for (name,) in tx.rows("SELECT name FROM pragma_table_info(?, 'cleaned')", (table,))}
    keys = [name for name, place in columns.items() if place] or ["rowid"]
    others = [name for name in columns if name in present and name not in keys]
    same = f'FROM cleaned."{table}" n WHERE ' + " AND ".join(f'n."{key}" = o."{key}"' for key in keys)
    tx.run(f'DELETE FROM main."{table}" AS o WHERE NOT EXISTS (SELECT 1 {same})')
    if others:
        names = ", ".join(f'"{name}"' for name in others)
        values = ", ".join(f'n."{name}"' for name in others)
        differ = " OR ".join(f'n."{name}" IS NOT o."{name}"' for name in others)
        tx.run(
            f'UPDATE main."{table}" AS o SET ({names}) = (SELECT {values} {same}) '
            f"WHERE EXISTS (SELECT 1 {same} AND ({differ}))"
        )


def _index_older(tx: Tx, row_id: int, version: int, *, is_deleted: bool) -> None:
    """Remove a memory from an earlier version's text index, or add it, with the words that that version indexes."""
    questions = "questions" if version >= 17 else "''"
    into, deleted = ("episode_fts, rowid", "'delete', ?") if is_deleted else ("rowid", "?")
    for summary, content, entities, asked in tx.rows(
        f"SELECT summary, content, entities, {questions} FROM main.episode WHERE id = ?", (row_id,)
    ):
        words = (summary, unpack_text(content), f"{entities} {asked}")
        if version >= 19:
            words = (in_pairs(words[0]), in_pairs(words[1]), in_pairs(words[2]))
        tx.run(
            f"INSERT INTO episode_fts({into}, summary, content, entities) VALUES ({deleted}, ?, ?, ?)", (row_id, *words)
        )


# -- Tombstones, which are carried from one database to another and applied there, so that forgotten data remains
# forgotten in every copy.

#: ``(kind, key, when it was forgotten)``.
Tombstone = tuple[str, bytes, int]


def read_tombstones(store: Reader) -> list[Tombstone]:
    """Return all tombstones. ``Store.open`` isn't required, so this also works for a damaged database."""
    table = tables.Tombstone
    rows = store.fetch(table.select(table.kind, table.key, table.at_ms))
    return [(str(row.kind), bytes(row.key), int(row.at_ms)) for row in rows]


def carry_tombstones(tx: Tx, tombstones: Sequence[Tombstone]) -> int:
    """Add tombstones; return how many are new.

    Projects that were forgotten later than in this database are erased now; ``apply_tombstones`` deletes the rest.
    """
    before = _count_tombstones(tx)
    carry_forgotten_projects(tx, tombstones, actor=Actor.TIDYING)
    rows: list[dict[str, Value]] = [{"kind": kind, "key": key, "at_ms": at_ms} for kind, key, at_ms in tombstones]
    tx.insert_many(tables.Tombstone, rows, or_ignore=True)
    return _count_tombstones(tx) - before


def carry_harmless_tombstones(tx: Tx, tombstones: Sequence[Tombstone]) -> int:
    """Add the tombstones of an imported file that match nothing in this database; return how many are new.

    Nothing is deleted. A time in the future is replaced with the current time, so that a file can't keep later sessions
    of a project from being stored.
    """
    before, now_ms = _count_tombstones(tx), tx.now_ms()
    said = stored_words(tx, {key for kind, key, _ in tombstones if kind == TombstoneKind.SAID})
    rows: list[dict[str, Value]] = [
        {"kind": kind, "key": key, "at_ms": min(at_ms, now_ms)}
        for kind, key, at_ms in tombstones
        if not (key in said if kind == TombstoneKind.SAID else _names_something(tx, TombstoneKind(kind), key))
    ]
    tx.insert_many(tables.Tombstone, rows, or_ignore=True)
    return _count_tombstones(tx) - before


def _names_something(store: Reader, kind: TombstoneKind, key: bytes) -> bool:
    """Return True if the item that a tombstone lists is stored. The kind ``SAID`` is not supported."""
    text = key.decode("utf-8", "replace")
    if kind in (TombstoneKind.MEMORY, TombstoneKind.PURGED):
        return find_memory(store, text) is not None
    if kind in (TombstoneKind.SLOT, TombstoneKind.PURGED_SLOT):
        return memory_by_slot(store, text) is not None
    if kind is TombstoneKind.TEXT:
        return True  # nobody else decides which texts may be saved here
    if kind is TombstoneKind.TURN:
        turn = tables.Turn
        return store.has_any(turn.select(turn.id).where(turn.key == text).limit(1))
    if kind is TombstoneKind.PROJECT:
        return find_project_of_identity(store, text) is not None
    return turn_of_entry(store, unpack_uuid(key)) is not None


def _count_tombstones(store: Reader) -> int:
    """Return the number of tombstones, as it is reported; a memory's text has the same one as the memory."""
    table = tables.Tombstone
    return int(store.fetch_value(table.select(fn.count(SQL("*"))).where(table.kind != TombstoneKind.TEXT.value)))


def is_named_by_tombstone(
    store: Reader, episode_id: str, slot: str | None, uuids: Collection[str], source: str, *, with_purged: bool = True
) -> bool:
    """Return True if a memory must not be stored: it, its slot, or an entry that an automatic one needs was forgotten.

    Args:
        source: the memory's ``Source``; a saved memory may rest on any entry.
        with_purged: treat purged memories like forgotten ones.
    """
    if is_memory_gone(store, episode_id, with_purged=with_purged):
        return True
    if slot and is_slot_gone(store, slot, with_purged=with_purged):
        return True
    return source == Source.AUTO and bool(barred_entries(store, uuids))


def delete_named_in_copy(path: Path, driver: str, tombstones: Sequence[Tombstone]) -> int:
    """Delete what tombstones list from another database of Engram; return how many items were deleted or changed.

    Raises:
        StoreError: the file is damaged, or not Engram's; it is unchanged.
    """

    def delete_named(tx: Tx) -> int:
        erased = carry_forgotten_projects(tx, tombstones, actor=Actor.TIDYING)
        carry_tombstones(tx, tombstones)
        return erased + apply_tombstones(tx, actor=Actor.TIDYING)

    return clean_copy(path, driver, delete_named)
