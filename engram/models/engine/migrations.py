"""Bring memory.db to the newest schema version: create it, carry over an unreleased version, or migrate step by step.

Everything runs in one exclusive transaction, in which the version is checked again. Any number of processes may open a
file at once and be killed at any time, but the file is never left between two versions.
"""

from __future__ import annotations

import contextlib
import secrets
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import peewee

from engram.errors import BrokenDatabase, NewerSchema, OlderSchema
from engram.models import tables
from engram.models.engine.database import APPLICATION_ID, schema_statements
from engram.models.engine.statement import entry_key, in_order, pack_entries, pack_text, unpack_text, unpack_uuid
from engram.system.clock import SYSTEM_CLOCK
from engram.system.failpoint import reach
from engram.text.words import in_pairs
from engram.transcripts.turns import EntryRef

# -- Carry over a memory.db from before the first release into the tables of ``engram.models.tables``.
#
# Versions 1 to 3 are first upgraded to version 4 by steps of their own. Then the old tables are renamed, the new ones
# are created as in a new file, and every row is copied by column name. This uses raw SQL, because the old tables have
# no models.

#: The latest version before the first release.
CARRIED_VERSION = 19
#: The latest version whose tables were written by hand.
_BY_HAND = 4
#: Prefix that the names of the old tables get temporarily.
_PREFIX = "carried_"

#: (table, column) → the previous name of the column.
_RENAMED = {("injection", "used_at_ms"): "expanded_at_ms"}
#: The actor of a change, which version 4 did not record. The voice of a saved memory decides whether the user or the
#: agent saved it, and made the replacement that came with it.
_ACTOR = """CASE
    WHEN h.action IN ('edit', 'pin', 'unpin', 'bad', 'undo', 'erase', 'import') OR r.kind = 'decide' THEN 'user'
    WHEN h.action IN ('save', 'correct') OR r.kind = 'save' THEN
        CASE (SELECT e.voice FROM episode e WHERE e.episode_id = coalesce(
            CASE WHEN json_valid(h.after) THEN json_extract(h.after, '$.superseded_by') END, h.episode_id))
        WHEN 'user' THEN 'user' ELSE 'agent' END
    WHEN h.action = 'extract' OR r.kind = 'extract' THEN 'model'
    ELSE 'tidying' END"""


@contextlib.contextmanager
def _prepared_for_carry_over(database: Any) -> Iterator[None]:
    """Allow tables to be renamed without renaming references to them; SQLite allows this only outside a transaction."""
    database.execute_sql("PRAGMA foreign_keys = OFF")
    database.execute_sql("PRAGMA legacy_alter_table = ON")
    try:
        yield
    finally:
        database.execute_sql("PRAGMA legacy_alter_table = OFF")
        database.execute_sql("PRAGMA foreign_keys = ON")


def _bring_to_version_4(database: Any, version: int) -> None:
    """Convert the rows of versions 1 to 3 to version 4, which is carried over next.

    Text indexes, views, empty tables and empty columns are left out, because carrying over recreates them. The vectors
    of versions 1 and 2 are deleted and will be recomputed.
    """
    execute = database.execute_sql
    if "kept_at_ms" not in _columns(database, "episode"):
        # Early builds of version 1 lack this column.
        execute("ALTER TABLE episode ADD COLUMN kept_at_ms INTEGER NOT NULL DEFAULT 0")
        execute("UPDATE episode SET kept_at_ms = created_at_ms")
    if version < 2:
        execute("ALTER TABLE spend ADD COLUMN ledger_ms INTEGER NOT NULL DEFAULT 0")
        execute("UPDATE spend SET ledger_ms = at_ms")
    if version < 3:
        execute("DROP TABLE vector")
        _pack_turns(database)
        for row_id, content in execute("SELECT id, content FROM episode").fetchall():
            execute("UPDATE episode SET content = ? WHERE id = ?", (pack_text(content), row_id))
    # Memories superseded by a deleted memory become current again. A size of -1 causes a note to be reindexed.
    execute(
        "UPDATE episode SET status = 'active', superseded_by = '', valid_to_ms = NULL WHERE status = 'superseded' "
        "AND NOT EXISTS (SELECT 1 FROM episode s WHERE s.episode_id = episode.superseded_by)"
    )
    execute("UPDATE note SET size = -1")
    reach("migrate.step")


