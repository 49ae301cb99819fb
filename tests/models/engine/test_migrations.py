"""A file is made as the newest version, brought on by numbered steps, and refused where it cannot be."""

from __future__ import annotations

import hashlib
import json
import sqlite3
import textwrap
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import peewee
import pytest

from engram.errors import BrokenDatabase, NewerSchema, OlderSchema
from engram.models.engine.database import open_database
from engram.models.engine.migrations import FIRST_VERSION, MIGRATIONS, migrate, newest_version
from engram.models.engine.transaction import Store
from engram.models.open_memory import open_store
from tests.models.version_4 import read_rows, read_schema

#: SHA-256 of what each version's tables, indexes and views are declared as. A version that was released never changes:
#: a new column needs a numbered step in ``engram.models.engine.migrations`` and a line here.
DIGESTS = {20: "c6b034dfe7aa8c08"}
#: The same of version 5, the earliest of those that were never released whose tables are declared as today.
DIGEST_5 = "7a355ec18468f2a8"
#: Version 5's own declaration of what later versions declare otherwise.
INJECTION_5 = (
    'CREATE TABLE "injection" ("id" INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT, "session_id" TEXT NOT NULL, '
    '"prompt_key" TEXT NOT NULL, "channel" TEXT NOT NULL, "episode_id" TEXT NOT NULL, "score" REAL NOT NULL, '
    '"tokens" INTEGER NOT NULL, "state" TEXT NOT NULL, "is_cleared" INTEGER NOT NULL DEFAULT 0 '
    'CHECK (is_cleared IN (0, 1)), "at_ms" INTEGER NOT NULL, "expanded_at_ms" INTEGER, '
    "CHECK (channel IN ('prompt', 'tool', 'start')), CHECK (state IN ('pending', 'shown')))",
    'CREATE INDEX "injection_session_id_id" ON "injection" ("session_id", "id")',
    'CREATE INDEX "injection_episode_id" ON "injection" ("episode_id")',
)
MEMORY_FTS_5 = (
    'CREATE VIRTUAL TABLE "episode_fts" USING fts5 ("summary", "content", "entities", content=\'\', '
    "tokenize=\"porter unicode61 remove_diacritics 2 tokenchars '_'\")"
)
#: Takes back from a new file what came after the first release.
TAKEN_BACK: tuple[str, ...] = ()
#: Gives a memory the tables of version 18: no titles, and passages and notes indexed with each run of letters as one.
TABLES_18 = (
    "DROP VIEW note_words",
    "DROP VIEW passage_context",
    "DROP VIEW passage_beside",
    """CREATE VIEW passage_context AS SELECT p.id AS id,
        substr(s.text, p.start + 1, p.stop - p.start) AS own,
        coalesce((SELECT substr(t.text, -120) FROM passage_text t WHERE t.id =
            (SELECT b.id FROM passage b WHERE b.session_ref = p.session_ref AND b.id < p.id
             ORDER BY b.id DESC LIMIT 1)), '') AS before,
        coalesce((SELECT substr(t.text, 1, 120) FROM passage_text t WHERE t.id =
            (SELECT a.id FROM passage a WHERE a.session_ref = p.session_ref AND a.id > p.id
             ORDER BY a.id LIMIT 1)), '') AS after
        FROM passage p JOIN said s ON s.id = p.said_id""",
    "DROP TABLE note_fts",
    'CREATE VIRTUAL TABLE "note_fts" USING fts5 ("heading", "text", content=note_chunk, content_rowid=id, '
    "tokenize=\"porter unicode61 remove_diacritics 2 tokenchars '_'\")",
    "INSERT INTO passage_fts(passage_fts) VALUES ('rebuild')",
    "INSERT INTO note_fts(note_fts) VALUES ('rebuild')",
    "ALTER TABLE episode DROP COLUMN title",
    "ALTER TABLE session DROP COLUMN title",
    "ALTER TABLE session DROP COLUMN title_rank",
)


def add_column(database: Any) -> None:
    database.execute_sql("ALTER TABLE project ADD COLUMN colour TEXT NOT NULL DEFAULT 'green'")


def add_table(database: Any) -> None:
    database.execute_sql("CREATE TABLE boat (name TEXT PRIMARY KEY)")


def fail(database: Any) -> None:
    add_table(database)
    raise peewee.OperationalError("disk I/O error")


