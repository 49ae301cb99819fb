"""What was said in a pause is never kept, however late its transcript is read; what was said around it is."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from growing_transcript import Ingest, Transcript, Turns

from engram.enums import Actor
from engram.models.engine.transaction import Store
from engram.models.hub.carried_hubs import carry_hubs
from engram.models.open_memory import open_store
from engram.models.rescue.carry_over import recover_by_hand
from engram.models.work import work
from engram.models.work.work import pause, paused_scopes, resume
from engram.system.clock import FixedClock

MINUTE_MS = 60_000
PROJECT = "/gone/engine"


@pytest.fixture
def now(clock: FixedClock, transcript: Transcript) -> Callable[[], None]:
    """Lets a minute pass for the machine and for the session."""

    def now() -> None:
        clock.at_ms = transcript.at_ms = max(clock.at_ms, transcript.at_ms) + MINUTE_MS

    return now


def words(turns: Turns) -> list[str]:
    return [said.text for stored in turns() for said in stored.turn.said]


@pytest.mark.parametrize("scope", ["", PROJECT])
@pytest.mark.parametrize("reads_before", [True, False])
def test_what_was_said_in_a_pause_is_not_kept_when_the_file_is_read_after_it(
    transcript: Transcript, ingest: Ingest, turns: Turns, store: Store, now: Any, scope: str, reads_before: bool
) -> None:
    transcript.user("before")
    transcript.says("reply before")
    if reads_before:
        ingest(transcript)
    now()
    pause(store, scope, transcript.at_ms + 60 * MINUTE_MS)
    transcript.says("late reply in the pause")
    transcript.user("private prompt")
    transcript.calls("Bash", "private output", command="private command", is_error=True)
    transcript.says("private reply")
    ingest(transcript)
    now()
    resume(store, scope)
    transcript.user("after")
    transcript.says("reply after")
    ingest(transcript)

    assert words(turns) == ["before", "reply before", "after", "reply after"]
    assert [stored.turn.message_count for stored in turns()] == [1, 1]
    assert not any("private" in str(row) for row in store.rows("SELECT * FROM turn"))


def test_a_pause_of_another_project_takes_nothing(
    transcript: Transcript, ingest: Ingest, turns: Turns, store: Store, now: Any
) -> None:
    now()
    pause(store, "/gone/other", transcript.at_ms + 60 * MINUTE_MS)
    transcript.user("heard")
    ingest(transcript)

    assert words(turns) == ["heard"]


def test_a_pause_that_ran_out_counts_as_long_as_it_held(
    transcript: Transcript, ingest: Ingest, turns: Turns, store: Store, now: Any, clock: FixedClock
) -> None:
    pause(store, "", clock.at_ms + MINUTE_MS)
    transcript.at_ms = clock.at_ms
    transcript.user("private prompt")
    now()
    now()
    transcript.user("heard")

    ingest(transcript)

    assert paused_scopes(store) == frozenset()
    assert words(turns) == ["heard"]


def test_the_result_of_a_call_from_before_the_pause_brings_no_words(
    transcript: Transcript, ingest: Ingest, turns: Turns, store: Store, now: Any
) -> None:
    transcript.user("run it")
    call = {"type": "tool_use", "id": "t9", "name": "Bash", "input": {"command": "make deploy"}}
    transcript.add({"type": "assistant", "message": {"id": "m9", "content": [call]}})
    now()
    pause(store, "", transcript.at_ms + 60 * MINUTE_MS)
    transcript.user([{"type": "tool_result", "tool_use_id": "t9", "content": "Error: private", "is_error": True}])
    now()
    resume(store, "")
    ingest(transcript)

    ((action,),) = [stored.turn.actions for stored in turns()]
    assert (action.command, action.is_error, action.error_line) == ("make deploy", True, "")


def test_pauses_are_remembered_with_their_ends_and_a_longer_one_continues(store: Store, clock: FixedClock) -> None:
    begun = clock.at_ms
    pause(store, "", begun + MINUTE_MS)
    clock.at_ms += 1000
    pause(store, "", begun + 5 * MINUTE_MS)
    pause(store, PROJECT, begun + 5 * MINUTE_MS)
    clock.at_ms += 1000
    resume(store, "")

    assert work.pauses_of(store, None) == [(begun, begun + 2000)]
    assert work.pauses_of(store, PROJECT) == [(begun, begun + 2000), (begun + 1000, begun + 5 * MINUTE_MS)]
    assert work.pauses_of(store, "/gone/other") == [(begun, begun + 2000)]


def test_another_memory_knows_of_the_pauses_of_the_one_it_replaces(
    store: Store, clock: FixedClock, tmp_path: Any
) -> None:
    begun = clock.at_ms
    with open_store(tmp_path / "older.db", clock=clock) as older:
        pause(older, "", begun + 900 * MINUTE_MS)
    pause(store, "", begun + 900 * MINUTE_MS)
    clock.at_ms += 1000
    resume(store, "")
    with open_store(tmp_path / "new.db", clock=clock) as new:
        recover_by_hand(new, [store.path, tmp_path / "older.db"], actor=Actor.USER, carry_more=carry_hubs)

        assert work.pauses_of(new, None) == [(begun, begun + 1000)]
