"""claude-mem's database and folders of Markdown notes come in; each test writes a small file of that format."""

from __future__ import annotations

import json
import os
import sqlite3
from pathlib import Path, PurePath

import pytest

from engram.enums import Importance, Kind, Scope, Source, Voice
from engram.errors import BadRequest, NotFound
from engram.exchange.importing import ImportReport, Outcome
from engram.exchange.other_programs import count_of, open_source, time_ms
from engram.models.engine.transaction import Store
from engram.models.memories.memory_history import history_of
from engram.models.memories.memory_records import Memory, all_memories
from engram.models.projects.projects import ensure_project
from engram.settings import Settings
from engram.system.clock import SYSTEM_CLOCK, iso_time
from tests.exchange.exports import import_into

#: 2025-12-08, noon, in milliseconds since 1970.
DECEMBER_MS = 1_765_195_200_000
#: 2099, in milliseconds since 1970.
LATER_MS = 4_070_952_000_000

#: The tables as its schema 35 has them, without what no import reads.
_CLAUDE_MEM = """
CREATE TABLE schema_versions (id INTEGER PRIMARY KEY, version INTEGER UNIQUE NOT NULL, applied_at TEXT NOT NULL);
CREATE TABLE sdk_sessions (id INTEGER PRIMARY KEY AUTOINCREMENT, content_session_id TEXT UNIQUE NOT NULL,
    memory_session_id TEXT UNIQUE, project TEXT NOT NULL, platform_source TEXT NOT NULL DEFAULT 'claude',
    started_at_epoch INTEGER NOT NULL);
CREATE TABLE observations (id INTEGER PRIMARY KEY AUTOINCREMENT, memory_session_id TEXT NOT NULL, project TEXT NOT NULL,
    text TEXT, type TEXT NOT NULL, title TEXT, subtitle TEXT, facts TEXT, narrative TEXT, concepts TEXT,
    files_read TEXT, files_modified TEXT, prompt_number INTEGER, content_hash TEXT, merged_into_project TEXT,
    created_at TEXT NOT NULL, created_at_epoch INTEGER NOT NULL);
CREATE TABLE session_summaries (id INTEGER PRIMARY KEY AUTOINCREMENT, memory_session_id TEXT NOT NULL,
    project TEXT NOT NULL, request TEXT, investigated TEXT, learned TEXT, completed TEXT, next_steps TEXT,
    notes TEXT, merged_into_project TEXT, created_at TEXT NOT NULL, created_at_epoch INTEGER NOT NULL);
CREATE TABLE user_prompts (id INTEGER PRIMARY KEY, content_session_id TEXT, prompt_text TEXT);
CREATE TABLE directives (id INTEGER PRIMARY KEY, scope TEXT NOT NULL DEFAULT 'global', project TEXT,
    content TEXT NOT NULL, status TEXT NOT NULL DEFAULT 'active', created_at TEXT NOT NULL,
    created_at_epoch INTEGER NOT NULL);
INSERT INTO sdk_sessions VALUES (1, 'c1a0de00-0000-4000-8000-000000000001', 'mem-1', 'harbor', 'claude', 1);
INSERT INTO observations VALUES (1, 'mem-1', 'harbor', NULL, 'bugfix', 'Tide table was off by an hour',
    'DST was ignored', '["tides.py reads UTC", "the gauge writes local time"]',
    'The reader took local times for UTC.', '["time zones"]',
    '["gauge.py"]', '["tides.py"]', 3, 'h1', NULL, '2025-12-08T12:00:00Z', 1765195200000);
INSERT INTO observations VALUES (2, 'mem-1', 'harbor', NULL, 'decision', 'Use SQLite for the log', NULL, NULL, NULL,
    NULL, NULL, NULL, 4, 'h2', 'port', '2025-12-08T13:00:00Z', 1765198800000);
INSERT INTO observations VALUES (3, 'gone', 'harbor', NULL, 'discovery', NULL, NULL, '[]', '', NULL, NULL, NULL, 5,
    'h3', NULL, '2025-12-08', 0);
INSERT INTO session_summaries VALUES (1, 'mem-1', 'harbor', 'Fix the tide table', 'tides.py', 'Gauges write local time',
    'The tide table is right again', 'Deploy', NULL, NULL, '2025-12-08T14:00:00Z', 1765202400000);
INSERT INTO user_prompts VALUES (1, 'c1a0de00-0000-4000-8000-000000000001', 'fix it');
INSERT INTO directives VALUES (1, 'global', NULL, 'Write commit messages in English', 'active', '2025-12-01',
    1764590400000);
INSERT INTO directives VALUES (2, 'global', NULL, 'An old rule', 'archived', '2025-12-01', 1764590400000);
"""


