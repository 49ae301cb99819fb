"""Features of what is current: later passages about the same matter, words of change, the end of a session."""

from __future__ import annotations

import numpy as np

from engram.models.sessions.passage_rows import PassageRow
from engram.search.passages.candidate_set import Shortlist, build_candidate_set
from engram.search.passages.features import extract_recency_features
from engram.search.question import Query, parse_intent, parse_query, text_traits
from engram.search.ranking import Column

NOW = 1_767_225_600_000
OLD = "The retry limit of the upload queue is five attempts."
NEW = "The retry limit of the upload queue is three attempts instead of five."
OTHER = "Release notes are written by hand."


def features(
    texts: list[str], sessions: list[int] | None = None, *, is_chat: bool = False, step_ms: int = 1
) -> dict[str, Column]:
    """The features of texts read in turn and said ``step_ms`` apart, each with the same prerank score."""
    rows = [
        PassageRow(
            id=2 * number,
            turn_id=number,
            session_ref=(sessions or [1] * len(texts))[number - 1],
            project_id=1,
            role="user",
            said_id=number,
            text=text,
            at_ms=NOW + number * step_ms,
            start=0,
            said_chars=len(text),
            is_closing=True,
        )
        for number, text in enumerate(texts, 1)
    ]
    candidates = build_candidate_set(
        [(row.id, row.session_ref, row.turn_id, row.said_id) for row in rows], {}, {row.id: 0.5 for row in rows}
    )
    query = parse_query(Query("How often do we retry an upload now?"), NOW)
    traits = [text_traits(row.text, is_user=True, intent=query.intent) for row in rows]
    shortlist = Shortlist(candidates, np.arange(len(rows)), {})
    return extract_recency_features(shortlist, rows, traits, query, is_chat=is_chat)


def test_of_two_statements_on_one_matter_the_later_rises_and_the_earlier_sinks() -> None:
    newest = features([OLD, OTHER, NEW])["newest"]

    assert newest[2] > 0 == newest[1] > newest[0]
    assert newest[2] == -newest[0]


def test_what_was_said_later_counts_not_what_was_read_later() -> None:
    newest = features([NEW, OTHER, OLD], step_ms=-1)["newest"]

    assert newest[0] > 0 > newest[2]


def test_in_a_chat_what_was_said_first_holds_as_well() -> None:
    chat = features([OLD, NEW], is_chat=True)

    assert not chat["newest"].any()
    assert not chat["in_session"].any()


def test_the_end_of_a_session_counts_from_its_beginning() -> None:
    assert features([OLD, OTHER, NEW, OTHER], [1, 1, 1, 2])["in_session"].tolist() == [0, 0.5, 1, 0]


def test_words_of_change_are_a_feature() -> None:
    intent = parse_intent("What is the limit?")

    changes = [text_traits(text, is_user=False, intent=intent).is_change for text in (NEW, OLD, "It is no longer so.")]

    assert changes == [1, 0, 1]


def test_files_calls_and_symbols_are_code() -> None:
    intent = parse_intent("What is the limit?")
    texts = ("see src/parse.py", "call main() first", "raise max_rows", "a/b (or not)", "() and _ alone", "")

    assert [text_traits(text, is_user=False, intent=intent).has_code for text in texts] == [1, 1, 1, 0, 0, 0]
