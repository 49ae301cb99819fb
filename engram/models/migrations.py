"""The version of memory.db: made new, carried over from versions 1 to 4, and brought on by numbered steps.

Everything runs in one ``BEGIN EXCLUSIVE`` with the version checked again inside: any number of processes may open a
file at once, each may be killed at any instant, and a file never stays between two versions.
"""

from __future__ import annotations

import contextlib
import secrets
from collections.abc import Callable, Sequence
from typing import Any

import peewee

from engram.clock import SYSTEM_CLOCK
from engram.errors import BrokenDatabase, NewerSchema, OlderSchema
from engram.failpoint import reach
from engram.models import migration_steps
from engram.models.carry_over import CARRIED_VERSION, bring_to_carried_version, carry_over, prepared_for_carry_over
from engram.models.schema import APPLICATION_ID, schema_statements

Migration = Callable[[Any], None]

#: The first version whose tables are made from ``engram.models.tables``.
FIRST_VERSION = 5
#: One function a version, from ``FIRST_VERSION`` on: the first leads from 5 to 6. A new file is made as the newest
#: version at once, and a file of versions 1 to 4 is carried over to the newest at once: both come from the tables as
#: they are declared, so that a step has to change what it finds into just that.
MIGRATIONS: Sequence[Migration] = migration_steps.STEPS

#: Key in ``meta`` of the version that the tables have: the header, which says so too, may be damaged.
_RECORDED = "schema_version"
#: Key in ``meta`` of the time at which the memory began, in milliseconds since 1970; its backups have the same.
MADE_AT = "made_at_ms"
#: Key in ``meta`` that stands there until what tombstones name was deleted from a migrated database.
TOMBSTONES_DUE = "tombstones_due"
#: What SQLite says where a migration meets tables of another version than the header names.
_CONTRADICTIONS = ("already exists", "duplicate column", "no such table", "no such column")


def newest_version(migrations: Sequence[Migration] = MIGRATIONS) -> int:
    """The version that a new file has."""
    return FIRST_VERSION + len(migrations)


def migrate(database: Any, migrations: Sequence[Migration] = MIGRATIONS, *, may_upgrade: bool = True) -> bool:
    """Bring the database to the newest version; returns whether this call changed it.

    Any number of processes may call this at once: one migrates, the others wait and find it done.

    Args:
        database: the open database.
        migrations: the numbered steps.
        may_upgrade: change the tables of an earlier version; a new file gets its tables in any case.

    Raises:
        NewerSchema: the database is newer than this program; nothing was changed.
        OlderSchema: it is older and may not be upgraded; nothing was changed.
        BrokenDatabase: the header names another version than the tables have; nothing was changed.
    """
    version, newest = _checked_version(database), newest_version(migrations)
    if version > newest:
        raise NewerSchema()
    if version == newest:
        return False
    if version and not may_upgrade:
        raise OlderSchema(
            f"memory.db was written by an earlier version of Engram (its tables have version {version}, this version's "
            f"{newest}). Run `engram install`, which ends what still runs of that version, makes a copy of memory.db "
            "and brings it up to date; or stop that version and run `engram up`",
            version,
        )
    with prepared_for_carry_over(database) if 0 < version <= CARRIED_VERSION else contextlib.nullcontext():
        return _bring_up(database, migrations)


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


def _bring_up(database: Any, migrations: Sequence[Migration]) -> bool:
    """Bring the database to the newest version in one transaction; False if another process has done that."""
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
    """Make the tables of a later version out of those that are there; returns that version."""
    if version == 0:
        _make_tables(database)
        return newest_version(migrations)
    if version <= CARRIED_VERSION:
        bring_to_carried_version(database, version)
        carry_over(database)
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
