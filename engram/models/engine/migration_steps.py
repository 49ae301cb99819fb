"""The numbered steps that bring a memory.db from one version to the next.

Raw SQL throughout: a step that was released never changes, while the declared tables do. A step leaves just what a new
file of its version has; ``tests/models/engine/test_migrations.py`` compares them.
"""

from __future__ import annotations

import re
from typing import Any

from engram.errors import BrokenDatabase
from engram.models.engine.packed import unpack_text


def add_outcomes(database: Any) -> None:
    """From 5 to 6: what became of each prompt, and two more channels of what was shown."""
    _rebuild(
        database,
        "injection",
        '"id" INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT, "session_id" TEXT NOT NULL, "prompt_key" TEXT NOT NULL, '
        '"channel" TEXT NOT NULL, "episode_id" TEXT NOT NULL, "score" REAL NOT NULL, "tokens" INTEGER NOT NULL, '
        '"state" TEXT NOT NULL, "is_cleared" INTEGER NOT NULL DEFAULT 0 CHECK (is_cleared IN (0, 1)), '
        '"at_ms" INTEGER NOT NULL, "expanded_at_ms" INTEGER, '
        "CHECK (channel IN ('prompt', 'tool', 'start', 'error', 'agent')), CHECK (state IN ('pending', 'shown'))",
    )
    for statement in (
        'CREATE INDEX "injection_session_id_id" ON "injection" ("session_id", "id")',
        'CREATE INDEX "injection_episode_id" ON "injection" ("episode_id")',
        'CREATE TABLE "outcome" ("id" INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT, "session_id" TEXT NOT NULL, '
        '"prompt_key" TEXT NOT NULL DEFAULT \'\', "digest" TEXT NOT NULL DEFAULT \'\', "channel" TEXT NOT NULL, '
        '"project_id" INTEGER, "at_ms" INTEGER NOT NULL, "verdict" TEXT NOT NULL, '
        '"candidates" INTEGER NOT NULL DEFAULT 0, "score" REAL, "floor" REAL, '
        '"is_text_only" INTEGER NOT NULL DEFAULT 0 CHECK (is_text_only IN (0, 1)), '
        '"duration_ms" INTEGER NOT NULL DEFAULT 0, '
        "CHECK (channel IN ('prompt', 'tool', 'start', 'error', 'agent')))",
        'CREATE INDEX "outcome_session_id_id" ON "outcome" ("session_id", "id")',
        'CREATE INDEX "outcome_channel_id" ON "outcome" ("channel", "id")',
        'CREATE TABLE "outcome_candidate" ("outcome_id" INTEGER NOT NULL, "place" INTEGER NOT NULL, '
        '"episode_id" TEXT NOT NULL, "verdict" TEXT NOT NULL, "score" REAL NOT NULL, "floor" REAL NOT NULL, '
        '"features" TEXT NOT NULL DEFAULT \'{}\', PRIMARY KEY ("outcome_id", "place"), '
        'FOREIGN KEY ("outcome_id") REFERENCES "outcome" ("id") ON DELETE CASCADE) WITHOUT ROWID',
        'CREATE INDEX "outcome_candidate_episode_id" ON "outcome_candidate" ("episode_id")',
    ):
        database.execute_sql(statement)


def add_branches(database: Any) -> None:
    """From 6 to 7: whether branches were merged."""
    database.execute_sql(
        'CREATE TABLE "branch" ("project_id" INTEGER NOT NULL, "name" TEXT NOT NULL, '
        "\"state\" TEXT NOT NULL DEFAULT 'unknown', \"tip\" TEXT NOT NULL DEFAULT '', "
        "\"reported_commit\" TEXT NOT NULL DEFAULT '', "
        '"has_commits" INTEGER NOT NULL DEFAULT 0 CHECK (has_commits IN (0, 1)), '
        '"compared_with" TEXT NOT NULL DEFAULT \'\', "last_turn_ms" INTEGER NOT NULL DEFAULT 0, '
        '"changed_at_ms" INTEGER NOT NULL DEFAULT 0, PRIMARY KEY ("project_id", "name"), '
        'FOREIGN KEY ("project_id") REFERENCES "project" ("id") ON DELETE CASCADE, '
        "CHECK (state IN ('merged', 'open', 'unknown'))) WITHOUT ROWID"
    )


