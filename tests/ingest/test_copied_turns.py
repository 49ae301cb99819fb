"""The history of a session that was copied into another one under new ids counts once."""

from __future__ import annotations

import json
from typing import Any

import pytest
from growing_transcript import Ingest, MakeTranscript, Transcript, Turns

from engram.models.engine.transaction import Store

LAST = "Write the notes of the release"


def write_history(transcript: Transcript) -> None:
    """Write a session of two prompts, with a call, whose messages and calls have ids that no other session has."""
    transcript.user("Never cut the wire of the lamp.")
    transcript.add(answer("msg_a1", "text", text="I leave the wire alone."))
    transcript.user("Where is the lamp?")
    transcript.add(answer("msg_a2", "tool_use", id="toolu_a1", name="Bash", input={"command": "ls lamps"}))
    transcript.user([{"type": "tool_result", "tool_use_id": "toolu_a1", "content": "lamp.py", "is_error": False}])
    transcript.add(answer("msg_a3", "text", text="In lamp.py."))


def answer(message_id: str, kind: str, **block: Any) -> dict[str, Any]:
    return {"type": "assistant", "message": {"id": message_id, "content": [{"type": kind, **block}]}}


def copy(transcript: Transcript, into: Transcript) -> None:
    """Write the lines of a session as those of another one: with its own ids, and the same times."""
    for line in transcript.path.read_text().splitlines():
        data = json.loads(line)
        into.text(json.dumps(data | {"uuid": f"{into.path.stem}-{data['uuid']}"}) + "\n")


def prompts(turns: Turns) -> list[str]:
    return [stored.turn.prompt for stored in turns()]


@pytest.mark.parametrize("max_bytes", [300, 1_000, 4_000_000])
@pytest.mark.parametrize("is_original_first", [True, False])
def test_a_history_copied_under_new_ids_counts_once(
    make_transcript: MakeTranscript, ingest: Ingest, turns: Turns, max_bytes: int, is_original_first: bool
) -> None:
    original, resumed = make_transcript("original"), make_transcript("resumed", at_ms=1_767_225_660_000)
    write_history(original)
    copy(original, into=resumed)
    resumed.user(LAST)
    resumed.add(answer("msg_b1", "text", text="The notes are written."))

    for one in (original, resumed) if is_original_first else (resumed, original):
        ingest(one, max_bytes=max_bytes)

    assert sorted(prompts(turns)) == sorted(["Never cut the wire of the lamp.", "Where is the lamp?", LAST])
    assert sorted(a.command for one in turns() for a in one.turn.actions) == ["ls lamps"]
    assert [b.text for one in turns() for b in one.turn.said].count("In lamp.py.") == 1


def test_the_session_knows_what_was_copied_into_it(
    make_transcript: MakeTranscript, ingest: Ingest, store: Store
) -> None:
    original, resumed = make_transcript("original"), make_transcript("resumed")
    write_history(original)
    copy(original, into=resumed)
    resumed.user(LAST)

    ingest(original)
    ingest(resumed)

    assert store.rows("SELECT session_id, from_session FROM copied_history") == [("resumed", "original")]


def test_a_prompt_at_the_same_time_with_another_answer_is_no_copy(
    make_transcript: MakeTranscript, ingest: Ingest, turns: Turns
) -> None:
    for name in ("one", "two"):
        transcript = make_transcript(name)
        transcript.user("Sum up the lamp.")
        transcript.add(answer(f"msg_{name}", "text", text="It is a lamp."))
        ingest(transcript)

    assert prompts(turns) == ["Sum up the lamp."] * 2


def test_words_said_again_later_are_no_copy(make_transcript: MakeTranscript, ingest: Ingest, turns: Turns) -> None:
    for name, at_ms in (("one", 1_767_225_600_000), ("two", 1_767_225_660_000)):
        transcript = make_transcript(name, at_ms=at_ms)
        transcript.user("Go on.")
        transcript.add(answer("msg_same", "text", text="It is a lamp."))
        ingest(transcript)

    assert prompts(turns) == ["Go on."] * 2


def test_a_session_copied_into_another_project_stays_there(
    make_transcript: MakeTranscript, ingest: Ingest, turns: Turns
) -> None:
    original, moved = make_transcript("original"), make_transcript("moved")
    write_history(original)
    text = original.path.read_text().replace("/gone/engine", "/gone/other")
    for line in text.splitlines():
        data = json.loads(line)
        moved.text(json.dumps(data | {"uuid": f"moved-{data['uuid']}"}) + "\n")

    ingest(original)
    ingest(moved)

    assert len(turns()) == 4
