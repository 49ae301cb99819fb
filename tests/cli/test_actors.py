"""Every command and task that changes a memory: its history names who did, by the real path."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import Result

from engram.cli.main import engram
from engram.enums import Actor
from engram.memories.correct import correct_memory
from engram.models import tables
from engram.models.engine.transaction import Store
from engram.paths import Home
from engram.tasks.queue import huey, import_tasks

Run = Callable[..., Result]
RunJson = Callable[..., Any]
Steps = set[tuple[str, str]]

#: Commands that change memories, each with a test below.
CHANGING = {
    "up",
    "save",
    "edit",
    "correct",
    "pin",
    "feedback",
    "undo",
    "forget",
    "review",
    "consolidate",
    "purge",
    "import",
    "restore",
    "projects",
    "hub",
    "sync",
    "team",
    "pack",
}
#: Commands that change none. ``install`` and ``service run`` run what ``up --once`` runs; changes on the page that
#: ``ui`` opens are tested with the page, and what ``compare`` keeps in ``test_compare_command.py``.
READING = {
    "install",
    "uninstall",
    "setup",
    "ui",
    "propose",
    "why",
    "fix",
    "blame",
    "where",
    "recall",
    "search",
    "how",
    "expand",
    "timeline",
    "status",
    "report",
    "compare",
    "doctor",
    "sessions",
    "tasks",
    "logs",
    "cost",
    "pause",
    "export",
    "service",
    "config",
    "share",
    "unshare",
    "completion",
}


def last_step(store: Store) -> int:
    return int(store.value("SELECT coalesce(max(id), 0) FROM history"))


def steps_since(store: Store, history_id: int) -> Steps:
    """``(action, actor)`` of every step since then."""
    history = tables.History
    return {(row.action, row.actor) for row in store.fetch(history.select().where(history.id > history_id))}


def steps_of(store: Store, episode_id: str) -> list[tuple[str, str]]:
    history = tables.History
    rows = store.fetch(history.select().where(history.episode_id == episode_id).order_by(history.id))
    return [(row.action, row.actor) for row in rows]


def test_every_command_is_known_to_change_memories_or_not() -> None:
    assert set(engram.list_commands(click.Context(engram))) == CHANGING | READING


def test_every_task_is_known_to_change_memories_or_not() -> None:
    changing = {"extract", "consolidate", "ingest", "sync"}
    reading = {"embed", "flush", "index_notes", "recollect", "refresh", "scan"}

    import_tasks()

    assert set(huey._registry._registry) == changing | reading


def test_extraction_is_the_models_and_joining_is_tidying(filled: Store) -> None:
    steps = steps_since(filled, 0)

    assert ("extract", Actor.MODEL) in steps
    assert {actor for action, actor in steps if action == "extract"} == {Actor.MODEL}
    assert {actor for action, actor in steps if action != "extract"} <= {Actor.MODEL, Actor.TIDYING}


def test_what_a_person_does_to_one_memory_is_the_users(filled: Store, run: Run, run_json: RunJson) -> None:
    made = run_json("save", "--global", "Use spaces.")["id"]
    run("edit", made, "--summary", "Use tabs.")
    run("pin", made)
    run("pin", made, "--off")
    run("feedback", made, "wrong")
    run("feedback", made, "--off")
    run("feedback", made, "helpful")
    corrected = run_json("correct", made, "Use tabs of four.", "--why", "more precise")["id"]
    newer = run_json("save", "--global", "--supersedes", corrected, "Use tabs of two.")["id"]
    for _ in range(2):
        run("undo", newer)

    user = str(Actor.USER)
    assert steps_of(filled, made) == [
        ("save", user),
        ("edit", user),
        ("pin", user),
        ("unpin", user),
        ("bad", user),
        ("take back", user),
        ("helpful", user),
        ("supersede", user),
    ]
    undone = [("undo", user), ("redo", user)]
    assert steps_of(filled, corrected) == [("correct", user), ("supersede", user), *undone]
    assert steps_of(filled, newer) == [("save", user), *undone]


@pytest.mark.parametrize("decision", ["keep", "both"])
def test_a_decision_is_the_users(filled: Store, run: Run, run_json: RunJson, decision: str) -> None:
    old = run_json("save", "--global", "Deploy on Tuesdays.")["id"]
    new = correct_memory(filled, old, "Deploy on Mondays.", "a guess", lambda text: text, actor=Actor.AGENT).made
    before = last_step(filled)

    run("review", decision, new.episode_id)

    expected = {("confirm", str(Actor.USER)), ("supersede" if decision == "keep" else "decide", str(Actor.USER))}
    assert steps_since(filled, before) == expected


def test_a_consolidation_is_tidying_and_its_undo_is_the_users(filled: Store, run: Run, run_json: RunJson) -> None:
    for end in ".!":
        run("save", "--global", f"The gangway is two metres long{end}")
    before = last_step(filled)

    done = run_json("consolidate")["run"]

    tidied = steps_since(filled, before)
    assert {actor for _, actor in tidied} == {Actor.TIDYING}
    assert "archive" in {action for action, _ in tidied}
    before = last_step(filled)
    run("consolidate", "--undo", str(done))
    assert steps_since(filled, before) == {("undo", str(Actor.USER))}


@pytest.mark.parametrize("command", ["forget", "purge"])
def test_what_comes_back_since_its_successor_was_deleted_is_the_users(
    filled: Store, run: Run, run_json: RunJson, command: str
) -> None:
    old = run_json("save", "--global", "Deploy on Friday.")["id"]
    new = run_json("save", "--global", "--supersedes", old, "Never deploy on Friday.")["id"]
    if command == "purge":
        newest = run_json("save", "--global", "--supersedes", new, "Deploy daily.")["id"]
        run("purge", new, "--yes")
        assert steps_of(filled, old)[-1] == ("release", str(Actor.USER))
        assert filled.value("SELECT superseded_by FROM episode WHERE episode_id = ?", (old,)) == newest
    else:
        run("forget", new, "--yes")
        assert steps_of(filled, old)[-1] == ("restore", str(Actor.USER))
        assert new not in json.dumps(run_json("expand", old))


def test_what_stays_of_a_forgotten_project_was_cut_by_the_user(filled: Store, run: Run) -> None:
    name = str(filled.value("SELECT name FROM project ORDER BY id LIMIT 1"))
    chosen = str(
        filled.value(
            "SELECT e.episode_id FROM episode e JOIN project p ON p.id = e.project_id WHERE p.name = ? ORDER BY e.id",
            (name,),
        )
    )
    run("edit", chosen, "--scope", "global")

    run("projects", "forget", name, "--yes")

    assert steps_of(filled, chosen) == [("erase", str(Actor.USER))] * len(steps_of(filled, chosen))
    assert filled.value("SELECT content FROM episode WHERE episode_id = ?", (chosen,)) == ""


def test_merging_projects_moves_their_memories_for_the_user(filled: Store, run: Run, run_json: RunJson) -> None:
    first, second = (str(value) for (value,) in filled.rows("SELECT name FROM project ORDER BY id LIMIT 2"))
    moving = filled.rows(
        "SELECT e.episode_id, e.revision FROM episode e JOIN project p ON p.id = e.project_id WHERE p.name = ?",
        (first,),
    )
    before = last_step(filled)

    run("projects", "merge", first, second, "--yes")

    assert moving
    assert steps_since(filled, before) == {("move", str(Actor.USER))}
    for episode_id, revision in moving:
        step = run_json("expand", episode_id)["history"][-1]
        assert (step["action"], step["actor"]) == ("move", "user")
        assert step["before"]["project_id"] != step["after"]["project_id"]
        now = filled.value("SELECT revision FROM episode WHERE episode_id = ?", (episode_id,))
        assert now == revision + 1  # what was read before the move is not written over it


@pytest.mark.parametrize("more", [["--mine"], []])
def test_an_import_is_the_users(
    filled: Store, run: Run, run_json: RunJson, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, more: list[str]
) -> None:
    file = tmp_path / "memories.jsonl"
    run("export", "--output", str(file))
    exported = [json.loads(line) for line in file.read_text().splitlines()]
    monkeypatch.setenv("ENGRAM_HOME", str(tmp_path / "other"))

    run("import", str(file), *more)
    run("export", "--output", str(tmp_path / "again.jsonl"))

    imported = [json.loads(line) for line in (tmp_path / "again.jsonl").read_text().splitlines()]
    assert [line["summary"] for line in imported] == [line["summary"] for line in exported]
    episode_id = imported[0]["id"]
    # An id is a claim, too.
    assert (episode_id == exported[0]["id"]) is bool(more)
    history = run_json("expand", episode_id)["history"]
    # What somebody else's file says of its past is not this user's.
    before = [("extract", "rules")] if more else []
    assert [(change["action"], change["actor"]) for change in history] == [*before, ("import", "user")]


def test_what_a_restore_carries_over_is_the_users(filled: Store, run: Run, run_json: RunJson, home: Home) -> None:
    from engram.models.rescue.backup import make_backup

    backup = make_backup(filled, home.backups).path
    made = run_json("save", "--global", "Kept since the backup.")["id"]
    filled.close()

    run("restore", str(backup), "--yes")

    assert [(change["action"], change["actor"]) for change in run_json("expand", made)["history"]] == [
        ("save", "user"),
        ("recover", "user"),
    ]


def test_a_folder_that_becomes_known_moves_memories_by_tidying(filled: Store) -> None:
    from engram.models.sessions.sessions import ensure_session

    session_id, project_id = filled.rows(
        "SELECT s.session_id, s.project_id FROM session s JOIN episode e ON e.session_ref = s.id "
        "WHERE s.project_id IS NOT NULL LIMIT 1"
    )[0]
    with filled.transaction() as tx:
        tx.run("UPDATE session SET project_id = NULL, is_global = 0, cwd = '' WHERE session_id = ?", (session_id,))
        tx.run(
            "UPDATE episode SET project_id = NULL WHERE session_ref = (SELECT id FROM session WHERE session_id = ?)",
            (session_id,),
        )
    before = last_step(filled)

    with filled.transaction() as tx:
        ensure_session(
            tx, session_id, agent="claude-code", project_id=project_id, is_global=False, cwd="/work", at_ms=1
        )

    assert steps_since(filled, before) == {("move", str(Actor.TIDYING))}


def test_expand_shows_who(filled: Store, run: Run, run_json: RunJson) -> None:
    made = run_json("save", "--global", "Use spaces.")["id"]
    run("pin", made)

    shown = run("expand", made, "--why").stdout

    assert [line[18:].split(" · ")[:2] for line in shown.splitlines() if " · by " in line] == [
        ["saved", "by user"],
        ["pinned", "by user"],
    ]
    assert [change["actor"] for change in run_json("expand", made)["history"]] == ["user", "user"]
