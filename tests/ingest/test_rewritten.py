"""A transcript that was changed before the cursor is read again: nothing is lost, and nothing is stored twice."""

from __future__ import annotations

import os
from collections.abc import Callable

import pytest
from growing_transcript import Ingest, Transcript, Turns

from engram.models.store import Store


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
