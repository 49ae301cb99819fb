"""Signs of what holds now: later passages about the same matter, words of change, the end of a session."""

from __future__ import annotations

import numpy as np

from engram.models.search_rows import PassageRow
from engram.search.episodes.pool import Column
from engram.search.passages.candidate_set import Read, build_pool
from engram.search.passages.latest import latest_signs
from engram.search.question.intent import asked_form_of, form_of
from engram.search.question.parsed import take_apart
from engram.search.question.query import Query

NOW = 1_767_225_600_000
OLD = "The retry limit of the upload queue is five attempts."
NEW = "The retry limit of the upload queue is three attempts instead of five."
OTHER = "Release notes are written by hand."


def signs(
    texts: list[str], sessions: list[int] | None = None, *, is_chat: bool = False, step_ms: int = 1
) -> dict[str, Column]:
    """The signs of texts read one after another and said ``step_ms`` apart, each with the same first guess."""
    rows = [
        PassageRow(2 * number, number, (sessions or [1] * len(texts))[number - 1], 1, "user", number, text,
                   NOW + number * step_ms, 0, len(text), True)
        for number, text in enumerate(texts, 1)
    ]  # fmt: skip
    pool = build_pool(
        [(row.id, row.session_ref, row.turn_id, row.said_id) for row in rows], {}, {row.id: 0.5 for row in rows}
    )
    asked = take_apart(Query("How often do we retry an upload now?"), NOW)
    forms = [form_of(row.text, is_user=True, asked=asked.form) for row in rows]
    return latest_signs(Read(pool, np.arange(len(rows)), {}), rows, forms, asked, is_chat=is_chat)


def test_of_two_statements_on_one_matter_the_later_rises_and_the_earlier_sinks() -> None:
    newest = signs([OLD, OTHER, NEW])["newest"]

    assert newest[2] > 0 == newest[1] > newest[0]
    assert newest[2] == -newest[0]


def test_what_was_said_later_counts_not_what_was_read_later() -> None:
    newest = signs([NEW, OTHER, OLD], step_ms=-1)["newest"]

    assert newest[0] > 0 > newest[2]


def test_in_a_chat_what_was_said_first_holds_as_well() -> None:
    found = signs([OLD, NEW], is_chat=True)

    assert not found["newest"].any()
    assert not found["in_session"].any()


def test_the_end_of_a_session_counts_from_its_beginning() -> None:
    assert signs([OLD, OTHER, NEW, OTHER], [1, 1, 1, 2])["in_session"].tolist() == [0, 0.5, 1, 0]


def test_words_of_change_are_a_sign() -> None:
    asked = asked_form_of("What is the limit?")

    assert [form_of(text, is_user=False, asked=asked).is_change for text in (NEW, OLD, "It is no longer so.")] == [
        1,
        0,
        1,
    ]