def bring(
    store: Store, settings: Settings, path: Path | None, wanted: str | None = None, *, is_global: bool = False
) -> ImportReport:
    with open_source(path, wanted, settings, has_project=False, is_global=is_global) as source:
        return import_into(store, settings, source, is_global=is_global)


def by_summary(store: Store) -> dict[str, Memory]:
    return {memory.summary: memory for memory in all_memories(store)}


def test_claude_mem_comes_in_with_kinds_dates_projects_and_sessions(store: Store, settings: Settings) -> None:
    path = Path.home() / ".claude-mem" / "claude-mem.db"
    path.parent.mkdir(parents=True)
    with sqlite3.connect(path) as connection:
        connection.executescript(_CLAUDE_MEM)
    connection.close()
    before = path.read_bytes()

    report = bring(store, settings, None, "claude-mem", is_global=True)
    again = bring(store, settings, path)

    found = by_summary(store)
    fix = found["Tide table was off by an hour"]
    assert (fix.kind, fix.project, fix.created_at_ms) == (Kind.FIX, "harbor", DECEMBER_MS)
    assert fix.session_id == "c1a0de00-0000-4000-8000-000000000001"
    assert fix.facts == ("tides.py reads UTC", "the gauge writes local time")
    assert set(fix.entities) == {"time zones", "tides.py", "gauge.py"}
    assert "took local times for UTC" in fix.content
    assert (found["Use SQLite for the log"].kind, found["Use SQLite for the log"].project) == (Kind.DECISION, "port")
    assert "Next steps: Deploy" in found["The tide table is right again"].content
    rule = found["Write commit messages in English"]
    assert (rule.kind, rule.scope, rule.voice, rule.source) == (
        Kind.PREFERENCE,
        Scope.GLOBAL,
        Voice.IMPORTED,
        Source.MANUAL,
    )
    assert (rule.importance, rule.extractor) == (Importance.HIGH, "claude-mem")
    assert report.counts == {Outcome.ADDED: 4, Outcome.BAD: 1}
    assert report.remarks == ("Left out, because the transcripts contain them: 1 prompt that claude-mem logged",)
    assert again.counts == {Outcome.KNOWN: 4, Outcome.BAD: 1}
    assert path.read_bytes() == before


def test_what_claude_mem_kept_of_a_worktree_comes_to_the_repository(
    store: Store, settings: Settings, tmp_path: Path
) -> None:
    """It names a worktree "repository/worktree"; only a repository that is known is taken for one."""
    path = tmp_path / "claude-mem.db"
    with sqlite3.connect(path) as connection:
        connection.executescript(_CLAUDE_MEM)
        for number, (name, title) in enumerate(
            [
                ("harbor/tide-fix", "A worktree"),
                ("harbor/harbor", "A worktree with the repository's name"),
                ("docks/east", "A folder that is known by both names"),
                ("acme/crane", "A name that somebody chose"),
                ("acme/buoy", "Another name that somebody chose"),
                ("harbor/east/pier", "No name of a worktree"),
            ],
            start=10,
        ):
            connection.execute(
                "INSERT INTO observations (id, memory_session_id, project, type, title, created_at, created_at_epoch)"
                " VALUES (?, 'gone', ?, 'discovery', ?, '', ?)",
                (number, name, title, DECEMBER_MS),
            )
    connection.close()
    with store.transaction() as tx:
        for root in ("/src/harbor", "/src/docks", "/src/docks/east"):
            ensure_project(tx, root, PurePath(root).name, root)

    bring(store, settings, path)

    found = {summary: memory.project for summary, memory in by_summary(store).items()}
    assert found["A worktree"] == "harbor"
    assert found["A worktree with the repository's name"] == "harbor"
    assert found["A folder that is known by both names"] == "east"
    assert (found["A name that somebody chose"], found["Another name that somebody chose"]) == ("crane", "buoy")
    assert found["No name of a worktree"] == "pier"


