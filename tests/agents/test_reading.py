"""What ingest promises holds for sources that are no append-only files: nothing lost, doubled, or brought back."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from engram.ingest import read_portion
from engram.ingest.read_sources import ingest_all, ingest_source, sources_of_session
from engram.models.engine.transaction import Store
from engram.models.open_memory import open_store
from engram.models.rescue.soundness import find_all_damage
from engram.models.search import fulltext
from engram.models.sessions.passage_rows import places_of
from engram.models.sessions.reading_progress import load_progress
from engram.models.sessions.sessions import find_session
from engram.models.sessions.stored_turns import StoredTurn, turns_of_session
from engram.models.sessions.turn_changes import delete_turn
from engram.models.work.work import pause, resume
from engram.redaction import redact
from engram.settings import Settings
from engram.system.clock import FixedClock
from engram.transcripts import registry
from engram.transcripts.agents import Source
from tests.agents.conftest import DatabaseSessions, DocumentSessions, Sessions
from tests.agents.database_agent import DatabaseAgent
from tests.forked import run_forked

REPO = Path(__file__).resolve().parents[2]


def read(store: Store, settings: Settings, **named: Any) -> None:
    for source in registry.discover(settings):
        ingest_source(store, source, settings=settings, redact=redact, **named)
    assert find_all_damage(store) == ""


def turns(store: Store, session_id: str) -> list[StoredTurn]:
    session = find_session(store, session_id)
    return [] if session is None else turns_of_session(store, session.id)


def texts(store: Store, session_id: str) -> list[list[str]]:
    return [[block.text for block in stored.turn.said] for stored in turns(store, session_id)]


def content(store: Store) -> list[Any]:
    """Everything that reading stores, apart from row ids and times of writing."""
    return [
        store.rows("SELECT key, opening, start_offset, end_offset, is_closed, message_count FROM turn ORDER BY key"),
        store.rows("SELECT t.key, s.seq, s.text FROM said s JOIN turn t ON t.id = s.turn_id ORDER BY 1, 2"),
        store.rows("SELECT e.key, t.key FROM entry e JOIN turn t ON t.id = e.turn_id ORDER BY 1"),
        store.rows("SELECT session_id, agent, message_count, last_at_ms, cwd FROM session ORDER BY 1"),
        store.rows("SELECT count(*) FROM passage"),
    ]


def talk(sessions: Sessions, session: str, prompts: int) -> None:
    for number in range(prompts):
        sessions.say(session, "user", f"Please weigh crate {number} of {session}.")
        sessions.say(session, "tool", f"weigh --crate {number}")
        sessions.say(session, "assistant", f"Crate {number} weighs {number * 7} kilograms.")


def test_a_session_becomes_turns_with_texts_calls_and_places(
    store: Store, settings: Settings, sessions: Sessions
) -> None:
    talk(sessions, "one", 2)

    read(store, settings)

    first, second = turns(store, sessions.id_of("one"))
    assert (first.turn.prompt, first.turn.reply) == ("Please weigh crate 0 of one.", "Crate 0 weighs 0 kilograms.")
    assert [action.command for action in second.turn.actions] == ["weigh --crate 1"]
    assert (first.turn.is_closed, second.turn.is_closed) == (True, False)
    session = find_session(store, sessions.id_of("one"))
    assert session is not None
    assert (session.agent, session.cwd, session.message_count) == (sessions.agent, "/work/harbour", 4)
    (place,) = places_of(store, [first.turn.said[1].uuid])
    (source,) = registry.discover(settings)
    assert (Path(place.path), place.part, place.line) == (source.path, source.part, 0)
    assert place.position == first.turn.said[1].offset > 0


def test_read_message_by_message_gives_the_same_as_at_once(
    store: Store, settings: Settings, sessions: Sessions, tmp_path: Path
) -> None:
    for number in range(3):
        for role, text in (("user", f"Prompt {number}"), ("tool", "make"), ("assistant", f"Reply {number}")):
            sessions.say("one", role, text)
            read(store, settings)
    with open_store(tmp_path / "at once" / "memory.db") as other:
        read(other, settings)

        assert content(store) == content(other)
    assert [stored.revision for stored in turns(store, sessions.id_of("one"))] == [3, 3, 3]


def test_reading_again_changes_nothing(store: Store, settings: Settings, sessions: Sessions) -> None:
    talk(sessions, "one", 3)
    read(store, settings)
    before, revisions = content(store), store.rows("SELECT key, revision FROM turn ORDER BY key")

    with store.transaction() as tx:
        tx.run("UPDATE transcript SET cursor = '', stamp = ''")
    read(store, settings)

    assert content(store) == before
    assert store.rows("SELECT key, revision FROM turn ORDER BY key") == revisions


def test_a_long_session_is_read_in_portions(
    store: Store, settings: Settings, database_sessions: DatabaseSessions
) -> None:
    talk(database_sessions, "one", 20)
    (source,) = registry.discover(settings)

    step = read_portion.Step(store, source, settings, redact, 700)
    first, has_more = step.keep(*step.read(), read_portion.IngestResult(source.path))
    assert (first.new_turns, has_more) == (3, True)
    assert load_progress(store, source.place).stamp == ""
    read(store, settings, max_bytes=700)

    assert len(turns(store, database_sessions.id_of("one"))) == 20
    assert load_progress(store, source.place).stamp == source.stamp


def test_several_sessions_of_one_file_are_sources_of_their_own(
    store: Store, settings: Settings, database_sessions: DatabaseSessions
) -> None:
    talk(database_sessions, "one", 1)
    talk(database_sessions, "two", 2)

    read(store, settings)

    assert [len(turns(store, database_sessions.id_of(name))) for name in ("one", "two")] == [1, 2]
    assert len({source.part for source in registry.discover(settings)}) == 2


def test_a_rewritten_file_replaces_the_turns_whose_words_changed(
    store: Store, settings: Settings, document_sessions: DocumentSessions
) -> None:
    talk(document_sessions, "one", 3)
    read(store, settings)
    session_id = document_sessions.id_of("one")
    messages = store.value("SELECT message_count FROM session")

    document_sessions.edit("one", "Crate 1 weighs 7 kilograms.", "Crate 1 weighs nine stone.")
    read(store, settings)

    assert [stored.revision for stored in turns(store, session_id)] == [1, 2, 1]
    assert texts(store, session_id)[1] == ["Please weigh crate 1 of one.", "Crate 1 weighs nine stone."]
    assert fulltext.search_passages(store, ["stone"], 5)
    assert store.value("SELECT count(*) FROM said WHERE text LIKE '%7 kilograms%'") == 0
    assert store.value("SELECT message_count FROM session") == messages
    assert store.find_damage() == ""


def test_a_turn_that_is_no_longer_in_the_file_stays(
    store: Store, settings: Settings, document_sessions: DocumentSessions
) -> None:
    talk(document_sessions, "one", 2)
    read(store, settings)
    before = texts(store, document_sessions.id_of("one"))

    path = document_sessions.path_of("one")
    path.unlink()
    document_sessions.say("one", "user", "Please weigh crate 0 of one.")
    read(store, settings)

    assert before[1] in texts(store, document_sessions.id_of("one"))


def test_a_copy_of_a_session_counts_once(store: Store, settings: Settings, document_sessions: DocumentSessions) -> None:
    talk(document_sessions, "one", 2)
    path = document_sessions.path_of("one")
    read(store, settings)

    path.with_name("copy.session.json").write_bytes(path.read_bytes())
    document_sessions.say("copy", "user", "And now the cranes.")
    read(store, settings)

    assert len(turns(store, document_sessions.id_of("one"))) == 2
    assert texts(store, document_sessions.id_of("copy")) == [["And now the cranes."]]


def test_a_file_that_was_moved_is_not_read_again(
    store: Store, settings: Settings, document_sessions: DocumentSessions
) -> None:
    talk(document_sessions, "one", 2)
    read(store, settings)
    old = next(registry.discover(settings))
    moved = Source(
        agent=old.agent, path=old.path.with_name("elsewhere.session.json"), session_id=old.session_id, stamp=old.stamp
    )
    old.path.rename(moved.path)

    result = ingest_source(store, moved, settings=settings, redact=redact)

    assert (result.skipped, result.has_read) == ("", False)
    assert store.value("SELECT count(*) FROM transcript") == 1


def test_a_forgotten_turn_does_not_come_back(store: Store, settings: Settings, sessions: Sessions) -> None:
    talk(sessions, "one", 3)
    read(store, settings)
    with store.transaction() as tx:
        delete_turn(tx, turns(store, sessions.id_of("one"))[1].id)

    with store.transaction() as tx:
        tx.run("UPDATE transcript SET cursor = '', stamp = ''")
    sessions.say("one", "assistant", "That was all.")
    read(store, settings)

    assert [said[0] for said in texts(store, sessions.id_of("one"))] == [
        "Please weigh crate 0 of one.",
        "Please weigh crate 2 of one.",
    ]


def test_what_was_said_in_a_pause_is_not_stored(store: Store, settings: Settings, sessions: Sessions) -> None:
    assert isinstance(store.clock, FixedClock)
    talk(sessions, "one", 1)
    read(store, settings)
    pause(store, "", store.now_ms() + 3_600_000)
    sessions.at_ms = store.now_ms()
    sessions.say("one", "user", "Said while nobody listens.")
    store.clock.advance(600)
    resume(store, "")
    sessions.at_ms = store.now_ms()
    sessions.say("one", "user", "Said afterwards.")

    read(store, settings)

    assert [said[0] for said in texts(store, sessions.id_of("one"))] == [
        "Please weigh crate 0 of one.",
        "Said afterwards.",
    ]


def test_secrets_are_redacted(store: Store, settings: Settings, sessions: Sessions) -> None:
    sessions.say("one", "user", "The key is sk-ant-api03-" + "Ab3" * 20)

    read(store, settings)

    assert "sk-ant" not in str(texts(store, sessions.id_of("one")))


def test_of_two_readers_of_the_same_content_one_wins(
    store: Store, settings: Settings, sessions: Sessions, monkeypatch: pytest.MonkeyPatch
) -> None:
    talk(sessions, "one", 3)
    write, others = read_portion.write_portion, [1]

    def slow_write(*arguments: Any) -> Any:
        if others:
            others.pop()
            read(store, settings)
        return write(*arguments)

    monkeypatch.setattr(read_portion, "write_portion", slow_write)
    read(store, settings)

    assert store.value("SELECT message_count FROM session") == 6
    assert [stored.revision for stored in turns(store, sessions.id_of("one"))] == [1, 1, 1]


@pytest.mark.parametrize("point", ["ingest.read", "ingest.begin", "ingest.turns", "ingest.cursor", "ingest.committed"])
def test_a_reader_that_is_killed_loses_and_doubles_nothing(
    settings: Settings, sessions: Sessions, tmp_path: Path, point: str
) -> None:
    talk(sessions, "one", 4)

    def read_in_portions() -> None:
        with open_store(settings.places.memory_db) as store:
            for source in registry.discover(settings):
                ingest_source(store, source, settings=settings, redact=redact, max_bytes=500)

    codes = []
    for crash in (f"{point}:1", f"{point}:2", ""):
        codes.append(run_forked(read_in_portions, crash))
        if crash:
            sessions.say("one", "assistant", f"One more at {crash}.")

    with open_store(settings.places.memory_db) as store, open_store(tmp_path / "clean" / "memory.db") as clean:
        read(clean, settings)
        assert codes[0] == -9
        assert codes[-1] == 0
        assert content(store) == content(clean)


def test_the_sources_of_a_session_are_found_before_and_after_it_was_read(
    store: Store, settings: Settings, sessions: Sessions
) -> None:
    talk(sessions, "one", 1)
    before = sources_of_session(store, sessions.id_of("one"), settings)
    read(store, settings)
    sessions.say("one", "assistant", "Done.")

    (source,) = sources_of_session(store, sessions.id_of("one"), settings)
    result = ingest_source(store, source, settings=settings, redact=redact, close=True)

    assert [source.place for source in before] == [source.place]
    assert (result.grown_turns, turns(store, sessions.id_of("one"))[0].turn.is_closed) == (1, True)


def test_a_session_id_of_another_agent_is_refused(
    store: Store, settings: Settings, document_sessions: DocumentSessions
) -> None:
    talk(document_sessions, "one", 1)
    read(store, settings)
    folder = settings.projects_folder / "-work"
    folder.mkdir(parents=True)
    path = folder / f"{document_sessions.id_of('one')}.jsonl"
    path.write_text('{"type": "user", "uuid": "u1", "cwd": "/work", "message": {"content": "hello"}}\n')

    results = ingest_all(store, settings=settings, redact=redact)

    assert "unreadable" in {result.skipped for result in results if result.path == path}
    assert len(turns(store, document_sessions.id_of("one"))) == 1


def test_an_agent_is_registered_once(database_sessions: DatabaseSessions) -> None:
    with pytest.raises(ValueError, match="already an agent"):
        registry.register(DatabaseAgent(database_sessions.folder))
