"""A memory of the second version opens as one of the third, with everything that was in it."""

from __future__ import annotations

import json
import uuid
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from engram.models.database import open_database
from engram.models.entries import claimed_entries
from engram.models.episodes import find_episode
from engram.models.fulltext import search_episodes, search_passages
from engram.models.migrations import MIGRATIONS, migrate
from engram.models.store import open_store
from engram.models.turns import load_turn, places_of
from engram.models.vectors import count_missing_vectors, load_vectors

PROMPT, REPLY, RESULT = (str(uuid.UUID(int=n)) for n in (1, 2, 3))
CONTENT = "We keep the ledger in one file because a second writer lost entries. " * 20


@pytest.fixture(params=["sqlite3", "cysqlite"])
def driver(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def path(tmp_path: Path, driver: str) -> Path:
    """A memory of version 2 with a session, a turn, an episode and vectors."""
    path = tmp_path / "memory.db"
    database = open_database(path, driver)
    migrate(database, MIGRATIONS[:2])
    fill(database)
    database.close()
    return path


def fill(database: Any) -> None:
    def run(sql: str, *values: Any) -> None:
        database.execute_sql(sql, values)

    vector = np.linspace(-1, 1, 8, dtype=np.float16).tobytes()
    actions = [{"tool_use_id": "t1", "tool": "Bash", "uuid": REPLY, "command": "make", "is_error": False,
                "result_uuid": RESULT}]  # fmt: skip
    run("INSERT INTO project VALUES (1, 'p', 'identity', 'demo', '', '', 1, 0)")
    run(
        "INSERT INTO session (id, session_id, agent, project_id, first_at_ms, last_at_ms) VALUES (1, 's', 'claude-code', 1, 0, 0)"
    )
    run("INSERT INTO transcript (id, path, session_ref) VALUES (1, ?, 1)", b"/somewhere/s.jsonl")
    run(
        "INSERT INTO turn (id, stable_id, key, session_ref, project_id, transcript_id, opening, agent, cwd, branch, "
        "start_offset, end_offset, is_closed, is_interrupted, message_count, actions, extra, updated_at_ms) "
        "VALUES (1, 'x', ?, 1, 1, 1, 'prompt', 'claude-code', '', '', 0, 300, 1, 0, 1, ?, '{}', 0)",
        PROMPT, json.dumps(actions),
    )  # fmt: skip
    for place, one in enumerate((RESULT, PROMPT, REPLY)):
        offset, line = ((200, 3), (0, 1), (100, 2))[place]
        run("INSERT INTO entry VALUES (?, 1, ?, 99, ?)", uuid.UUID(one).bytes, offset, line)
    words = ("Where does the ledger live? " * 6, "In one file beside the marzipan shelf.")
    for seq, (one, role, text) in enumerate(zip((PROMPT, REPLY), ("user", "assistant"), words, strict=True)):
        run("INSERT INTO said VALUES (?, 1, ?, ?, ?, ?, '', ?, 99, ?, 0)", seq + 1, seq, uuid.UUID(one).bytes, role, text,
            seq * 100, seq + 1)  # fmt: skip
        run("INSERT INTO passage VALUES (?, ?, 1, 1, 1, ?, 0, ?)", seq + 1, seq + 1, role, len(text))
        run("INSERT INTO vector (owner, owner_id, model, data) VALUES ('p', ?, 'test', ?)", seq + 1, vector)
    run("INSERT INTO passage_fts(passage_fts) VALUES ('rebuild')")
    run(
        "INSERT INTO episode (id, episode_id, kind, session_ref, project_id, scope, summary, content, importance, source, "
        "status, confidence, extractor, created_at_ms, kept_at_ms, stable_id, updated_at_ms) VALUES (1, 'ep_0123456789ab', "
        "'decision', 1, 1, 'project', 'One ledger', ?, 'high', 'auto', 'active', 0.9, 'local', 1, 1, 'y', 1)",
        CONTENT,
    )
    run("INSERT INTO episode_fts(episode_fts) VALUES ('rebuild')")
    run("INSERT INTO vector (owner, owner_id, model, data) VALUES ('e', 1, 'test', ?)", vector)


def test_turns_keep_their_entries_and_the_facts_of_their_calls(path: Path, driver: str) -> None:
    store = open_store(path, driver=driver)

    stored = load_turn(store, PROMPT)

    assert stored is not None
    assert [(entry.uuid, entry.offset, entry.line) for entry in stored.turn.entries] == [
        (PROMPT, 0, 1), (REPLY, 100, 2), (RESULT, 200, 3),
    ]  # fmt: skip
    assert [(a.uuid, a.result_uuid, a.command) for a in stored.turn.actions] == [(REPLY, RESULT, "make")]
    assert claimed_entries(store, [PROMPT, REPLY, RESULT, str(uuid.UUID(int=9))]) == {PROMPT, REPLY, RESULT}
    assert [(place.path, place.line) for place in places_of(store, [REPLY])] == [("/somewhere/s.jsonl", 2)]


def test_episodes_are_found_by_their_words_and_read_as_before(path: Path, driver: str) -> None:
    store = open_store(path, driver=driver)

    episode = find_episode(store, "ep_0123456789ab")

    assert episode is not None
    assert episode.content == CONTENT
    assert [row for row, _ in search_episodes(store, ["writer"], 5)] == [1]
    assert store.find_damage() == ""


def test_vectors_keep_their_model_and_their_order(path: Path, driver: str) -> None:
    store = open_store(path, driver=driver)

    assert [row[0] for row in load_vectors(store, "p", "test")] == [1, 2]
    assert (count_missing_vectors(store, "test"), count_missing_vectors(store, "other")) == (0, 3)
    assert store.value("SELECT max(seq) FROM vector") == 3


def test_a_passage_is_found_by_what_stands_next_to_it_but_not_by_what_stands_far_off(path: Path, driver: str) -> None:
    store = open_store(path, driver=driver)

    assert [row for row, _ in search_passages(store, ["marzipan"], 5)] == [2, 1]
    assert store.value("SELECT length(before) FROM passage_context WHERE id = 2") == 120