def test_nothing_of_others_is_newer_than_its_arrival(store: Store, settings: Settings, tmp_path: Path) -> None:
    """Or it would be the newest, and win against what is said later, until its time comes."""
    database = tmp_path / "claude-mem.db"
    with sqlite3.connect(database) as connection:
        connection.executescript(_CLAUDE_MEM)
        connection.execute("UPDATE observations SET created_at_epoch = ? WHERE id = 1", (LATER_MS,))
    connection.close()
    notes = tmp_path / "vault"
    notes.mkdir()
    (notes / "log.md").write_text(f"---\ndate: {iso_time(LATER_MS)}\n---\nBuoys are red.\n")
    earlier = tmp_path / "other.jsonl"
    earlier.write_text(
        json.dumps(
            {
                "id": "ep_0123456789ab",
                "kind": "fact",
                "project": "harbor",
                "session": "",
                "summary": "Cranes are rented.",
                "content": "Cranes are rented.",
                "importance": "high",
                "created_at_ms": LATER_MS,
                "valid_from_ms": LATER_MS,
                "accessed_at_ms": LATER_MS,
                "evidence": [],
            }
        )
        + "\n"
    )

    begun_ms = SYSTEM_CLOCK.now_ms()
    bring(store, settings, database)
    bring(store, settings, notes, is_global=True)
    with open_source(earlier, None, settings, has_project=False, is_global=False) as source:
        import_into(store, settings, source, is_mine=False)

    found = by_summary(store)
    for summary in ("Tide table was off by an hour", "log: Buoys are red.", "Cranes are rented."):
        assert begun_ms <= found[summary].created_at_ms <= SYSTEM_CLOCK.now_ms()
        assert max(found[summary].holds_from_ms, found[summary].accessed_at_ms or 0) <= SYSTEM_CLOCK.now_ms()
    assert found["Use SQLite for the log"].created_at_ms < begun_ms


def test_an_older_claude_mem_database_is_read_too(store: Store, settings: Settings, tmp_path: Path) -> None:
    path = tmp_path / "claude-mem.db"
    with sqlite3.connect(path) as connection:
        connection.executescript(
            "CREATE TABLE sdk_sessions (id INTEGER PRIMARY KEY, claude_session_id TEXT, sdk_session_id TEXT);"
            "INSERT INTO sdk_sessions VALUES (1, 'c-1', 'sdk-1');"
            "CREATE TABLE observations (id INTEGER PRIMARY KEY, sdk_session_id TEXT, project TEXT, text TEXT,"
            " type TEXT, created_at TEXT, created_at_epoch INTEGER);"
            "INSERT INTO observations VALUES (1, 'sdk-1', 'harbor', 'Ropes are nylon.', 'discovery', '', 1765195200);"
        )
    connection.close()

    bring(store, settings, path)

    memory = by_summary(store)["Ropes are nylon."]
    assert (memory.session_id, memory.created_at_ms, memory.kind) == ("c-1", DECEMBER_MS, Kind.FACT)


def test_notes_become_a_memory_a_section_with_the_date_that_they_tell(
    store: Store, settings: Settings, tmp_path: Path
) -> None:
    folder = tmp_path / "vault"
    (folder / ".obsidian").mkdir(parents=True)
    (folder / ".obsidian" / "hidden.md").write_text("hidden")
    (folder / "2025-12-08 log.md").write_text(
        "# Log\n\n## Ropes\n\n- Nylon from Ann's shop\n\n## Crane\n\nIt is rented.\n"
    )
    (folder / "tides.md").write_text(
        "---\nname: tides\ndescription: How tides are read\ndate: 2025-12-08T12:00:00Z\n---\nFrom the gauge.\r\n"
    )
    (folder / "empty.md").write_text("\n")
    undated = folder / "undated.md"
    undated.write_text("Buoys are red.")
    os.utime(undated, (DECEMBER_MS / 1000, DECEMBER_MS / 1000))
    (folder / "link.md").symlink_to(undated)

    report = bring(store, settings, folder, is_global=True)

    found = by_summary(store)
    assert set(found) == {
        "Ropes: Nylon from Ann's shop",
        "Crane: It is rented.",
        "How tides are read",
        "undated: Buoys are red.",
    }
    assert {kept.created_at_ms for kept in found.values()} == {DECEMBER_MS}
    assert found["Crane: It is rented."].content == "Log › Crane\n\nIt is rented."
    assert {(memory.scope, memory.source, memory.extractor) for memory in found.values()} == {
        (Scope.GLOBAL, Source.MANUAL, "notes")
    }
    assert report.counts == {Outcome.ADDED: 4, Outcome.BAD: 1}
    undated.write_text("Buoys are red.\n\n# New\n\nAnd green.")
    assert bring(store, settings, folder, is_global=True).counts[Outcome.ADDED] == 1


