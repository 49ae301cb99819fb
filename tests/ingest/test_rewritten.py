"""A transcript that was changed before the cursor is read again: nothing is lost, and nothing is stored twice."""

from __future__ import annotations

import os
from collections.abc import Callable

import pytest
from counted_calls import calls_of
from growing_transcript import Ingest, Transcript, Turns

from engram.models.engine.transaction import Store
from engram.models.memories.tombstones import TombstoneKind, add_tombstones, said_key
from engram.models.sessions.passage_rows import places_of
from engram.models.sessions.turn_changes import delete_turn
from engram.settings import Settings
from engram.tasks.queue import huey
from engram.watcher.watch import Watcher

TOKEN = "ghp_" + "k3J8s5D1f9G2h7L4q6W0e8R3t5Y7u1I9o2P4"
VALUE = "mR7xQ4vK9wT2zB6nL3pD"


def lines_of(transcript: Transcript) -> list[str]:
    return transcript.path.read_text().splitlines(keepends=True)


def rewrite(transcript: Transcript, lines: list[str]) -> None:
    """Write the file anew in place, at a later time."""
    transcript.path.write_text("".join(lines))
    later = transcript.path.stat().st_mtime_ns + 10**9
    os.utime(transcript.path, ns=(later, later))


def said(turns: Turns) -> list[tuple[str, str]]:
    return [(stored.turn.prompt, stored.turn.reply) for stored in turns()]


def test_a_line_is_taken_out_and_the_file_grows_past_its_old_size(
    transcript: Transcript, ingest: Ingest, turns: Turns, store: Store
) -> None:
    transcript.user("one")
    transcript.says("a")
    transcript.user("two")
    transcript.says("half an answer " * 20)
    ingest(transcript)
    rewrite(transcript, lines_of(transcript)[:-1])
    transcript.says("the answer, which is longer " * 20)
    transcript.user("three")
    transcript.says("c")

    result = ingest(transcript)

    assert [prompt for prompt, _ in said(turns)] == ["one", "two", "three"]
    assert "the answer" in said(turns)[1][1]
    assert result.bad_lines == store.value("SELECT count(*) FROM bad_line") == 0


@pytest.mark.parametrize("max_bytes", [1, 1_000_000])
def test_a_history_that_the_file_repeats_goes_on_where_it_ended(
    transcript: Transcript, ingest: Ingest, turns: Turns, max_bytes: int
) -> None:
    transcript.user("one")
    transcript.says("a")
    transcript.user("two")
    transcript.says("b")
    for line in lines_of(transcript):
        transcript.text(line)
    transcript.says("c")

    ingest(transcript, max_bytes=max_bytes)

    assert said(turns) == [("one", "a"), ("two", "b\n\nc")]


@pytest.mark.parametrize("number", [1, 3])
def test_a_line_is_rewritten_in_place_with_the_same_size(
    transcript: Transcript, ingest: Ingest, turns: Turns, number: int
) -> None:
    transcript.user("one")
    transcript.says("made of brass")
    transcript.user("two")
    transcript.says("made of brass")
    ingest(transcript)
    lines = lines_of(transcript)
    lines[number] = lines[number].replace("brass", "steel").replace(f"s1-{number + 1}", "s1-x")

    rewrite(transcript, lines)
    ingest(transcript)

    replies = [reply for _, reply in said(turns)]
    assert ["steel" in reply for reply in replies].count(True) >= 1
    assert [prompt for prompt, _ in said(turns)].count("one") == 1


def test_the_work_of_reading_a_turn_again_grows_with_its_entries(
    make_transcript: Callable[..., Transcript], ingest: Ingest
) -> None:
    calls = []
    for name, answers in (("shorter", 60), ("longer", 240)):
        transcript = make_transcript(name)
        transcript.user("one")
        for number in range(answers):
            transcript.says(f"answer {number}")
        ingest(transcript)
        rewrite(transcript, [lines_of(transcript)[0].replace("one", "two"), *lines_of(transcript)[1:]])
        calls.append(calls_of(lambda transcript=transcript: ingest(transcript)))

    assert calls[1] < 6 * calls[0]


