"""The memory and the backup of version 4 that tests/models/fixtures/make_version_4.py made."""

from __future__ import annotations

import gzip
import shutil
import sqlite3
from pathlib import Path
from typing import Any

FIXTURES = Path(__file__).with_name("fixtures")


def put_version_4(path: Path, name: str = "version-4") -> Path:
    """Write a memory.db of version 4 to ``path``; ``version-4-backup`` is a backup of it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with gzip.open(FIXTURES / f"{name}.db.gz") as packed, path.open("wb") as file:
        shutil.copyfileobj(packed, file)
    return path


def read_rows(path: Path, table: str) -> list[dict[str, Any]]:
    """All rows of a table by name, read by nothing of Engram's."""
    connection = sqlite3.connect(path)
    connection.row_factory = sqlite3.Row
    try:
        return [dict(row) for row in connection.execute(f'SELECT * FROM "{table}" ORDER BY 1, 2')]
    finally:
        connection.close()


def read_schema(path: Path) -> list[tuple[Any, ...]]:
    """What SQLite says about every table, index and view."""
    connection = sqlite3.connect(path)
    try:
        return sorted(connection.execute("SELECT type, name, tbl_name, coalesce(sql, '') FROM sqlite_master"))
    finally:
        connection.close()