def _pack_turns(database: Any) -> None:
    """Store each turn's entries in its row, and a key for each entry in a table that is used only to find the turn."""
    execute = database.execute_sql
    execute("ALTER TABLE turn ADD COLUMN entries BLOB NOT NULL DEFAULT x''")
    execute("CREATE TABLE entry_of_turn (key INTEGER PRIMARY KEY, turn_id INTEGER NOT NULL)")
    for (turn_id,) in execute("SELECT id FROM turn").fetchall():
        rows = execute("SELECT uuid, offset, length, line FROM entry WHERE turn_id = ?", (turn_id,)).fetchall()
        entries = in_order(EntryRef(unpack_uuid(uuid), offset, size, line) for uuid, offset, size, line in rows)
        execute("UPDATE turn SET entries = ? WHERE id = ?", (pack_entries(entries), turn_id))
        for entry in entries:
            execute("INSERT OR IGNORE INTO entry_of_turn VALUES (?, ?)", (entry_key(entry.uuid), turn_id))
    execute("DROP TABLE entry")
    execute("ALTER TABLE entry_of_turn RENAME TO entry")


def _carry_over(database: Any, version: int) -> None:
    """Replace the tables of an earlier version with the declared ones, keeping all rows.

    Call this in an exclusive transaction and inside ``_prepared_for_carry_over``.
    """
    if version < _BY_HAND:
        _bring_to_version_4(database, version)
    old_tables = _move_old_tables_aside(database)
    for statement in schema_statements():
        database.execute_sql(statement)
        reach("migrate.step")
    for table in tables.ALL_TABLES:
        name = table._meta.table_name
        if name in old_tables:
            _copy_rows(database, table)
            reach("migrate.step")
    if version <= _BY_HAND:
        _name_actors(database)
        _carry_cursors(database)
    for name in old_tables:
        _keep_numbering(database, name)
        database.execute_sql(f'DROP TABLE "{_PREFIX}{name}"')
        reach("migrate.step")
    _fill_text_indexes(database)
    reach("migrate.step")


def _move_old_tables_aside(database: Any) -> list[str]:
    """Drop views, indexes and text indexes, and rename the tables; return the original names of the tables."""
    for kind, condition in (
        ("view", ""),
        ("table", "AND sql LIKE 'CREATE VIRTUAL%'"),
        ("index", "AND sql IS NOT NULL"),
    ):
        for name in _names(database, kind, condition):
            database.execute_sql(f'DROP {kind.upper()} "{name}"')
    names = _names(database, "table", "AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\'")
    for name in names:
        database.execute_sql(f'ALTER TABLE "{name}" RENAME TO "{_PREFIX}{name}"')
    reach("migrate.step")
    return names


def _names(database: Any, kind: str, condition: str) -> list[str]:
    rows = database.execute_sql(f"SELECT name FROM sqlite_master WHERE type = ? {condition}", (kind,)).fetchall()
    return [str(name) for (name,) in rows]


def _copy_rows(database: Any, table: type[tables.Table]) -> None:
    """Copy all rows, with the columns that both tables have; new columns get their defaults."""
    name = table._meta.table_name
    old_columns = _columns(database, f"{_PREFIX}{name}")
    sources = {}
    for column in tables.column_names(table):
        former = _RENAMED.get((name, column), column)
        if source := next((known for known in (column, former) if known in old_columns), None):
            sources[column] = source
    columns, values = (", ".join(f'"{column}"' for column in names) for names in (sources, sources.values()))
    database.execute_sql(f'INSERT INTO "{name}" ({columns}) SELECT {values} FROM "{_PREFIX}{name}"')