def test_notes_need_a_project_or_everywhere(store: Store, settings: Settings, tmp_path: Path) -> None:
    from engram.exchange.importing import PlaceFinder, import_memories

    note = tmp_path / "note.md"
    note.write_text("Buoys are red.")
    with pytest.raises(BadRequest, match="--project NAME"):
        bring(store, settings, note)
    with store.transaction() as tx:
        harbor = ensure_project(tx, "/gone/harbor", "harbor", "/gone/harbor")

    with open_source(note, None, settings, has_project=True, is_global=False) as source:
        import_memories(store, source, str, PlaceFinder(store, settings, into=harbor))

    assert [(memory.project, memory.scope) for memory in all_memories(store)] == [("harbor", Scope.PROJECT)]


def test_what_cannot_be_imported_is_said(store: Store, settings: Settings, tmp_path: Path) -> None:
    foreign = tmp_path / "other.db"
    with sqlite3.connect(foreign) as connection:
        connection.execute("CREATE TABLE anything (id)")
    connection.close()
    for path, wanted, words in (
        (foreign, None, "not a database of claude-mem"),
        (foreign, "earlier", "not a database of claude-mem"),
        (tmp_path, "markdown", "not a Markdown export"),
        (None, None, "specify the file"),
    ):
        with pytest.raises(BadRequest, match=words):
            bring(store, settings, path, wanted)
    for path, wanted in ((tmp_path / "gone", None), (None, "claude-mem"), (None, "earlier")):
        with pytest.raises(NotFound):
            bring(store, settings, path, wanted)


def test_numbers_beyond_all_times_and_counts_are_left_out() -> None:
    assert [time_ms(value) for value in (1e306, "1e306", float("inf"), "nan", -1e306)] == [None] * 5
    assert [count_of(value) for value in (1e300, float("inf"), float("nan"), -1, 3.0)] == [0, 0, 0, 0, 3]


def test_transcripts_are_not_taken_for_notes_but_the_command_that_reads_them_is_named(
    settings: Settings, tmp_path: Path
) -> None:
    config = tmp_path / ".claude"
    folder = config / "projects" / "-home-dev-harbor"
    (folder / "memory").mkdir(parents=True)
    session = folder / "8f14e45f-ceea-467f-a0e6-b9d3f0c0a1b2.jsonl"
    session.write_text('{"type": "user"}\n')
    # Claude Code's folders also have Markdown files.
    (config / "CLAUDE.md").write_text("# Rules\n\n- Use pnpm.\n")
    (folder / "memory" / "MEMORY.md").write_text("# Memory\n\n- Use pnpm.\n")

    for path in (config, config / "projects", folder, session):
        with (
            pytest.raises(BadRequest, match=f"type: engram up --once {path}$"),
            open_source(path, None, settings, has_project=False, is_global=False),
        ):
            pass


@pytest.mark.parametrize(
    ("text", "content", "line"),
    [
        ("---\nWe use uv.\n---\nTests run with pytest.\n", "---\nWe use uv.\n---\nTests run with pytest.", 1),
        ("---\n- uv: for packages\n---\nMore.\n", "---\n- uv: for packages\n---\nMore.", 1),
        ("---\ntitle: Tools\ntags:\n  - uv\n# a remark\n\n---\nWe use uv.\n", "We use uv.", 8),
        ("---\ntitle:\n---\nWe use uv.\n", "We use uv.", 4),
        ("---\ndate created: 2024-01-05\nlast edit: today\ntags: [\n  uv\n]\n---\nWe use uv.\n", "We use uv.", 8),
        ("---\n# Tools\nFirst: uv.\n---\nMore.\n", "Tools\n\nFirst: uv.\n---\nMore.", 3),
    ],
)
def test_only_fields_at_the_beginning_of_a_note_are_left_out(
    store: Store, settings: Settings, tmp_path: Path, text: str, content: str, line: int
) -> None:
    note = tmp_path / "tools.md"
    note.write_text(text)

    bring(store, settings, note, is_global=True)

    (memory,) = all_memories(store)
    (step,) = history_of(store, memory.episode_id)
    assert (memory.content, step.reason) == (content, f"from the note tools.md, line {line}")


def test_no_word_of_a_long_title_is_lost(store: Store, settings: Settings, tmp_path: Path) -> None:
    title = "The tide table was off " + "by an hour " * 50 + "and nobody saw it"
    path = tmp_path / "claude-mem.db"
    with sqlite3.connect(path) as connection:
        connection.executescript(_CLAUDE_MEM)
        connection.execute("UPDATE observations SET title = ? WHERE id = 1", (title,))
    connection.close()

    bring(store, settings, path)

    (memory,) = (memory for memory in all_memories(store) if memory.summary.startswith("The tide table was off by an"))
    assert memory.summary.endswith("…")
    assert title in memory.content
