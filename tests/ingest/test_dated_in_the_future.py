"""A session that another machine's clock dated in the future is stored as of now: it outranks nothing for ever."""

from __future__ import annotations

import time
from dataclasses import replace

from growing_transcript import Ingest, MakeTranscript, Transcript, Turns

from engram.ingest.read_portion import in_the_past
from engram.models.engine.transaction import Store
from engram.models.sessions.sessions import find_session
from engram.transcripts.agents import Cursor, EntryTime, PullRequest, Reading

FUTURE = "2031-01-01T00:00:00Z"


def now_ms() -> int:
    return time.time_ns() // 1_000_000


def test_no_time_of_it_is_later_than_now(transcript: Transcript, ingest: Ingest, turns: Turns, store: Store) -> None:
    transcript.user("one", timestamp=FUTURE)
    transcript.says("a", timestamp=FUTURE)
    call = {"type": "tool_use", "id": "t1", "name": "Bash", "input": {"command": "make"}}
    transcript.add({"type": "assistant", "message": {"id": "m9", "content": [call]}, "timestamp": FUTURE})
    ingest(transcript)
    (stored,) = turns()
    session = find_session(store, "s1")

    assert session is not None
    said, actions = stored.turn.said, stored.turn.actions
    times = [stored.turn.started_at_ms, stored.turn.ended_at_ms, *(part.at_ms for part in (*said, *actions))]
    assert all(at_ms is not None and at_ms <= now_ms() for at_ms in [*times, session.last_at_ms])


def test_a_session_of_today_is_newer_than_one_that_was_dated_in_the_future_before(
    make_transcript: MakeTranscript, ingest: Ingest, store: Store
) -> None:
    wrong, right = make_transcript("wrong"), make_transcript("right")
    wrong.user("one", timestamp=FUTURE)
    ingest(wrong)
    time_of_wrong = store.value("SELECT last_at_ms FROM session")
    right.user("two", timestamp=time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(now_ms() // 1000 + 1)))
    ingest(right)

    assert store.value("SELECT session_id FROM session ORDER BY last_at_ms DESC, id DESC LIMIT 1") == "right"
    assert time_of_wrong <= now_ms()


def test_a_session_that_goes_on_in_the_future_keeps_its_order(
    transcript: Transcript, ingest: Ingest, turns: Turns
) -> None:
    transcript.user("one", timestamp="2026-01-01T10:00:00Z")
    transcript.says("a", timestamp=FUTURE)
    ingest(transcript)
    transcript.user("two", timestamp="2031-01-01T00:00:01Z")
    transcript.says("b", timestamp="2026-01-01T10:05:00Z")
    ingest(transcript)

    assert [(t.turn.prompt, t.turn.reply) for t in turns()] == [("one", "a"), ("two", "b")]
    assert all((t.turn.started_at_ms or 0) <= (t.turn.ended_at_ms or 0) <= now_ms() for t in turns())


def test_compactions_and_pull_requests_are_dated_alike_and_the_past_stays() -> None:
    reading = Reading(
        Cursor(),
        entries=[EntryTime("a", 5), EntryTime("b", 20), EntryTime("c", None)],
        compacted_at_ms=30,
        pull_requests=(PullRequest(40, "https://example.org/1"), PullRequest(4, "https://example.org/2")),
    )

    now = in_the_past(reading, 10)

    assert [entry.at_ms for entry in now.entries] == [5, 10, None]
    assert (now.compacted_at_ms, [link.at_ms for link in now.pull_requests]) == (10, [10, 4])
    assert in_the_past(reading, 40) is reading
    assert in_the_past(replace(now), 10) == now
