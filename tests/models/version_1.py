"""A memory.db of versions 1 to 3, from before the first release: made by the statements of their time."""

from __future__ import annotations

import sqlite3
from pathlib import Path

from engram.models.engine.database import APPLICATION_ID
from engram.models.engine.statement import entry_key, pack_entries, pack_text, pack_uuid
from engram.transcripts.turns import EntryRef

STATEMENTS = Path(__file__).with_name("fixtures") / "version-1.sql"
ENTRY = "0a1b2c3d-0000-4000-8000-000000000001"
#: What was saved, forgotten, pinned, and taken back: id → summary.
SAVED, PINNED, REPLACED = "ep_0000000000000001", "ep_0000000000000002", "ep_0000000000000003"
FORGOTTEN = "ep_0000000000000009"
LONG = "The ferry leaves at seven; the harbour master decides about fog. " * 8

#: The first days of version 1 had neither a time of keeping nor numbered vectors.
FIRST_DAYS = (
    "ALTER TABLE episode DROP COLUMN kept_at_ms",
    "DROP TABLE vector",
    "CREATE TABLE vector (owner TEXT NOT NULL, owner_id INTEGER NOT NULL, piece INTEGER NOT NULL DEFAULT 0, model TEXT "
    "NOT NULL, data BLOB NOT NULL, PRIMARY KEY (owner, owner_id, piece)) WITHOUT ROWID",
)
TO_2 = (
    "ALTER TABLE spend ADD COLUMN ledger_ms INTEGER NOT NULL DEFAULT 0",
    "UPDATE spend SET ledger_ms = at_ms",
    "CREATE INDEX spend_ledger ON spend(ledger_ms)",
)
TO_3 = (
    "ALTER TABLE turn ADD COLUMN entries BLOB NOT NULL DEFAULT x''",
    "DROP TABLE entry",
    "CREATE TABLE entry (key INTEGER PRIMARY KEY, turn_id INTEGER NOT NULL)",
    "CREATE TABLE vector_model (id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE)",
    "DROP TABLE vector",
    "CREATE TABLE vector (seq INTEGER PRIMARY KEY AUTOINCREMENT, owner TEXT NOT NULL, owner_id INTEGER NOT NULL, piece "
    "INTEGER NOT NULL DEFAULT 0, model_id INTEGER NOT NULL REFERENCES vector_model(id), data BLOB NOT NULL, "
    "UNIQUE (owner, owner_id, piece))",
    "DROP TABLE episode_fts",
    "CREATE VIRTUAL TABLE episode_fts USING fts5(summary, content, entities, content='')",
)


def put_version(path: Path, version: int, *, is_of_first_days: bool = False) -> Path:
    """Write a memory.db of version 1, 2 or 3 with a turn, memories of every origin, and what was forgotten."""
    path.parent.mkdir(parents=True, exist_ok=True)
    connection = sqlite3.connect(path)
    connection.executescript(STATEMENTS.read_text(encoding="utf-8"))
    _fill(connection)
    for statement in FIRST_DAYS if is_of_first_days else ():
        connection.execute(statement)
    for statement in TO_2 if version >= 2 else ():
        connection.execute(statement)
    if version >= 3:
        for statement in TO_3:
            connection.execute(statement)
        connection.execute("UPDATE turn SET entries = ?", (pack_entries([EntryRef(ENTRY, 0, 90, 1)]),))
        connection.execute("INSERT INTO entry VALUES (?, 1)", (entry_key(ENTRY),))
        connection.execute("UPDATE episode SET content = ? WHERE episode_id = ?", (pack_text(LONG), SAVED))
    connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
    connection.execute(f"PRAGMA user_version = {version}")
    connection.execute("INSERT INTO meta VALUES ('schema_version', ?)", (str(version),))
    connection.commit()
    connection.close()
    return path


def _fill(connection: sqlite3.Connection) -> None:
    run = connection.execute
    for key, value in (("machine", "m1"), ("salt", "s1"), ("made_at_ms", "1000")):
        run("INSERT INTO meta VALUES (?, ?)", (key, value))
    run(
        "INSERT INTO project (id, stable_id, identity, name, root, updated_at_ms) "
        "VALUES (1, 'p1', '/dev/lab/ferry', 'ferry', '/dev/lab/ferry', 1)"
    )
    run(
        "INSERT INTO session (id, session_id, agent, project_id, first_at_ms, last_at_ms) "
        "VALUES (1, 'aaaaaaaa-0000-4000-8000-000000000001', 'claude-code', 1, 1000, 2000)"
    )
    run("INSERT INTO transcript (id, path, session_ref, cursor, size) VALUES (1, x'2f61', 1, 90, 90)")
    run(
        "INSERT INTO turn (id, stable_id, key, session_ref, project_id, transcript_id, opening, agent, cwd, branch, "
        "start_offset, end_offset, is_closed, is_interrupted, message_count, actions, extra, updated_at_ms) VALUES "
        "(1, 't1', 'k1', 1, 1, 1, 'prompt', 'claude-code', '/dev/lab/ferry', '', 0, 90, 1, 0, 1, '[]', '{}', 1)"
    )
    run("INSERT INTO entry VALUES (?, 1, 0, 90, 1)", (pack_uuid(ENTRY),))
    run(
        "INSERT INTO said (id, turn_id, seq, uuid, role, text, message_id, offset, length, line, at_ms) "
        "VALUES (1, 1, 0, ?, 'user', 'Why does the ferry wait for fog?', '', 0, 90, 1, 1000)",
        (pack_uuid(ENTRY),),
    )
    run("INSERT INTO passage VALUES (1, 1, 1, 1, 1, 'user', 0, 32)")
    memories = (
        (SAVED, "The ferry leaves at seven.", LONG, "manual", "active", 0, ""),
        (PINNED, "Fog is decided by the harbour master.", "", "auto", "active", 1, ""),
        (REPLACED, "The ferry leaves at six.", "", "auto", "superseded", 0, FORGOTTEN),
    )
    for number, (name, summary, content, source, status, is_pinned, by) in enumerate(memories, 1):
        run(
            "INSERT INTO episode (id, episode_id, kind, session_ref, project_id, scope, summary, content, importance, "
            "source, status, confidence, is_pinned, superseded_by, extractor, created_at_ms, kept_at_ms, stable_id, "
            "updated_at_ms) VALUES (?, ?, 'decision', 1, 1, 'project', ?, ?, 'high', ?, ?, 0.9, ?, ?, 'local', 1000, "
            "1000, ?, 1)",
            (number, name, summary, content, source, status, is_pinned, by, f"s{number}"),
        )
    run(
        "INSERT INTO history (episode_id, at_ms, action, reason, before, after) VALUES (?, 1, 'pin', '', '{}', '{}')",
        (PINNED,),
    )
    run("INSERT INTO tombstone VALUES ('episode', ?, 5)", (FORGOTTEN.encode(),))
    run("INSERT INTO tombstone VALUES ('entry', ?, 5)", (pack_uuid("0a1b2c3d-0000-4000-8000-000000000002"),))
    run("INSERT INTO pause VALUES ('', 99)")
    run("INSERT INTO vector (owner, owner_id, model, data) VALUES ('p', 1, 'hashed', x'00')")
    run(
        "INSERT INTO spend (at_ms, task, model, project_id, state, input_tokens, output_tokens, dollars) "
        "VALUES (7, 'extract', 'm', 1, 'spent', 1, 1, 0.1)"
    )
