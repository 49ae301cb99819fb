"""Bites are one dense line of at most forty words."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from engram.extraction.bite import cut, is_chatter, passages
from engram.extraction.candidate import MAX_CANDIDATE_SUMMARY_CHARACTERS, MAX_SUMMARY_WORDS
from engram.text.statements import split


def bites(message: str) -> list[str]:
    return [p.bite for p in passages(split(message))]


def test_short_bullets_are_joined_under_their_heading() -> None:
    assert bites("### Retry limits\n- wait 30 s between tries\n- give up after 4 tries")[0] == (
        "Retry limits: wait 30 s between tries; give up after 4 tries"
    )


def test_a_heading_that_says_nothing_is_left_out() -> None:
    assert bites("## Summary\n- the parser keeps blank lines")[0] == "the parser keeps blank lines"


def test_narration_status_and_questions_begin_no_bite() -> None:
    for text in (
        "Let me look at the parser first.",
        "Now run the full test suite",
        "All tests pass.",
        "Would you like me to continue?",
        "Here's a summary of the changes:",
    ):
        assert bites(text) == [], text


def test_narration_between_two_findings_is_passed_over() -> None:
    (first, *_) = bites("The lock is taken twice. Let me check why. The second holder is the sweep thread.")

    assert first == "The lock is taken twice. The second holder is the sweep thread."


def test_the_users_questions_count_as_their_words() -> None:
    statements = split("Can we keep the docs out of the commit?")

    assert not is_chatter(statements[0], is_user=True)
    assert is_chatter(statements[0])


def test_an_opening_interjection_is_cut() -> None:
    assert bites("Done. The cache is keyed by path and size now.")[0] == "The cache is keyed by path and size now."


def test_a_long_sentence_is_cut_at_a_clause_and_says_so() -> None:
    line = cut(" ".join(f"w{n}" for n in range(36)) + ", " + " ".join(f"v{n}" for n in range(20)))

    assert line.endswith("w35…")


@settings(deadline=None, max_examples=60)
@given(st.lists(st.text(alphabet="abc`.,;: ", min_size=1, max_size=30), max_size=60))
def test_a_bite_is_one_line_within_its_limits_with_paired_backticks(parts: list[str]) -> None:
    line = cut(" ".join(parts))

    assert len(line.split()) <= MAX_SUMMARY_WORDS
    assert len(line) <= MAX_CANDIDATE_SUMMARY_CHARACTERS + 1
    assert line.count("`") % 2 == 0
    assert "\n" not in line
