"""Memories of one made-up project, for the tests that copy, restore and compare databases."""

from __future__ import annotations

import sqlite3
from pathlib import Path

from engram.enums import Actor
from engram.models.engine.transaction import Store
from engram.models.memories import memory_changes, memory_records
from engram.models.memories.memory_records import Evidence, Memory
from engram.models.projects.projects import ensure_project
from engram.models.sessions.sessions import ensure_session

#: The entry that each of them rests on.
ENTRY = "11111111-1111-1111-1111-111111111111"


def keep(store: Store, text: str, **fields: object) -> Memory:
    """Keep a memory of the project; ``fields`` are fields of ``Memory``."""
    with store.transaction() as tx:
        project = ensure_project(tx, "git:/boat", "boat", "/boat")
        ensure_session(tx, "s1", agent="claude-code", project_id=project.id, is_global=False, cwd="/boat", at_ms=5)
        made = Memory(
            memory_records.new_memory_id(),
            "fact",
            text,
            text,
            **({"project_id": project.id, "session_id": "s1"} | fields),
        )  # type: ignore[arg-type]
        return memory_changes.add_memory(tx, made, [Evidence(ENTRY, "s1", None)], actor=Actor.MODEL)


def summaries(path: Path) -> list[str]:
    """The summaries in a database file, in the order in which they were kept."""
    with sqlite3.connect(path) as connection:
        found = [str(value) for (value,) in connection.execute("SELECT summary FROM episode ORDER BY id")]
    connection.close()
    return found