@pytest.fixture(params=["sqlite3", "cysqlite"])
def driver(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def path(tmp_path: Path, driver: str) -> Path:
    path = tmp_path / "memory.db"
    open_store(path, driver=driver).close()
    return path


@pytest.fixture
def fifth(path: Path) -> Path:
    """A memory.db of version 5 with a row in a table that later versions declare otherwise."""
    connection = sqlite3.connect(path)
    for statement in (
        *TAKEN_BACK,
        *TABLES_18,
        "PRAGMA writable_schema = 1",
        "UPDATE sqlite_master SET sql = replace(replace(sql, ', ''program'', ''context''', ''), "
        "', ''imported'', ''program''', '')",
        "PRAGMA writable_schema = RESET",
        "ALTER TABLE episode DROP COLUMN questions",
        "DROP TABLE hub_rule",
        "DROP TABLE hub_member",
        "DROP TABLE hub_set_aside",
        "DROP TABLE hub_memory",
        "DROP TABLE hub_space",
        "DROP TABLE hub_server",
        "DROP INDEX vector_further",
        "DROP INDEX episode_suspect",
        "DROP INDEX episode_sorts",
        "DROP TABLE episode_fts",
        MEMORY_FTS_5,
        "ALTER TABLE history DROP COLUMN undoes",
        "DROP INDEX episode_created_at_ms_id",
        "DROP TABLE model_reading",
        "DROP TABLE standing_file",
        "DROP TABLE pull_request",
        "DROP TABLE failed_call",
        "DROP TABLE branch",
        "DROP TABLE outcome_candidate",
        "DROP TABLE outcome",
        "DROP TABLE injection",
        *INJECTION_5,
        "INSERT INTO injection (id, session_id, prompt_key, channel, episode_id, score, tokens, state, at_ms) "
        "VALUES (41, 's1', 'p1', 'prompt', 'ep_1', 0.5, 9, 'shown', 7)",
        "DELETE FROM injection WHERE id = 42",
        "UPDATE sqlite_sequence SET seq = 42 WHERE name = 'injection'",
        "PRAGMA user_version = 5",
        "UPDATE meta SET value = '5' WHERE key = 'schema_version'",
    ):
        connection.execute(statement)
    connection.commit()
    connection.close()
    return path


@pytest.fixture
def released(path: Path) -> Path:
    """A memory.db of the first release."""
    connection = sqlite3.connect(path)
    for statement in (
        *TAKEN_BACK,
        f"PRAGMA user_version = {FIRST_VERSION}",
        f"UPDATE meta SET value = '{FIRST_VERSION}' WHERE key = 'schema_version'",
    ):
        connection.execute(statement)
    connection.commit()
    connection.close()
    return path


def is_of_index(_type: str, name: str, *_: str) -> bool:
    """True for a table of the text index, which SQLite makes itself."""
    return "_fts_" in name


def digest_of(path: Path) -> str:
    declared = json.dumps([row for row in read_schema(path) if not is_of_index(*row)])
    return hashlib.sha256(declared.encode()).hexdigest()[:16]


def version_of(path: Path) -> tuple[int, str]:
    connection = sqlite3.connect(path)
    try:
        (header,) = connection.execute("PRAGMA user_version").fetchone()
        (recorded,) = connection.execute("SELECT value FROM meta WHERE key = 'schema_version'").fetchone()
    finally:
        connection.close()
    return header, recorded


def test_a_new_file_has_the_newest_version_at_once(path: Path) -> None:
    assert version_of(path) == (newest_version(), str(newest_version()))


def test_a_changed_table_has_its_own_version(path: Path) -> None:
    assert DIGESTS.get(newest_version()) == digest_of(path)


def test_a_file_of_the_first_release_becomes_what_a_new_file_is(released: Path, tmp_path: Path, driver: str) -> None:
    assert digest_of(released) == DIGESTS[FIRST_VERSION]
    open_store(tmp_path / "new.db", driver=driver).close()

    open_store(released, driver=driver).close()

    assert read_schema(released) == read_schema(tmp_path / "new.db")
    assert version_of(released) == (newest_version(), str(newest_version()))


def test_a_file_of_an_unreleased_version_becomes_what_a_new_file_is(fifth: Path, tmp_path: Path, driver: str) -> None:
    assert digest_of(fifth) == DIGEST_5
    open_store(tmp_path / "new.db", driver=driver).close()

    database = open_database(fifth, driver)
    assert migrate(database)
    database.close()

    assert read_schema(fifth) == read_schema(tmp_path / "new.db")
    assert version_of(fifth) == (newest_version(), str(newest_version()))


def test_what_was_shown_before_outcomes_were_kept_stays_and_numbers_go_on(fifth: Path, driver: str) -> None:
    before = read_rows(fifth, "injection")
    before[0]["used_at_ms"] = before[0].pop("expanded_at_ms")

    database = open_database(fifth, driver)
    migrate(database)
    database.execute_sql(
        "INSERT INTO injection (session_id, prompt_key, channel, episode_id, score, tokens, state, at_ms) "
        "VALUES ('s1', 'p1', 'error', 'ep_1', 0.5, 9, 'shown', 7)"
    )
    database.close()

    kept, added = read_rows(fifth, "injection")
    assert [kept] == before
    assert (added["id"], added["channel"]) == (43, "error")


def test_what_was_noted_as_expanded_is_a_use(fifth: Path, driver: str) -> None:
    connection = sqlite3.connect(fifth)
    connection.execute("UPDATE injection SET expanded_at_ms = 2000")
    connection.commit()
    connection.close()

    open_store(fifth, driver=driver).close()

    assert [row["used_at_ms"] for row in read_rows(fifth, "injection")] == [2000]


def example_of_contributing() -> Callable[[Any], None]:
    """The step that CONTRIBUTING shows under "Add a migration"."""
    page = (Path(__file__).parents[3] / "CONTRIBUTING.md").read_text(encoding="utf-8")
    example = page.partition("### Add a migration\n")[2].partition("```python\n")[2].partition("```")[0]
    defined: dict[str, Any] = {"Any": Any}
    exec(textwrap.dedent(example), defined)
    return cast(Callable[[Any], None], defined["_add_mood"])


def test_the_example_of_contributing_adds_a_column_with_its_check(path: Path, driver: str) -> None:
    database = open_database(path, driver)
    database.execute_sql("INSERT INTO project (stable_id, identity, name, updated_at_ms) VALUES ('a', '/a', 'a', 0)")

    assert migrate(database, (*MIGRATIONS, example_of_contributing()))

    (declared,) = database.execute_sql("SELECT sql FROM sqlite_master WHERE name = 'episode'").fetchone()
    assert declared.endswith(", CHECK (mood IN ('calm', 'cross')))")
    assert ", \"mood\" TEXT NOT NULL DEFAULT 'calm', " in declared
    assert database.execute_sql("PRAGMA integrity_check").fetchone()[0] == "ok"
    insert = (
        "INSERT INTO episode (episode_id, kind, scope, summary, content, importance, source, status, confidence, "
        "extractor, created_at_ms, kept_at_ms, stable_id, updated_at_ms, mood) "
        "VALUES (?, 'fact', 'global', 's', 'c', 'normal', 'auto', 'active', 1, 'x', 1, 1, ?, 1, ?)"
    )
    database.execute_sql(insert, ("ep_1", "1", "cross"))
    with pytest.raises(peewee.IntegrityError):
        database.execute_sql(insert, ("ep_2", "2", "glad"))
    database.close()


def test_numbered_steps_go_on_from_the_newest_version(path: Path, driver: str) -> None:
    newest = newest_version()
    database = open_database(path, driver)

    assert migrate(database, (*MIGRATIONS, add_column))
    assert migrate(database, (*MIGRATIONS, add_column, add_table))
    assert not migrate(database, (*MIGRATIONS, add_column, add_table))

    assert version_of(path) == (newest + 2, str(newest + 2))
    assert {"boat"} <= {name for _, name, *_ in read_schema(path)}
    database.close()


def test_a_step_that_fails_leaves_the_version_before(path: Path, driver: str) -> None:
    database = open_database(path, driver)
    before, version = read_schema(path), version_of(path)

    with pytest.raises(peewee.OperationalError):
        migrate(database, (*MIGRATIONS, fail))

    assert version_of(path) == version
    assert read_schema(path) == before
    database.close()


def test_of_threads_that_race_one_makes_the_step(path: Path, driver: str) -> None:
    ready = threading.Barrier(4)
    done: list[bool] = []

    def bring_on() -> None:
        database = open_database(path, driver)
        ready.wait()
        done.append(migrate(database, (*MIGRATIONS, add_column, add_table)))
        database.close()

    threads = [threading.Thread(target=bring_on) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert sum(done) == 1
    assert version_of(path) == (newest_version() + 2, str(newest_version() + 2))


def test_an_older_version_is_left_alone_where_it_may_not_be_upgraded(fifth: Path, driver: str) -> None:
    before = read_schema(fifth)

    with pytest.raises(OlderSchema, match="engram install") as refused:
        Store(fifth, driver=driver, may_upgrade=False).open()

    assert refused.value.version == 5
    assert read_schema(fifth) == before


def test_a_newer_version_is_refused(path: Path, driver: str) -> None:
    database = open_database(path, driver)
    migrate(database, (*MIGRATIONS, add_column))

    with pytest.raises(NewerSchema):
        migrate(database)
    database.close()


@pytest.mark.parametrize("version", [0, 4, newest_version() + 1])
def test_a_header_that_contradicts_the_tables_is_damage(path: Path, driver: str, version: int) -> None:
    connection = sqlite3.connect(path)
    connection.execute(f"PRAGMA user_version = {version}")
    connection.commit()
    connection.close()

    with pytest.raises(BrokenDatabase, match="its header gives version"):
        Store(path, driver=driver).open()