def test_the_work_of_reading_an_entry_grows_with_its_results(
    make_transcript: Callable[..., Transcript], ingest: Ingest
) -> None:
    calls = []
    for name, count in (("shorter", 100), ("longer", 800)):
        transcript = make_transcript(name)
        used = [{"type": "tool_use", "id": f"t{k}", "name": "Edit", "input": {}} for k in range(count)]
        transcript.add({"type": "assistant", "message": {"id": "m", "content": used}})
        transcript.user([{"type": "tool_result", "tool_use_id": f"t{k}", "content": "ok"} for k in range(count)])
        calls.append(calls_of(lambda transcript=transcript: ingest(transcript)))

    assert calls[1] < 12 * calls[0]


def test_a_copy_of_a_line_does_not_undo_what_its_message_became(
    transcript: Transcript, ingest: Ingest, turns: Turns
) -> None:
    transcript.user("one")
    transcript.says("The keel")
    ingest(transcript)
    prompt, short = lines_of(transcript)
    grown = short.replace("The keel", "The keel is made of oak.").replace("s1-2", "s1-3")

    rewrite(transcript, [prompt.replace("one", "two"), short, grown, short])
    ingest(transcript)

    assert said(turns) == [("two", "The keel is made of oak.")]


@pytest.mark.parametrize("change", [lambda lines: lines[:2], lambda lines: lines[2:], lambda lines: lines[:1] * 3])
def test_a_shortened_file_loses_nothing_that_was_stored(
    transcript: Transcript, ingest: Ingest, turns: Turns, change: Callable[[list[str]], list[str]]
) -> None:
    for text in ("one", "two", "three"):
        transcript.user(text)
        transcript.says(f"answer to {text}")
    ingest(transcript)
    before = said(turns)

    rewrite(transcript, change(lines_of(transcript)))
    ingest(transcript)

    assert said(turns) == before


def test_a_file_that_was_only_touched_is_not_read_again(transcript: Transcript, ingest: Ingest, store: Store) -> None:
    transcript.user("one")
    ingest(transcript)

    rewrite(transcript, lines_of(transcript))
    result = ingest(transcript)

    assert not result.has_read
    assert store.value("SELECT generation FROM transcript") == 0


def test_an_entry_whose_words_were_changed_in_place_has_the_new_ones(
    transcript: Transcript, ingest: Ingest, turns: Turns, store: Store
) -> None:
    transcript.user("the key is hunter2")
    transcript.says("noted")
    transcript.user("next")
    ingest(transcript)

    rewrite(transcript, [line.replace("hunter2", "xxxxxxx") for line in lines_of(transcript)])
    ingest(transcript)

    assert said(turns) == [("the key is xxxxxxx", "noted"), ("next", "")]
    assert store.value("SELECT message_count FROM session") == 3
    assert store.value("SELECT count(*) FROM passage_fts WHERE passage_fts MATCH 'hunter2'") == 0


@pytest.mark.parametrize("place", ["prompt", "reply", "both"])
@pytest.mark.parametrize("secret", [TOKEN, f"password: {VALUE}", f"the value is {VALUE}"])
def test_a_secret_that_was_written_into_a_stored_line_is_masked(
    transcript: Transcript, ingest: Ingest, turns: Turns, store: Store, place: str, secret: str
) -> None:
    transcript.calls("Read", f"SESSION_KEY={VALUE}", file_path="/p/.env")
    transcript.user("deploy it with the token of the prompt")
    transcript.says("deployed with the token of the reply")
    transcript.user("next")
    ingest(transcript)
    lines = lines_of(transcript)
    for number, role in ((2, "prompt"), (3, "reply")):
        lines[number] = (
            lines[number].replace(f"the token of the {role}", secret) if place in (role, "both") else lines[number]
        )

    rewrite(transcript, lines)
    ingest(transcript)

    assert [text.count("[secret:") for text in said(turns)[-2]] == [place != "reply", place != "prompt"]
    stored = "".join(str(row) for table in ("said", "passage") for row in store.rows(f"SELECT * FROM {table}"))
    assert not [word for word in (TOKEN, VALUE) if word in stored]


def test_words_that_were_forgotten_elsewhere_do_not_come_back_by_a_rewritten_line(
    transcript: Transcript, ingest: Ingest, turns: Turns, store: Store
) -> None:
    transcript.user("the client is called something")
    transcript.says("noted")
    transcript.user("next")
    ingest(transcript)
    words = "the client is called Wilhelmina"
    key = said_key(turns()[0].turn.started_at_ms or 0, words)
    with store.transaction() as tx:
        add_tombstones(tx, TombstoneKind.SAID, [key])

    rewrite(transcript, [line.replace("the client is called something", words) for line in lines_of(transcript)])
    ingest(transcript)

    assert store.value("SELECT count(*) FROM said WHERE text LIKE '%Wilhelmina%'") == 0
    assert said(turns) == [("", "noted"), ("next", "")]


