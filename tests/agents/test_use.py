"""Sessions of another agent are read by the commands and the watcher, searched, remembered, explained and forgotten."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from processes import read_until

from engram.cli.main import engram
from engram.models.engine.transaction import Store
from engram.models.open_memory import open_store
from engram.models.sessions.sessions import find_session
from engram.paths import Home, default_home
from engram.settings import Settings
from engram.tasks.queue import huey
from engram.watcher.watch import Watcher
from tests.agents.conftest import DatabaseSessions, DocumentSessions, Sessions

PREFERENCE = "From now on always weigh the crates on the northern scale, the southern one is broken."


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    """Runs ``engram … --json`` in this process; returns what it prints."""
    monkeypatch.setenv("ENGRAM_EMBEDDING_MODEL", "hashed")
    (tmp_path / "claude" / "projects").mkdir(parents=True)

    def invoke(*arguments: str, as_json: bool = True) -> Any:
        result = CliRunner().invoke(engram, [*arguments, *["--json"] * as_json])
        assert result.exit_code == 0, (result.output, result.exception)
        return json.loads(result.stdout) if as_json else result.stdout

    return invoke


def talk(sessions: Sessions) -> None:
    sessions.say("one", "user", PREFERENCE)
    sessions.say("one", "assistant", "Understood: the northern scale it is, for every crate.")
    sessions.say("one", "user", "How heavy is the walrus crate?")
    sessions.say("one", "assistant", "The walrus crate weighs 410 kilograms.")


def test_ingest_reads_all_agents_and_names_them(run: Callable[..., Any], sessions: Sessions) -> None:
    talk(sessions)

    report = run("up", "--once", "--no-memories")
    again = run("up", "--once", "--no-memories")

    assert (report["files"], report["new_turns"], report["skipped"]) == (1, 2, {})
    assert (again["files"], again["new_turns"]) == (1, 0)
    assert run("status")["agents"] == {sessions.agent: 1}
    assert sessions.title in run("status", as_json=False)
    (session,) = run("sessions")["sessions"]
    assert (session["id"], session["agent"]) == (sessions.id_of("one"), sessions.agent)
    assert sessions.title in run("sessions", as_json=False)
    assert run("sessions", sessions.id_of("one"))["agent"] == sessions.agent
    assert run("status")["unread"] == {"files": 0, "bytes": 0}


def test_ingest_reads_a_folder_and_a_file_that_are_named(run: Callable[..., Any], sessions: Sessions) -> None:
    path = sessions.say("one", "user", "How heavy is the walrus crate?")

    assert run("up", "--once", "--no-memories", str(sessions.folder))["new_turns"] == 1
    sessions.say("one", "user", "And the seal crate?")
    assert run("up", "--once", "--no-memories", str(path))["new_turns"] == 1


def test_turns_are_found_with_the_place_they_come_from(run: Callable[..., Any], sessions: Sessions) -> None:
    talk(sessions)
    run("up", "--once", "--no-memories")

    hit = run("search", "walrus crate")["hits"][0]

    assert "walrus" in hit["text"]
    (place,) = [place for place in hit["evidence"] if place["uuid"]][:1]
    assert place["session"] == sessions.id_of("one")
    assert Path(place["path"]).parent == sessions.folder
    assert place["line"] is None
    assert place["position"] > 0
    assert bool(place["part"]) == isinstance(sessions, DatabaseSessions)
    assert f"at {place['position']}" in run("search", "walrus crate", "-v", as_json=False)


def memory_of(run: Callable[..., Any]) -> dict[str, Any]:
    run("up", "--once")
    memories: list[dict[str, Any]] = run("recall", "which scale for the crates")["hits"]
    return next(memory for memory in memories if "northern scale" in memory["text"])


def test_memories_are_made_and_explained(run: Callable[..., Any], sessions: Sessions) -> None:
    talk(sessions)

    memory = memory_of(run)
    facts = run("expand", memory["id"], "--why")

    assert facts["session"] == sessions.id_of("one")
    assert {place["session"] for place in facts["evidence"]} == {sessions.id_of("one")}
    assert all(Path(place["path"]).parent == sessions.folder and place["line"] is None for place in facts["evidence"])
    assert str(sessions.folder) in run("expand", memory["id"], "--why", as_json=False)


def test_a_forgotten_memory_stays_forgotten(run: Callable[..., Any], sessions: Sessions) -> None:
    talk(sessions)
    memory = memory_of(run)

    run("forget", memory["id"], "--also-source", "--yes")
    sessions.say("one", "assistant", "Anything else?")
    with open_store(Home(default_home()).memory_db) as store, store.transaction() as tx:
        tx.run("UPDATE transcript SET cursor = '', stamp = ''")
    run("up", "--once")

    with open_store(Home(default_home()).memory_db) as store:
        assert store.value("SELECT count(*) FROM said WHERE text LIKE '%northern scale, the%'") == 0
        assert store.value("SELECT count(*) FROM said WHERE text LIKE '%410 kilograms%'") == 1
    assert all(memory["id"] != hit["id"] for hit in run("recall", "which scale for the crates")["hits"])


def test_a_memory_follows_the_words_of_a_rewritten_file(
    run: Callable[..., Any], document_sessions: DocumentSessions
) -> None:
    talk(document_sessions)
    old = memory_of(run)

    document_sessions.edit("one", "northern scale", "eastern scale")
    run("up", "--once")

    hits = run("recall", "which scale for the crates")["hits"]
    # The log of the day keeps what was asked then.
    current = [hit["text"] for hit in hits if hit["status"] == "active" and hit["kind"] != "note"]
    assert any("eastern scale" in text for text in current)
    assert not any("northern scale" in text for text in current)
    assert run("expand", old["id"])["status"] == "archived"


def test_an_exported_memory_keeps_its_agent(
    run: Callable[..., Any], sessions: Sessions, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    talk(sessions)
    memory_of(run)
    run("export", "--output", str(tmp_path / "memories.jsonl"), as_json=False)

    monkeypatch.setenv("ENGRAM_HOME", str(tmp_path / "other home"))
    run("import", "--mine", str(tmp_path / "memories.jsonl"))

    with open_store(Home(default_home()).memory_db) as store:
        session = find_session(store, sessions.id_of("one"))
        assert session is not None
        assert session.agent == sessions.agent


# -- the watcher


@pytest.fixture
def watcher(store: Store, settings: Settings, sessions: Sessions) -> Iterator[Watcher]:
    """A watcher that is stepped by hand."""
    huey.bind(settings.places)
    made = Watcher(settings, store)
    yield made
    made.close()
    huey.storage.close()


def count_turns(store: Store) -> int:
    return int(store.value("SELECT count(*) FROM turn"))


def test_a_sweep_finds_what_is_new_and_nothing_else(watcher: Watcher, store: Store, sessions: Sessions) -> None:
    talk(sessions)

    assert watcher.sweep() == 1
    watcher.step()
    assert (watcher.sweep(), count_turns(store)) == (0, 2)

    sessions.say("one", "user", "And the seal crate?")
    sessions.say("two", "user", "Where is the crane?")
    assert watcher.sweep() == 2
    watcher.step()
    assert (watcher.sweep(), count_turns(store)) == (0, 4)


def test_a_hint_reads_only_the_sessions_that_changed(watcher: Watcher, store: Store, sessions: Sessions) -> None:
    talk(sessions)
    sessions.say("two", "user", "Where is the crane?")
    watcher.sweep()
    watcher.step()

    watcher.hint(sessions.say("two", "assistant", "In the harbour."))
    results = watcher.step()

    assert [(result.session_id, result.grown_turns) for result in results] == [(sessions.id_of("two"), 1)]


def test_an_event_of_the_file_system_is_enough(watcher: Watcher, store: Store, sessions: Sessions) -> None:
    watcher.events.keep_up()
    talk(sessions)

    read_until(watcher, lambda: count_turns(store) >= 2)

    assert count_turns(store) == 2


def test_a_source_that_is_gone_keeps_its_turns(watcher: Watcher, store: Store, sessions: Sessions) -> None:
    path = sessions.say("one", "user", "Where is the crane?")
    watcher.sweep()
    watcher.step()

    path.unlink()
    watcher.sweep()

    assert store.value("SELECT is_gone FROM transcript") == 1
    assert count_turns(store) == 1
