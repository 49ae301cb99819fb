"""Numbered migrations of memory.db, run under ``BEGIN EXCLUSIVE`` with the version checked again inside."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Sequence
from typing import Any

import peewee

from engram.clock import SYSTEM_CLOCK
from engram.errors import BrokenDatabase, NewerSchema
from engram.failpoint import reach
from engram.models.packed import pack_text
from engram.models.packed_entries import entry_key, in_order, pack_entries
from engram.models.schema import APPLICATION_ID, VERSION_1, VERSION_3, VERSION_4
from engram.models.uuids import unpack_uuid
from engram.transcripts.record import EntryRef

Migration = Callable[[Any], None]

#: Key in ``meta`` of the version that the tables have: the header, which says so too, may be damaged.
_RECORDED = "schema_version"
#: Key in ``meta`` that stands there until what tombstones name was deleted from a migrated database.
TOMBSTONES_DUE = "tombstones_due"
#: What SQLite says where a migration meets tables of another version than the header names.
_CONTRADICTIONS = ("already exists", "duplicate column", "no such table", "no such column")


def _first(database: Any) -> None:
    for statement in VERSION_1:
        database.execute_sql(statement)
        reach("migrate.step")
    database.execute_sql(
        "INSERT INTO meta VALUES ('machine', ?), ('salt', ?), ('made_at_ms', ?)",
        (secrets.token_hex(8), secrets.token_hex(16), str(SYSTEM_CLOCK.now_ms())),
    )


def _second(database: Any) -> None:
    """Windows of the spending caps go by a time of their own, which no jump of the wall clock moves."""
    database.execute_sql("ALTER TABLE spend ADD COLUMN ledger_ms INTEGER NOT NULL DEFAULT 0")
    database.execute_sql("UPDATE spend SET ledger_ms = at_ms")
    database.execute_sql("CREATE INDEX spend_ledger ON spend(ledger_ms)")
    reach("migrate.step")


def _third(database: Any) -> None:
    """The same in less room: packed entries and contents, shorter neighbours, a number for a vector's model."""
    for statement in VERSION_3:
        database.execute_sql(statement)
    for (turn_id,) in database.execute_sql("SELECT id FROM turn").fetchall():
        _pack_turn(database, turn_id)
    for statement in ("DROP TABLE entry", "ALTER TABLE entry_of_turn RENAME TO entry"):
        database.execute_sql(statement)
    for row_id, content in database.execute_sql("SELECT id, content FROM episode").fetchall():
        database.execute_sql(
            "INSERT INTO episode_fts(rowid, summary, content, entities) "
            "SELECT id, summary, content, entities FROM episode WHERE id = ?",
            (row_id,),
        )
        database.execute_sql("UPDATE episode SET content = ? WHERE id = ?", (pack_text(content), row_id))
    reach("migrate.step")


def _pack_turn(database: Any, turn_id: int) -> None:
    """Put a turn's entries into its row, and a key for each into the new table."""
    sql = "SELECT uuid, offset, length, line FROM entry WHERE turn_id = ?"
    rows = database.execute_sql(sql, (turn_id,)).fetchall()
    entries = in_order(EntryRef(unpack_uuid(row[0]), row[1], row[2], row[3]) for row in rows)
    database.execute_sql("UPDATE turn SET entries = ? WHERE id = ?", (pack_entries(entries), turn_id))
    for entry in entries:
        database.execute_sql("INSERT INTO entry_of_turn VALUES (?, ?)", (entry_key(entry.uuid), turn_id))


def _fourth(database: Any) -> None:
    """Add what forgetting, moved projects, reports and a language model's memories need."""
    for statement in VERSION_4:
        database.execute_sql(statement)
        reach("migrate.step")


#: One function a version; the version of a database is the number of those that ran.
MIGRATIONS: Sequence[Migration] = (_first, _second, _third, _fourth)


def migrate(database: Any, migrations: Sequence[Migration] = MIGRATIONS) -> int:
    """Bring the database to the newest version; returns the number of migrations that ran.

    Any number of processes may call this at once: one migrates, the others wait and find it done.

    Raises:
        NewerSchema: the database is newer than this program; nothing was changed.
        BrokenDatabase: the header names another version than the tables have; nothing was changed.
    """
    version = _checked_version(database)
    if version == len(migrations):
        return 0
    if version > len(migrations):
        raise NewerSchema()
    done = 0
    while _step(database, migrations):
        done += 1
    return done


def _version(database: Any) -> int:
    return int(database.execute_sql("PRAGMA user_version").fetchone()[0])


def _checked_version(database: Any) -> int:
    """The version in the header, which must be that of the tables: a damaged one would be migrated, or be too new."""
    if not database.execute_sql("SELECT 1 FROM sqlite_master WHERE name = 'meta'").fetchone():
        return _version(database)
    version, recorded = database.execute_sql(
        f"SELECT user_version, (SELECT value FROM meta WHERE key = '{_RECORDED}') FROM pragma_user_version"
    ).fetchone()
    if version == 0 or (recorded is not None and str(version) != str(recorded)):
        raise BrokenDatabase(f"memory.db is damaged: its header says version {version}, its tables have {recorded}")
    return int(version)


def _step(database: Any, migrations: Sequence[Migration]) -> bool:
    """Run the next migration in a transaction of its own; False where none is left."""
    with database.atomic("EXCLUSIVE"):
        reach("migrate.begin")
        version = _version(database)
        if version > len(migrations):
            raise NewerSchema()
        if version == len(migrations):
            return False
        try:
            migrations[version](database)
        except peewee.OperationalError as error:
            if any(words in str(error) for words in _CONTRADICTIONS):
                raise BrokenDatabase(f"memory.db is damaged: it has no tables of version {version}: {error}") from error
            raise
        if version == 0:
            database.execute_sql(f"PRAGMA application_id = {APPLICATION_ID}")
        database.execute_sql(
            "INSERT OR REPLACE INTO meta VALUES (?, ?), (?, '1')", (_RECORDED, str(version + 1), TOMBSTONES_DUE)
        )
        database.execute_sql(f"PRAGMA user_version = {version + 1}")
    return True
