"""Measure how much of the disk memory.db takes, by purpose: ``python benchmarks/disk.py HOME [--json]``.

HOME is a memory folder in which everything has been read, extracted and embedded (`whole.py --keep HOME`). The database
is copied and compacted; then each table is dropped from the copy, and the pages that this frees are its share. Goal: at
most 15 KB per turn in addition to the text of the turn.
"""

from __future__ import annotations

import argparse
import json
import sqlite3
import tempfile
from pathlib import Path
from typing import Any

#: The goal, in bytes per turn.
MAX_BYTES = 15_000
#: Purpose → its tables; all other tables are "rest".
PARTS = {
    "vectors": ("vector",),
    "text index of turns": ("passage_fts",),
    "passages": ("passage",),
    "entry uuids": ("entry",),
    "turns (facts of tools)": ("turn",),
    "episodes": ("episode", "episode_fts", "evidence", "entity", "episode_entity", "history"),
}


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("home", type=Path, help="a memory folder")
    parser.add_argument("--json", action="store_true", help="print JSON")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        table = measure(given.home / "memory.db", Path(name) / "copy.db")
    if given.json:
        print(json.dumps(table))
        return
    print(f"{table['turns']} turns, {table['file_mb']} MB; text {table['text_bytes_a_turn']:,} bytes a turn")
    for part, size in table["bytes_a_turn"].items():
        print(f"{part:26} {size:>8,} bytes a turn")
    print(f"{'beyond the text':26} {table['beyond_text_a_turn']:>8,} bytes a turn (goal: {MAX_BYTES:,})")


def measure(database: Path, copy: Path) -> dict[str, Any]:
    """Return the bytes per turn of each part."""
    source = sqlite3.connect(f"file:{database}?mode=ro", uri=True)
    source.execute("VACUUM INTO ?", (str(copy),))
    source.close()
    held = sqlite3.connect(copy, isolation_level=None)
    held.execute("PRAGMA foreign_keys = 0")
    turns = value(held, "SELECT count(*) FROM turn")
    text = value(held, "SELECT sum(length(CAST(text AS BLOB))) FROM said")
    total = used(held)
    entries = value(held, "SELECT sum(length(entries)) FROM turn")
    parts = {part: sum(dropped(held, table) for table in tables) for part, tables in PARTS.items()}
    parts["entry uuids"] += entries
    parts["turns (facts of tools)"] -= entries
    parts["texts, beyond their bytes"] = dropped(held, "said") - text
    parts["rest"] = total - text - sum(parts.values())
    held.close()
    return {
        "turns": turns,
        "file_mb": round(total / 1e6, 1),
        "text_bytes_a_turn": text // turns,
        "bytes_a_turn": {part: size // turns for part, size in parts.items()},
        "beyond_text_a_turn": (total - text) // turns,
    }


def value(held: sqlite3.Connection, sql: str) -> int:
    """Return the one number that a query selects."""
    return int(held.execute(sql).fetchone()[0] or 0)


def used(held: sqlite3.Connection) -> int:
    """Return the number of bytes in all used pages."""
    pages = value(held, "PRAGMA page_count") - value(held, "PRAGMA freelist_count")
    return pages * value(held, "PRAGMA page_size")


def dropped(held: sqlite3.Connection, table: str) -> int:
    """Drop a table with its indexes; return how many bytes this frees."""
    before = used(held)
    for view in held.execute("SELECT name FROM sqlite_master WHERE type IN ('view', 'trigger')").fetchall():
        kind = value_of_kind(held, view[0])
        held.execute(f'DROP {kind} "{view[0]}"')
    held.execute(f'DROP TABLE "{table}"')
    return before - used(held)


def value_of_kind(held: sqlite3.Connection, name: str) -> str:
    """Return the type of a name in the schema."""
    return str(held.execute("SELECT type FROM sqlite_master WHERE name = ?", (name,)).fetchone()[0]).upper()


if __name__ == "__main__":
    main()