def add_failed_calls(database: Any) -> None:
    """From 7 to 8: failing commands by what identifies their errors. Those of turns that are stored stay unknown."""
    for statement in (
        'CREATE TABLE "failed_call" ("turn_id" INTEGER NOT NULL, "seq" INTEGER NOT NULL, "error_key" INTEGER NOT NULL, '
        '"programs" TEXT NOT NULL, PRIMARY KEY ("turn_id", "seq", "error_key"), '
        'FOREIGN KEY ("turn_id") REFERENCES "turn" ("id") ON DELETE CASCADE) WITHOUT ROWID',
        'CREATE INDEX "failed_call_error_key" ON "failed_call" ("error_key")',
    ):
        database.execute_sql(statement)


def rename_expanded(database: Any) -> None:
    """From 8 to 9: of a showing is kept when its session used the memory, by expanding it or by naming it."""
    database.execute_sql("ALTER TABLE injection RENAME COLUMN expanded_at_ms TO used_at_ms")


def add_pull_requests(database: Any) -> None:
    """From 9 to 10: the pull requests that sessions name."""
    database.execute_sql(
        'CREATE TABLE "pull_request" ("session_ref" INTEGER NOT NULL, "url" TEXT NOT NULL, "at_ms" INTEGER NOT NULL, '
        'PRIMARY KEY ("session_ref", "url"), FOREIGN KEY ("session_ref") REFERENCES "session" ("id") ON DELETE CASCADE)'
        " WITHOUT ROWID"
    )


def add_standing_files(database: Any) -> None:
    """From 10 to 11: the user's own files that an agent reads at its start."""
    for statement in (
        'CREATE TABLE "standing_file" ("id" INTEGER NOT NULL PRIMARY KEY, "path" TEXT NOT NULL, "project_id" INTEGER, '
        '"name" TEXT NOT NULL, "size" INTEGER NOT NULL, "changed_at_ns" INTEGER NOT NULL, "text" TEXT NOT NULL, '
        '"forgotten" TEXT NOT NULL DEFAULT \'[]\', "read_at_ms" INTEGER NOT NULL, '
        'FOREIGN KEY ("project_id") REFERENCES "project" ("id") ON DELETE CASCADE)',
        'CREATE UNIQUE INDEX "standing_file_path" ON "standing_file" ("path")',
        'CREATE INDEX "standing_file_project_id" ON "standing_file" ("project_id")',
    ):
        database.execute_sql(statement)


def add_model_readings(database: Any) -> None:
    """From 11 to 12: which turns a language model has read."""
    database.execute_sql(
        'CREATE TABLE "model_reading" ("turn_id" INTEGER NOT NULL, "revision" INTEGER NOT NULL, '
        '"is_second" INTEGER NOT NULL DEFAULT 0 CHECK (is_second IN (0, 1)), PRIMARY KEY ("turn_id"), '
        'FOREIGN KEY ("turn_id") REFERENCES "turn" ("id") ON DELETE CASCADE) WITHOUT ROWID'
    )


def add_undone_steps(database: Any) -> None:
    """From 12 to 13: which step of a history took back which, and the latest memories without a sort."""
    database.execute_sql('ALTER TABLE "history" ADD COLUMN "undoes" INTEGER')
    database.execute_sql('CREATE INDEX "episode_created_at_ms_id" ON "episode" ("created_at_ms", "id")')