def _columns(database: Any, name: str) -> set[str]:
    rows = database.execute_sql("SELECT name FROM pragma_table_info(?)", (name,)).fetchall()
    return {str(column) for (column,) in rows}


def _carry_cursors(database: Any) -> None:
    """Combine the columns in which version 4 stored a transcript's position into a cursor of Claude Code's reader.

    If the stored state of the reader is damaged, the reader continues after the last line without its open turn.
    """
    state = "CASE WHEN json_valid(o.reader_state) THEN o.reader_state ELSE '{}' END"
    database.execute_sql(
        "UPDATE transcript SET (cursor, cursor_words, stamp, bytes_read, lines_read) = (SELECT "
        "json_patch(json_object('offset', o.cursor, 'lines', o.line_number, 'fingerprint', lower(hex(o.fingerprint))), "
        f"json_remove({state}, '$.branch')), coalesce(json_extract({state}, '$.branch'), ''), "
        "CAST(o.size AS TEXT), o.cursor, o.line_number "
        f"FROM {_PREFIX}transcript o WHERE o.id = transcript.id)"
    )


def _name_actors(database: Any) -> None:
    database.execute_sql(
        f"UPDATE history SET actor = (SELECT {_ACTOR} FROM history h LEFT JOIN run r ON r.id = h.run_id "
        "WHERE h.id = history.id)"
    )


def _keep_numbering(database: Any, name: str) -> None:
    """Let a table with AUTOINCREMENT continue the old table's numbers."""
    numbered = database.execute_sql("SELECT 1 FROM sqlite_sequence WHERE name = ?", (f"{_PREFIX}{name}",)).fetchone()
    if numbered:
        database.execute_sql("DELETE FROM sqlite_sequence WHERE name = ?", (name,))
        database.execute_sql("UPDATE sqlite_sequence SET name = ? WHERE name = ?", (name, f"{_PREFIX}{name}"))


def _fill_text_indexes(database: Any) -> None:
    for name in ("passage_fts", "note_fts"):
        database.execute_sql(f"INSERT INTO {name}({name}) VALUES ('rebuild')")
        reach("migrate.step")
    for (row_id,) in database.execute_sql("SELECT id FROM episode ORDER BY id").fetchall():
        summary, content, names = database.execute_sql(
            "SELECT summary, content, entities || ' ' || questions FROM episode WHERE id = ?", (row_id,)
        ).fetchone()
        database.execute_sql(
            "INSERT INTO episode_fts(rowid, summary, content, entities) VALUES (?, ?, ?, ?)",
            (row_id, in_pairs(summary), in_pairs(unpack_text(content)), in_pairs(names)),
        )


Migration = Callable[[Any], None]

#: The version of the first release.
FIRST_VERSION = CARRIED_VERSION + 1
#: One function per version after ``FIRST_VERSION``, defined above this line, such as ``database.execute_sql('ALTER
#: TABLE "project" ADD COLUMN "colour" TEXT NOT NULL DEFAULT \'\'')``. Steps use raw SQL, because the declared tables
#: change, while a released step never does. A new file, and one of an unreleased version, gets the declared tables of
#: the newest version directly, so the steps have to produce exactly those.
MIGRATIONS: Sequence[Migration] = ()

#: Key in ``meta`` of the tables' version. The file's header contains it too, but may be damaged.
_RECORDED = "schema_version"
#: Key in ``meta`` of the time at which the memory was created, in milliseconds since 1970. Its backups have the same
#: time.
MADE_AT = "made_at_ms"
#: Key in ``meta`` that exists in a migrated database until everything that the tombstones list has been deleted from
#: it.
TOMBSTONES_DUE = "tombstones_due"
#: Parts of SQLite's messages if the tables are not of the version in the header.
_CONTRADICTIONS = ("already exists", "duplicate column", "no such table", "no such column")


def newest_version(migrations: Sequence[Migration] = MIGRATIONS) -> int:
    return FIRST_VERSION + len(migrations)


