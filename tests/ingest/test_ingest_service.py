"""A transcript is stored once, however often, by however many and in whichever pieces it is read."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from growing_transcript import Content, Ingest, MakeTranscript, Transcript, Turns
from planting import plant

from engram.errors import TranscriptError
from engram.ingest.read_sources import ingest_all
from engram.models.engine.transaction import Store
from engram.models.projects.projects import project_by_id
from engram.models.sessions.sessions import find_session
from engram.models.sessions.turn_changes import delete_turn
from engram.models.shown import injections
from engram.models.shown.injections import Injection
from engram.models.work.work import find_work, pause, resume
from engram.redaction import redact
from engram.settings import Settings
from engram.transcripts.claude_code import agent as claude_code
from engram.transcripts.turns import Opening


def test_what_was_said_and_done_is_stored(transcript: Transcript, ingest: Ingest, turns: Turns, store: Store) -> None:
    prompt = transcript.user("fix the parser")
    transcript.calls("Edit", "ok", file_path="/gone/engine/a.py")
    transcript.says("Fixed.")

    result = ingest(transcript)
    (stored,) = turns()

    assert (stored.turn.key, stored.turn.prompt, stored.turn.reply) == (prompt, "fix the parser", "Fixed.")
    assert (stored.turn.files, stored.turn.cwd, stored.turn.is_closed) == (
        ("/gone/engine/a.py",),
        "/gone/engine",
        False,
    )
    assert (result.new_turns, result.entries, result.messages) == (1, 4, 2)
    assert result.calls == ("/gone/engine/a.py",)
    session = find_session(store, "s1")
    assert session is not None
    assert session.project_id is not None
    project = project_by_id(store, session.project_id)
    assert project is not None
    assert (project.identity, project.name) == ("/gone/engine", "engine")


def test_reading_again_adds_nothing(transcript: Transcript, ingest: Ingest, content: Content) -> None:
    transcript.user("go")
    transcript.says("done")
    ingest(transcript)
    before = content()

    again = ingest(transcript)

    assert (again.bytes_read, again.new_turns, again.grown_turns) == (0, 0, 0)
    assert content() == before


def test_line_by_line_gives_the_same_as_at_once(
    make_transcript: MakeTranscript, ingest: Ingest, content: Content, store: Store
) -> None:
    def write(transcript: Transcript, after_each: Callable[[], Any]) -> None:
        for step in (
            lambda: transcript.add({"type": "system"}),
            lambda: transcript.user("go"),
            lambda: transcript.calls("Bash", "Exit code 1\nerror: x", is_error=True, command="make"),
            lambda: transcript.queue("enqueue", "and the tests"),
            lambda: transcript.queue("enqueue", "third"),
            lambda: transcript.queue("remove"),
            lambda: transcript.says("Doing the tests."),
            lambda: transcript.queue("dequeue"),
            lambda: transcript.user("third"),
            lambda: transcript.says("Done."),
        ):
            step()
            after_each()

    transcript = make_transcript("s1")
    write(transcript, lambda: ingest(transcript))
    grown = content()
    for table in ("passage", "said", "entry", "turn", "bad_line", "work"):
        plant(store, f"DELETE FROM {table}")
    plant(store, "UPDATE transcript SET cursor = '', cursor_words = ''")
    plant(store, "UPDATE session SET message_count = 0")
    plant(store, "INSERT INTO passage_fts(passage_fts) VALUES ('rebuild')")
    ingest(transcript)

    assert content() == grown
    assert store.find_damage() == ""


def test_growth_raises_the_revision_and_closing_alone_does_not(
    transcript: Transcript, ingest: Ingest, turns: Turns
) -> None:
    transcript.user("go")
    ingest(transcript)
    transcript.says("done")
    ingest(transcript)
    grown = turns()[0].revision
    ingest(transcript, close=True)
    closed = turns()[0]
    transcript.user("next")
    ingest(transcript)

    assert (grown, closed.revision, turns()[0].revision) == (2, 2, 2)
    assert closed.turn.is_closed


def test_many_chunks_are_many_transactions_with_the_same_result(
    transcript: Transcript, ingest: Ingest, turns: Turns
) -> None:
    transcript.user("go")
    for number in range(30):
        transcript.says(f"step {number}")

    result = ingest(transcript, max_bytes=500)
    (stored,) = turns()

    assert result.entries == len(stored.turn.entries) == 31
    assert stored.turn.reply.split("\n\n") == [f"step {number}" for number in range(30)]


def test_a_rewritten_file_is_a_new_generation_without_doubles(
    transcript: Transcript, ingest: Ingest, turns: Turns, store: Store
) -> None:
    transcript.user("one")
    transcript.says("a")
    ingest(transcript)
    lines = transcript.path.read_text().splitlines(keepends=True)
    transcript.path.write_text('{"type":"summary"}\n' + "".join(lines))
    transcript.says("b")
    transcript.user("two")

    ingest(transcript)

    assert [(t.turn.prompt, t.turn.reply) for t in turns()] == [("one", "a\n\nb"), ("two", "")]
    assert store.value("SELECT generation FROM transcript") == 1


def test_a_truncated_file_keeps_what_was_stored(transcript: Transcript, ingest: Ingest, turns: Turns) -> None:
    transcript.user("one")
    transcript.says("a long reply that is cut off later")
    ingest(transcript)
    transcript.path.write_text("")
    ingest(transcript)
    transcript.user("two")
    ingest(transcript)

    assert [t.turn.prompt for t in turns()] == ["one", "two"]


def test_a_vanished_file_keeps_everything(transcript: Transcript, ingest: Ingest, turns: Turns, store: Store) -> None:
    transcript.user("one")
    ingest(transcript)
    transcript.path.unlink()

    result = ingest(transcript)

    assert result.skipped == "gone"
    assert len(turns()) == 1
    assert store.value("SELECT is_gone FROM transcript") == 1


def test_a_moved_file_is_read_on_where_it_stood_before(
    transcript: Transcript, ingest: Ingest, turns: Turns, store: Store
) -> None:
    transcript.user("one")
    ingest(transcript)
    moved = transcript.path.parent.parent / "-elsewhere" / transcript.path.name
    moved.parent.mkdir()
    transcript.path = transcript.path.rename(moved)
    reply = transcript.says("a")

    result = ingest(transcript)
    (stored,) = turns()

    assert (stored.turn.reply, result.entries, stored.path) == ("a", 1, moved)
    assert store.value("SELECT count(*) FROM transcript") == 1
    assert stored.turn.entries[-1].uuid == reply


def test_a_copy_beside_its_original_adds_nothing(transcript: Transcript, ingest: Ingest, turns: Turns) -> None:
    transcript.user("one")
    ingest(transcript)
    copy = transcript.path.parent.parent / "-elsewhere" / transcript.path.name
    copy.parent.mkdir()
    copy.write_bytes(transcript.path.read_bytes())

    assert ingest(copy).new_turns == 0
    assert turns()[0].path == transcript.path


def test_a_relative_path_names_the_same_transcript(
    transcript: Transcript, ingest: Ingest, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    transcript.user("one")
    ingest(transcript)
    monkeypatch.chdir(transcript.path.parent)

    ingest(Path(transcript.path.name))

    assert store.value("SELECT count(*) FROM transcript") == 1


def test_bad_lines_are_counted_and_kept_by_their_place(
    transcript: Transcript, ingest: Ingest, turns: Turns, store: Store
) -> None:
    transcript.user("one")
    transcript.text("garbage\n" + "[" * 200_000 + "\n")
    transcript.user("two")
    ingest(transcript)

    result = ingest(transcript)
    rows = store.rows("SELECT length, reason FROM bad_line ORDER BY offset")

    assert rows == [(7, "not JSON"), (200_000, "nested too deeply")]
    assert result.bad_lines == 0
    assert len(turns()) == 2


def test_a_line_above_the_limit_is_counted_and_later_lines_are_read(
    transcript: Transcript, ingest: Ingest, turns: Turns, store: Store, settings: Settings
) -> None:
    transcript.user("one")
    transcript.user("x" * 50_000)
    transcript.user("two")

    result = ingest(transcript, settings=replace(settings, line_limit_bytes=20_000), max_bytes=1000)

    assert [t.turn.prompt for t in turns()] == ["one", "two"]
    assert (result.bad_lines, store.value("SELECT reason FROM bad_line")) == (1, "too long")


def test_a_forgotten_turn_stays_forgotten_when_its_file_is_read_from_the_beginning(
    transcript: Transcript, ingest: Ingest, turns: Turns, store: Store
) -> None:
    transcript.user("remember this")
    transcript.user("forget this")
    transcript.queue("enqueue", "forget this too")
    ingest(transcript)
    with store.transaction() as tx:
        for stored in turns()[1:]:
            delete_turn(tx, stored.id)
    plant(store, "UPDATE transcript SET cursor = '', cursor_words = ''")

    ingest(transcript)

    assert [t.turn.prompt for t in turns()] == ["remember this"]


def test_copies_of_a_session_count_once(make_transcript: MakeTranscript, ingest: Ingest, turns: Turns) -> None:
    parent, fork = make_transcript("parent"), make_transcript("fork")
    parent.user("go", uuid="u1")
    parent.says("step", uuid="u2")
    fork.text(parent.path.read_text())
    fork.says("another way", uuid="u3")

    ingest(parent)
    ingest(fork)

    assert [(t.turn.opening, t.turn.session_id) for t in turns()] == [
        (Opening.PROMPT, "parent"),
        (Opening.CONTINUATION, "fork"),
    ]


# -- what may not be read


@pytest.mark.parametrize("is_known", [True, False])
def test_excluded_folders_are_not_stored(
    transcript: Transcript, ingest: Ingest, turns: Turns, settings: Settings, store: Store, is_known: bool
) -> None:
    transcript.user("open")
    if is_known:
        ingest(transcript)
    transcript.user("secret")

    result = ingest(transcript, settings=replace(settings, exclude=("/gone/*",)))

    assert result.skipped == "excluded"
    assert len(turns()) == int(is_known)
    assert store.value("SELECT count(*) FROM said WHERE text = 'secret'") == 0


def test_a_session_that_moves_into_an_excluded_folder_leaves_no_trace_of_it(
    transcript: Transcript, ingest: Ingest, turns: Turns, settings: Settings
) -> None:
    settings = replace(settings, exclude=("/private",))
    transcript.user("open")
    transcript.user("secret", cwd="/private/x")
    transcript.says("secret reply", cwd="/private/x")
    ingest(transcript, settings=settings)
    transcript.says("more secrets", cwd="/private/x")
    transcript.user("open again")
    ingest(transcript, settings=settings)

    assert [t.turn.prompt for t in turns()] == ["open", "open again"]


@pytest.mark.parametrize("scope", ["", "/gone/engine"])
@pytest.mark.parametrize("is_known", [True, False])
def test_while_paused_nothing_is_read(
    transcript: Transcript, ingest: Ingest, turns: Turns, store: Store, clock: Any, scope: str, is_known: bool
) -> None:
    transcript.user("before")
    if is_known:
        ingest(transcript)
    pause(store, scope, clock.now_ms() + 60_000)
    transcript.user("meanwhile")
    skipped = ingest(transcript).skipped
    stored = len(turns())
    resume(store, scope)

    assert (skipped, stored) == ("paused", int(is_known))
    assert ingest(transcript).skipped == ""


def test_with_capture_off_nothing_is_read(
    transcript: Transcript, ingest: Ingest, turns: Turns, settings: Settings
) -> None:
    transcript.user("go")

    assert ingest(transcript, settings=replace(settings, capture=False)).skipped == "off"
    assert turns() == []


def test_links_pipes_and_other_names_are_not_transcripts(tmp_path: Path, ingest: Ingest) -> None:
    os.mkfifo(tmp_path / "pipe.jsonl")
    (tmp_path / "link.jsonl").symlink_to("/etc/passwd")

    for name in ("pipe.jsonl", "link.jsonl", "missing.jsonl", "notes.md"):
        assert ingest(tmp_path / name).skipped == "not a transcript"


def test_a_file_that_cannot_be_read_says_so_and_keeps_its_cursor(
    transcript: Transcript, ingest: Ingest, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    transcript.user("go")
    ingest(transcript)
    cursor = store.value("SELECT cursor FROM transcript")

    def fail(*_: Any, **__: Any) -> None:
        raise TranscriptError("permission denied")

    monkeypatch.setattr(claude_code, "chunk_of", fail)

    assert ingest(transcript).skipped == "unreadable"
    assert store.rows("SELECT cursor, last_error FROM transcript") == [(cursor, "permission denied")]


# -- scope, work, subagents


def test_a_session_started_in_a_root_folder_is_global(
    transcript: Transcript, ingest: Ingest, store: Store, settings: Settings
) -> None:
    transcript.user("go")

    ingest(transcript, settings=replace(settings, project_roots=("/gone/engine",)))
    session = find_session(store, "s1")

    assert session is not None
    assert (session.is_global, session.project_id) == (True, None)


def test_the_project_never_flips(transcript: Transcript, ingest: Ingest, store: Store) -> None:
    transcript.user("go")
    ingest(transcript)
    transcript.cwd = "/gone/other"
    transcript.user("elsewhere")
    ingest(transcript)

    assert store.rows("SELECT name FROM project") == [("engine",)]


def test_few_messages_wait_for_silence_and_enough_are_due_at_once(
    transcript: Transcript, ingest: Ingest, store: Store, clock: Any, settings: Settings
) -> None:
    clock.at_ms = transcript.at_ms
    transcript.user("one")
    ingest(transcript)
    waiting = find_work(store, "extract", "s1")
    for number in range(4):
        transcript.says(f"reply {number}")
    clock.at_ms = transcript.at_ms
    ingest(transcript)
    due = find_work(store, "extract", "s1")

    assert waiting is not None
    assert due is not None
    assert waiting.due_at_ms >= transcript.at_ms - 10_000 + settings.extract_idle_seconds * 1000
    assert due.due_at_ms <= clock.now_ms()


def test_an_old_transcript_is_due_at_once(transcript: Transcript, ingest: Ingest, store: Store, clock: Any) -> None:
    transcript.user("one")
    clock.at_ms = transcript.at_ms + 86_400_000
    ingest(transcript)

    work = find_work(store, "extract", "s1")

    assert work is not None
    assert work.due_at_ms <= clock.now_ms()


@pytest.mark.parametrize(("age_seconds", "is_due"), [(10, True), (3600, False)])
def test_only_a_fresh_prompt_asks_for_a_recollection(
    transcript: Transcript, ingest: Ingest, store: Store, clock: Any, age_seconds: int, is_due: bool
) -> None:
    transcript.user("what did we decide?")
    clock.at_ms = transcript.at_ms + age_seconds * 1000
    ingest(transcript)

    assert (find_work(store, "recollect", "s1") is not None) is is_due


def test_an_extractor_that_is_off_makes_nothing_due(
    transcript: Transcript, ingest: Ingest, store: Store, settings: Settings
) -> None:
    transcript.user("go")

    ingest(transcript, settings=replace(settings, extractor="off", inject=False))

    assert store.rows("SELECT * FROM work") == []


def test_every_transcript_below_a_folder_is_read_with_progress(
    make_transcript: MakeTranscript, store: Store, settings: Settings, turns: Turns
) -> None:
    for name in ("a", "b", "agent-x"):
        make_transcript(name).user(f"prompt of {name}")
    seen: list[tuple[int, int, str]] = []

    results = ingest_all(
        store,
        settings=settings,
        redact=redact,
        progress=lambda done, total, result: seen.append((done, total, result.path.name)),
    )

    assert seen == [(1, 2, "a.jsonl"), (2, 2, "b.jsonl")]
    assert [result.new_turns for result in results] == [1, 1]
    assert sorted(t.turn.prompt for t in turns()) == ["prompt of a", "prompt of b"]


def test_subagents_are_read_when_they_are_wanted(
    make_transcript: MakeTranscript, store: Store, settings: Settings, turns: Turns
) -> None:
    agent = make_transcript("agent-x")
    agent.user("look into it", isSidechain=True, agentId="x")
    agent.says("Found it.", isSidechain=True, agentId="x")

    ingest_all(store, settings=replace(settings, subagents=True), redact=redact)

    assert [(t.turn.opening, t.turn.reply) for t in turns()] == [(Opening.CONTINUATION, "Found it.")]


def test_a_reply_that_names_a_memory_that_was_shown_before_it_is_a_use(
    transcript: Transcript, ingest: Ingest, store: Store
) -> None:
    used, unseen, early, cited = (f"ep_{number:012x}" for number in range(4))

    def show(episode_id: str, at_ms: int, session_id: str = "s1") -> None:
        bite = Injection(session_id, "p", "prompt", episode_id, 0.5, 9, "shown", at_ms)
        with store.transaction() as tx:
            injections.add_injections(tx, [bite])

    show(used, transcript.at_ms)
    show(used, transcript.at_ms, "s2")
    show(cited, transcript.at_ms)
    transcript.user(f"What does [{cited}] say?")
    transcript.says("Let me look.")
    ingest(transcript)
    transcript.says(f"[{used}], {unseen} and {early} settle it.")
    show(early, transcript.at_ms + 1)

    ingest(transcript)

    assert {row.episode_id: row.used_at_ms for row in injections.injections_of_session(store, "s1")} == {
        used: transcript.at_ms,
        cited: None,
        early: None,
    }
    assert [row.used_at_ms for row in injections.injections_of_session(store, "s2")] == [None]