def test_what_is_put_into_the_middle_belongs_to_the_turn_before_it(
    transcript: Transcript, ingest: Ingest, turns: Turns
) -> None:
    transcript.user("one")
    transcript.says("a")
    transcript.user("two")
    transcript.says("b")
    transcript.user("three")
    ingest(transcript)
    lines = lines_of(transcript)
    transcript.says("and more of a")

    rewrite(transcript, [*lines[:2], lines_of(transcript)[-1], *lines[2:]])
    ingest(transcript)

    assert said(turns) == [("one", "a\n\nand more of a"), ("two", "b"), ("three", "")]


@pytest.mark.parametrize("max_bytes", [300, 1_000_000])
@pytest.mark.parametrize("remove", [0, 1, 4, 9])
def test_prompts_that_waited_in_the_queue_stay_one(
    transcript: Transcript, ingest: Ingest, turns: Turns, store: Store, remove: int, max_bytes: int
) -> None:
    transcript.user("go")
    transcript.says("working")
    transcript.queue("enqueue", "first in line")
    transcript.queue("enqueue", "second in line")
    transcript.queue("remove")
    transcript.says("doing the first")
    transcript.queue("dequeue")
    transcript.user("second in line")
    transcript.says("doing the second")
    transcript.says("done")
    transcript.queue("enqueue", "never handed over")
    ingest(transcript)
    before = said(turns)

    rewrite(transcript, [line for number, line in enumerate(lines_of(transcript)) if number != remove])
    transcript.says("and now longer than before, whatever was taken out")
    ingest(transcript, max_bytes=max_bytes)

    after = said(turns)
    assert sorted(prompt for prompt, _ in after) == sorted(prompt for prompt, _ in before)
    assert sum(reply.count("and now longer") for _, reply in after) == 1
    texts = [text for (text,) in store.rows("SELECT text FROM said")]
    assert len(texts) == len(set(texts))


def test_a_turn_without_a_prompt_continues(transcript: Transcript, ingest: Ingest, turns: Turns) -> None:
    transcript.says("Continuing where we stopped.")
    transcript.says("More.")
    ingest(transcript)

    rewrite(transcript, ['{"type":"summary"}\n', *lines_of(transcript)])
    transcript.says("And more.")
    ingest(transcript)

    assert said(turns) == [("", "Continuing where we stopped.\n\nMore.\n\nAnd more.")]


def test_evidence_names_the_lines_as_they_are_now(transcript: Transcript, ingest: Ingest, store: Store) -> None:
    uuids = []
    for text in ("one", "two", "three"):
        uuids += [transcript.user(text), transcript.says(f"answer to {text}")]
    ingest(transcript)
    lines = lines_of(transcript)

    rewrite(transcript, ['{"type":"summary"}\n', *lines[:2], *lines[3:]])
    ingest(transcript)

    data = transcript.path.read_bytes()
    for place in places_of(store, uuids):
        if place.uuid == uuids[2]:
            assert place.line == 0
            continue
        line = data.split(b"\n")[place.line - 1]
        assert place.uuid in line.decode()
        assert data[place.position :].startswith(line)
    offsets = store.rows("SELECT start_offset, end_offset FROM turn ORDER BY id")
    assert offsets == sorted(offsets)


def test_damage_that_was_mended_is_no_longer_counted(transcript: Transcript, ingest: Ingest, store: Store) -> None:
    transcript.user("one")
    transcript.text('{"parentUuid": null, "uui\n')
    ingest(transcript)
    damaged = store.value("SELECT count(*) FROM bad_line")

    rewrite(transcript, lines_of(transcript)[:1])
    transcript.user("two, which is longer than the torn line")
    ingest(transcript)

    assert (damaged, store.value("SELECT count(*) FROM bad_line")) == (1, 0)


