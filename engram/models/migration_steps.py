"""The numbered steps that bring a memory.db from one version to the next.

Raw SQL throughout: a step that was released never changes, while the declared tables do. A step leaves just what a new
file of its version has; ``tests/models/test_migrations.py`` compares them.
"""

from __future__ import annotations

from typing import Any


def add_pull_requests(database: Any) -> None:
    """From 5 to 6: the pull requests that sessions name."""
    database.execute_sql(
        'CREATE TABLE "pull_request" ("session_ref" INTEGER NOT NULL, "url" TEXT NOT NULL, "at_ms" INTEGER NOT NULL, '
        'PRIMARY KEY ("session_ref", "url"), FOREIGN KEY ("session_ref") REFERENCES "session" ("id") ON DELETE CASCADE)'
        " WITHOUT ROWID"
    )