def add_browsing(database: Any) -> None:
    """From 13 to 14: lists of memories narrowed and counted by an index, and found by the beginnings of words."""
    for statement in (
        'CREATE INDEX "episode_sorts" ON "episode" ("project_id", "kind", "status", "is_pinned", "is_lowered", '
        '"suspect", "created_at_ms")',
        'CREATE INDEX "episode_suspect" ON "episode" ("created_at_ms") WHERE ("suspect" != \'\')',
        'CREATE INDEX "vector_further" ON "vector" ("piece") WHERE ("piece" > 0)',
        'DROP TABLE "episode_fts"',
        'CREATE VIRTUAL TABLE "episode_fts" USING fts5 ("summary", "content", "entities", content=\'\', prefix=\'2\', '
        "tokenize=\"porter unicode61 remove_diacritics 2 tokenchars '_'\")",
    ):
        database.execute_sql(statement)
    memories = database.execute_sql("SELECT id, summary, content, entities FROM episode ORDER BY id").fetchall()
    for row_id, summary, content, entities in memories:
        database.execute_sql(
            "INSERT INTO episode_fts(rowid, summary, content, entities) VALUES (?, ?, ?, ?)",
            (row_id, summary, unpack_text(content), entities),
        )


def add_hub(database: Any) -> None:
    """From 14 to 15: the hubs that were joined, their spaces, and what was said of memories in them."""
    for statement in (
        'CREATE TABLE "hub_server" ("id" INTEGER NOT NULL PRIMARY KEY, "url" TEXT NOT NULL, '
        '"member_id" INTEGER NOT NULL, "member_name" TEXT NOT NULL, "device_id" INTEGER NOT NULL, '
        "\"last_push\" BLOB NOT NULL DEFAULT x'', \"in_flight\" BLOB NOT NULL DEFAULT x'', "
        '"clock_error_ms" INTEGER NOT NULL DEFAULT 0, "joined_at_ms" INTEGER NOT NULL, '
        '"synced_at_ms" INTEGER NOT NULL DEFAULT 0, "retry_at_ms" INTEGER NOT NULL DEFAULT 0, '
        '"failures" INTEGER NOT NULL DEFAULT 0, "last_error" TEXT NOT NULL DEFAULT \'\')',
        'CREATE UNIQUE INDEX "hub_server_url" ON "hub_server" ("url")',
        'CREATE TABLE "hub_space" ("id" INTEGER NOT NULL PRIMARY KEY, "server_id" INTEGER, '
        '"ns_id" INTEGER NOT NULL, "name" TEXT NOT NULL, "kind" TEXT NOT NULL, '
        "\"role\" TEXT NOT NULL DEFAULT 'reader', "
        '"is_sealed" INTEGER NOT NULL DEFAULT 1 CHECK (is_sealed IN (0, 1)), '
        '"cursor" INTEGER NOT NULL DEFAULT 0, "mark_seq" INTEGER NOT NULL DEFAULT 0, '
        '"mark" BLOB NOT NULL DEFAULT x\'\', "clock" INTEGER NOT NULL DEFAULT 0, '
        '"published" INTEGER NOT NULL DEFAULT 0, '
        '"is_muted" INTEGER NOT NULL DEFAULT 0 CHECK (is_muted IN (0, 1)), '
        "\"last_error\" TEXT NOT NULL DEFAULT '', "
        'FOREIGN KEY ("server_id") REFERENCES "hub_server" ("id") ON DELETE CASCADE, '
        "CHECK (kind IN ('private', 'team', 'pack')), CHECK (role IN ('reader', 'writer', 'keeper')))",
        'CREATE UNIQUE INDEX "hub_space_server_id_ns_id" ON "hub_space" ("server_id", "ns_id")',
        'CREATE TABLE "hub_memory" ("space_id" INTEGER NOT NULL, "author" INTEGER NOT NULL, '
        '"memory_id" BLOB NOT NULL, "episode_id" TEXT NOT NULL, "version" INTEGER NOT NULL DEFAULT 0, '
        '"pushed" INTEGER NOT NULL DEFAULT 0, "said" TEXT NOT NULL DEFAULT \'{}\', "own_text" TEXT, '
        '"is_forgotten" INTEGER NOT NULL DEFAULT 0 CHECK (is_forgotten IN (0, 1)), "waits_for" BLOB, '
        'PRIMARY KEY ("space_id", "author", "memory_id"), '
        'FOREIGN KEY ("space_id") REFERENCES "hub_space" ("id") ON DELETE CASCADE) WITHOUT ROWID',
        'CREATE INDEX "hub_memory_episode_id" ON "hub_memory" ("episode_id")',
        'CREATE INDEX "hub_memory_outgoing" ON "hub_memory" ("space_id") WHERE ("version" > "pushed")',
        'CREATE INDEX "hub_memory_waiting" ON "hub_memory" ("space_id", "waits_for") WHERE ("waits_for" IS NOT NULL)',
        'CREATE TABLE "hub_set_aside" ("space_id" INTEGER NOT NULL, "direction" TEXT NOT NULL, '
        '"author" INTEGER NOT NULL, "memory_id" BLOB NOT NULL, "seq" INTEGER NOT NULL DEFAULT 0, '
        '"reason" TEXT NOT NULL, "at_ms" INTEGER NOT NULL, PRIMARY KEY ("space_id", "direction", '
        '"author", "memory_id"), '
        'FOREIGN KEY ("space_id") REFERENCES "hub_space" ("id") ON DELETE CASCADE, '
        "CHECK (direction IN ('pull', 'push'))) WITHOUT ROWID",
    ):
        database.execute_sql(statement)