def test_a_forgotten_turn_stays_away(transcript: Transcript, ingest: Ingest, turns: Turns, store: Store) -> None:
    transcript.user("forget this")
    transcript.says("a")
    transcript.user("keep this")
    ingest(transcript)
    with store.transaction() as tx:
        delete_turn(tx, turns()[0].id)

    rewrite(transcript, ['{"type":"summary"}\n', *lines_of(transcript)])
    transcript.says("b")
    ingest(transcript)

    assert said(turns) == [("keep this", "b")]


def test_the_middle_of_a_live_file_is_compared_sweep_by_sweep(
    transcript: Transcript, settings: Settings, store: Store
) -> None:
    transcript.user("one")
    for number in range(100):
        transcript.says(f"step {number} of the work, in some more words")
    huey.bind(settings.places, settings.sqlite_driver)
    watcher = Watcher(settings, store)
    watcher.sweep()
    watcher.step()
    watcher.sweep()
    watcher.step()
    lines = lines_of(transcript)
    lines[50] = lines[50].replace("step 49", "stop 49")
    rewrite(transcript, lines)
    transcript.says("and it grew")
    watcher.sweep()
    watcher.step()

    for _ in range(2):
        watcher.sweep()
        watcher.step()
    watcher.close()

    assert store.value("SELECT count(*) FROM said WHERE text LIKE 'stop 49%'") == 1
    assert store.value("SELECT count(*) FROM said") == 102


GROWN = ["the advisory", "the advisory lock was", f"the advisory lock was released with {TOKEN}"]


def says_as(transcript: Transcript, message_id: str, text: str) -> None:
    message = {"id": message_id, "content": [{"type": "text", "text": text}]}
    transcript.add({"type": "assistant", "message": message})


@pytest.mark.parametrize("is_read_between", [True, False])
def test_a_reply_that_is_written_again_while_it_grows_is_one(
    transcript: Transcript, ingest: Ingest, turns: Turns, store: Store, is_read_between: bool
) -> None:
    transcript.user("why did it hang")
    for text in GROWN:
        says_as(transcript, "msg_1", text)
        if is_read_between:
            ingest(transcript)
    says_as(transcript, "msg_2", "the advisory lock was released twice")
    transcript.user("thanks")
    ingest(transcript)

    expected = "the advisory lock was released with [secret:github-token]\n\nthe advisory lock was released twice"
    assert said(turns) == [("why did it hang", expected), ("thanks", "")]
    assert store.value("SELECT message_count FROM session") == 4
    assert TOKEN not in str(store.rows("SELECT * FROM said"))
    before = said(turns)
    rewrite(transcript, ['{"type":"summary"}\n', *lines_of(transcript)])
    ingest(transcript)
    assert said(turns) == before


@pytest.mark.parametrize(
    ("message_ids", "texts"),
    [
        (["msg_1", "msg_2"], ["Done.", "Done. And tested."]),
        (["msg_1", "msg_1"], ["I look at the lock.", "It was never released."]),
        (["", ""], ["Done.", "Done. And tested."]),
    ],
)
def test_two_replies_stay_two(
    transcript: Transcript, ingest: Ingest, turns: Turns, message_ids: list[str], texts: list[str]
) -> None:
    transcript.user("why did it hang")
    for message_id, text in zip(message_ids, texts, strict=True):
        says_as(transcript, message_id, text)
    ingest(transcript)

    assert said(turns) == [("why did it hang", "\n\n".join(texts))]


@pytest.mark.parametrize("is_read_between", [True, False])
def test_a_call_that_is_written_again_while_it_grows_is_one(
    transcript: Transcript, ingest: Ingest, turns: Turns, is_read_between: bool
) -> None:
    transcript.user("run the tests")
    for given in ({}, {"command": "make"}, {"command": f"make test KEY={TOKEN}"}):
        block = {"type": "tool_use", "id": "t1", "name": "Bash", "input": given}
        transcript.add({"type": "assistant", "message": {"id": "msg_1", "content": [block]}})
        if is_read_between:
            ingest(transcript)
    transcript.calls("Read", "x", file_path="/p/a")
    failed = {"type": "tool_result", "tool_use_id": "t1", "content": "Exit code 2\nerror: no rule", "is_error": True}
    transcript.user([failed])
    ingest(transcript)

    (stored,) = turns()
    assert [(action.tool, action.command, action.exit_code) for action in stored.turn.actions] == [
        ("Bash", "make test KEY=[secret:github-token]", 2),
        ("Read", "", None),
    ]
