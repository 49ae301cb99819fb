"""Numbered migrations of memory.db, run under ``BEGIN EXCLUSIVE`` with the version checked again inside."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Sequence
from typing import Any

from engram.clock import SYSTEM_CLOCK
from engram.errors import NewerSchema
from engram.failpoint import reach
from engram.models.schema import APPLICATION_ID, VERSION_1

Migration = Callable[[Any], None]


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


#: One function a version; the version of a database is the number of those that ran.
MIGRATIONS: Sequence[Migration] = (_first, _second)


def migrate(database: Any, migrations: Sequence[Migration] = MIGRATIONS) -> int:
    """Bring the database to the newest version; returns the number of migrations that ran.

    Any number of processes may call this at once: one migrates, the others wait and find it done.

    Raises:
        NewerSchema: the database is newer than this program; nothing was changed.
    """
    if _version(database) == len(migrations):
        return 0
    if _version(database) > len(migrations):
        raise NewerSchema()
    done = 0
    while _step(database, migrations):
        done += 1
    return done


def _version(database: Any) -> int:
    return int(database.execute_sql("PRAGMA user_version").fetchone()[0])


def _step(database: Any, migrations: Sequence[Migration]) -> bool:
    """Run the next migration in a transaction of its own; False where none is left."""
    with database.atomic("EXCLUSIVE"):
        reach("migrate.begin")
        version = _version(database)
        if version > len(migrations):
            raise NewerSchema()
        if version == len(migrations):
            return False
        migrations[version](database)
        if version == 0:
            database.execute_sql(f"PRAGMA application_id = {APPLICATION_ID}")
        database.execute_sql(f"PRAGMA user_version = {version + 1}")
    return True