def add_teams(database: Any) -> None:
    """From 15 to 16: the members of teams, rules by which memories are shared, and how much was reported."""
    for statement in (
        'ALTER TABLE "hub_space" ADD COLUMN "reports" INTEGER NOT NULL DEFAULT 0',
        'CREATE TABLE "hub_member" ("server_id" INTEGER NOT NULL, "member_id" INTEGER NOT NULL, "name" TEXT NOT NULL, '
        '"is_muted" INTEGER NOT NULL DEFAULT 0 CHECK (is_muted IN (0, 1)), PRIMARY KEY ("server_id", "member_id"), '
        'FOREIGN KEY ("server_id") REFERENCES "hub_server" ("id") ON DELETE CASCADE) WITHOUT ROWID',
        'CREATE TABLE "hub_rule" ("space_id" INTEGER NOT NULL, "project_id" INTEGER NOT NULL, '
        '"delay_ms" INTEGER NOT NULL, "made_at_ms" INTEGER NOT NULL, PRIMARY KEY ("space_id", "project_id"), '
        'FOREIGN KEY ("space_id") REFERENCES "hub_space" ("id") ON DELETE CASCADE, '
        'FOREIGN KEY ("project_id") REFERENCES "project" ("id") ON DELETE CASCADE) WITHOUT ROWID',
    ):
        database.execute_sql(statement)


def add_questions(database: Any) -> None:
    """From 16 to 17: the questions that a memory answers."""
    database.execute_sql('ALTER TABLE "episode" ADD COLUMN "questions" TEXT NOT NULL DEFAULT \'[]\'')


def add_programs(database: Any) -> None:
    """From 17 to 18: texts and memories of programs that write in the user's place, and memories out of files."""
    _widen_check(database, "said", "role", "'user', 'assistant', 'chosen', 'proposed', 'program', 'context'")
    _widen_check(database, "episode", "voice", "'user', 'assistant', 'chosen', 'agent', 'imported', 'program'")