def migrate(database: Any, migrations: Sequence[Migration] = MIGRATIONS, *, may_upgrade: bool = True) -> bool:
    """Bring the database to the newest version; return True if this call changed it.

    Any number of processes may call this at once: one migrates, and the others wait for it.

    Args:
        may_upgrade: migrate the tables of an earlier version. A new file always gets its tables.

    Raises:
        NewerSchema: the database is newer than this program; nothing was changed.
        OlderSchema: the database is older and may not be upgraded; nothing was changed.
        BrokenDatabase: the version in the header isn't that of the tables; nothing was changed.
    """
    version, newest = _checked_version(database), newest_version(migrations)
    if version > newest:
        raise NewerSchema()
    if version == newest:
        return False
    if version and not may_upgrade:
        raise OlderSchema(
            f"memory.db was written by an earlier version of Engram (its tables have version {version}, this version's "
            f"{newest}). Run `engram install`, which stops that version's processes, makes a copy of memory.db "
            "and brings it up to date; or stop that version and run `engram up`",
            version,
        )
    with _prepared_for_carry_over(database) if 0 < version <= CARRIED_VERSION else contextlib.nullcontext():
        return _bring_up(database, migrations)


def _version(database: Any) -> int:
    return int(database.execute_sql("PRAGMA user_version").fetchone()[0])


def _checked_version(database: Any) -> int:
    """Return the version in the header. Raises BrokenDatabase if it isn't that of the tables."""
    if not database.execute_sql("SELECT 1 FROM sqlite_master WHERE name = 'meta'").fetchone():
        return _version(database)
    version, recorded = database.execute_sql(
        f"SELECT user_version, (SELECT value FROM meta WHERE key = '{_RECORDED}') FROM pragma_user_version"
    ).fetchone()
    if version == 0 or (recorded is not None and str(version) != str(recorded)):
        raise BrokenDatabase(f"memory.db is damaged: its header gives version {version}, its tables have {recorded}")
    return int(version)


def _bring_up(database: Any, migrations: Sequence[Migration]) -> bool:
    """Bring the database to the newest version in one transaction; return False if another process has done that."""
    newest = newest_version(migrations)
    with database.atomic("EXCLUSIVE"):
        reach("migrate.begin")
        version = _version(database)
        if version > newest:
            raise NewerSchema()
        if version == newest:
            return False
        try:
            while version < newest:
                version = _change_tables(database, version, migrations)
        except (peewee.OperationalError, peewee.IntegrityError) as error:
            is_refused = isinstance(error, peewee.IntegrityError)
            if is_refused or any(words in str(error) for words in _CONTRADICTIONS):
                raise BrokenDatabase(f"memory.db is damaged: it has no tables of version {version}: {error}") from error
            raise
        database.execute_sql(
            "INSERT OR REPLACE INTO meta (key, value) VALUES (?, ?), (?, '1')",
            (_RECORDED, str(version), TOMBSTONES_DUE),
        )
        database.execute_sql(f"PRAGMA user_version = {version}")
    return True


def _change_tables(database: Any, version: int, migrations: Sequence[Migration]) -> int:
    """Migrate the tables by one step, or directly to the newest version; return the version reached."""
    if version == 0:
        _make_tables(database)
        return newest_version(migrations)
    if version <= CARRIED_VERSION:
        _carry_over(database, version)
        return newest_version(migrations)
    migrations[version - FIRST_VERSION](database)
    reach("migrate.step")
    return version + 1


def _make_tables(database: Any) -> None:
    for statement in schema_statements():
        database.execute_sql(statement)
        reach("migrate.step")
    database.execute_sql(
        "INSERT INTO meta (key, value) VALUES ('machine', ?), ('salt', ?), (?, ?)",
        (secrets.token_hex(8), secrets.token_hex(16), MADE_AT, str(SYSTEM_CLOCK.now_ms())),
    )
    database.execute_sql(f"PRAGMA application_id = {APPLICATION_ID}")