def index_pairs_of_letters(database: Any) -> None:
    """From 18 to 19: letters of scripts that do not separate words are in the text indexes in pairs.

    Only what has such letters is indexed anew, and the few notes.
    """
    execute = database.execute_sql
    has_letters = f"GLOB '*[{_RANGES_19}]*'"
    # A passage is also indexed with the ends of those beside it.
    beside = "SELECT {}(o.id) FROM passage o WHERE o.session_ref = p.session_ref AND o.id {} p.id"
    execute('CREATE TEMP TABLE "unspaced" ("id" INTEGER NOT NULL PRIMARY KEY)')
    execute(
        "INSERT OR IGNORE INTO unspaced SELECT p.id FROM passage p "
        f"WHERE p.said_id IN (SELECT id FROM said WHERE text {has_letters})"
    )
    for function, sign in (("min", ">"), ("max", "<")):
        execute(
            f"INSERT OR IGNORE INTO unspaced SELECT id FROM (SELECT ({beside.format(function, sign)}) AS id "
            "FROM passage p WHERE p.id IN (SELECT id FROM unspaced)) WHERE id IS NOT NULL"
        )
    execute(
        "INSERT INTO passage_fts(passage_fts, rowid, own, before, after) SELECT 'delete', id, own, before, after "
        "FROM passage_context WHERE id IN (SELECT id FROM unspaced)"
    )
    (beside_before,) = execute("SELECT sql FROM sqlite_master WHERE name = 'passage_context'").fetchone()
    execute('DROP VIEW "passage_context"')
    execute(beside_before.replace("CREATE VIEW passage_context", "CREATE VIEW passage_beside"))
    execute(
        f"CREATE VIEW passage_context AS SELECT id,\n        {_in_pairs_19('own')} AS own,\n        "
        f"{_in_pairs_19('before')} AS before,\n        {_in_pairs_19('after')} AS after\n        FROM passage_beside"
    )
    execute(
        "INSERT INTO passage_fts(rowid, own, before, after) SELECT id, own, before, after FROM passage_context "
        "WHERE id IN (SELECT id FROM unspaced)"
    )
    execute('DROP TABLE "unspaced"')
    execute('DROP TABLE "note_fts"')
    execute(
        f"CREATE VIEW note_words AS SELECT id, {_in_pairs_19('heading')} AS heading,\n"
        f"        {_in_pairs_19('text')} AS text FROM note_chunk"
    )
    execute(
        'CREATE VIRTUAL TABLE "note_fts" USING fts5 ("heading", "text", content=note_words, content_rowid=id, '
        "tokenize=\"porter unicode61 remove_diacritics 2 tokenchars '_'\")"
    )
    execute("INSERT INTO note_fts(note_fts) VALUES ('rebuild')")
    memories = execute("SELECT id, summary, content, entities || ' ' || questions FROM episode ORDER BY id").fetchall()
    letters = re.compile(f"[{_RANGES_19}]")
    for row_id, summary, content, names in memories:
        words = (summary, unpack_text(content), names)
        if not any(letters.search(text) for text in words):
            continue
        execute(
            "INSERT INTO episode_fts(episode_fts, rowid, summary, content, entities) VALUES ('delete', ?, ?, ?, ?)",
            (row_id, *words),
        )
        execute(
            f"INSERT INTO episode_fts(rowid, summary, content, entities) SELECT ?, {_in_pairs_19('summary')}, "
            f"{_in_pairs_19('content')}, {_in_pairs_19('names')} "
            "FROM (SELECT ? AS summary, ? AS content, ? AS names)",
            (row_id, *words),
        )


def add_titles(database: Any) -> None:
    """From 19 to 20: titles of memories and sessions."""
    for statement in (
        'ALTER TABLE "episode" ADD COLUMN "title" TEXT NOT NULL DEFAULT \'\'',
        'ALTER TABLE "session" ADD COLUMN "title" TEXT NOT NULL DEFAULT \'\'',
        'ALTER TABLE "session" ADD COLUMN "title_rank" INTEGER NOT NULL DEFAULT 0',
    ):
        database.execute_sql(statement)


#: The letters that version 19 indexes in pairs, and fewer ranges, with other letters between them.
_LETTERS_19 = (
    "\u0e01-\u0e3a\u0e40-\u0e4e\u0e50-\u0e59\u0e81-\u0eff\u1000-\u1049\u1050-\u109f\u1100-\u11ff\u1780-\u17d3\u17d7"
    "\u17dc-\u17e9\u3005-\u3007\u3041-\u309a\u309d-\u309f\u30a1-\u30fa\u30fc-\u30ff\u3105-\u312f\u3131-\u318e"
    "\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\ua960-\ua97f\uac00-\ud7fb\uf900-\ufaff\uff66-\uff9f"
    "\U00020000-\U0003ffff"
)
_RANGES_19 = "\u0e01-\u17ff\u3005-\ud7fb\uf900-\uff9f\U00020000-\U0003ffff"


def _in_pairs_19(text: str) -> str:
    is_letter = f"GLOB '[{_LETTERS_19}]'"
    return f"""CASE WHEN {text} GLOB '*[{_RANGES_19}]*' THEN (WITH RECURSIVE
        part(start, whole) AS (SELECT 1, {text}
            UNION ALL SELECT start + 64, whole FROM part WHERE start + 64 <= length(whole)),
        place(place) AS (SELECT 1 UNION ALL SELECT place + 1 FROM place WHERE place < 64)
        SELECT group_concat(CASE WHEN letter {is_letter} THEN ' ' || letter ||
            CASE WHEN behind {is_letter} THEN behind ELSE '' END || ' ' ELSE letter END, '')
        FROM (SELECT substr(part, place, 1) AS letter, substr(part, place + 1, 1) AS behind
            FROM (SELECT substr(whole, start, 65) AS part FROM part LIMIT -1) CROSS JOIN place)) ELSE {text} END"""


def _widen_check(database: Any, table: str, column: str, values: str) -> None:
    """Allow further values of a column.

    Only the text of the table's declaration changes, as SQLite's documentation of ``ALTER TABLE`` describes it for
    changes of constraints that concern no stored row; making a large table anew would take minutes.

    Raises:
        BrokenDatabase: the table has no such constraint.
    """
    (before,) = database.execute_sql("SELECT sql FROM sqlite_master WHERE name = ?", (table,)).fetchone()
    after, found = re.subn(rf"CHECK \({column} IN \([^)]*\)\)", f"CHECK ({column} IN ({values}))", before)
    if found != 1:
        raise BrokenDatabase(f"memory.db is damaged: its table {table} is not that of version 17")
    version = int(database.execute_sql("PRAGMA schema_version").fetchone()[0])
    database.execute_sql("PRAGMA writable_schema = 1")
    try:
        database.execute_sql("UPDATE sqlite_master SET sql = ? WHERE type = 'table' AND name = ?", (after, table))
        database.execute_sql(f"PRAGMA schema_version = {version + 1}")
    finally:
        database.execute_sql("PRAGMA writable_schema = RESET")


def _rebuild(database: Any, table: str, columns: str) -> None:
    """Make a table anew with the same columns and other constraints. Its indexes go; numbers go on where they stood.

    SQLite can't change a constraint in place. No other table refers to this one.
    """
    database.execute_sql(f'CREATE TABLE "new_{table}" ({columns})')
    database.execute_sql(f'INSERT INTO "new_{table}" SELECT * FROM "{table}"')
    database.execute_sql(
        "INSERT INTO sqlite_sequence (name, seq) SELECT ?, seq FROM sqlite_sequence WHERE name = ? "
        "AND NOT EXISTS (SELECT 1 FROM sqlite_sequence WHERE name = ?)",
        (f"new_{table}", table, f"new_{table}"),
    )
    database.execute_sql(
        "UPDATE sqlite_sequence SET seq = (SELECT seq FROM sqlite_sequence WHERE name = ?) WHERE name = ?",
        (table, f"new_{table}"),
    )
    database.execute_sql(f'DROP TABLE "{table}"')
    database.execute_sql(f'ALTER TABLE "new_{table}" RENAME TO "{table}"')


#: The steps in order: the first leads from version 5 to 6.
STEPS = (
    add_outcomes,
    add_branches,
    add_failed_calls,
    rename_expanded,
    add_pull_requests,
    add_standing_files,
    add_model_readings,
    add_undone_steps,
    add_browsing,
    add_hub,
    add_teams,
    add_questions,
    add_programs,
    index_pairs_of_letters,
    add_titles,
)
