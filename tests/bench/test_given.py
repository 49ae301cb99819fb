"""Texts within a number of words."""

from __future__ import annotations

import pytest

from bench.given import NOTHING, within_words


@pytest.mark.parametrize(
    ("words", "shown"),
    [
        (20, "[1] one two three\n[2] four five"),
        (5, "[1] one two three\n[2] four five"),
        (4, "[1] one two three"),
        (2, NOTHING),
    ],
)
def test_whole_lines_are_given_while_there_is_room(words: int, shown: str) -> None:
    assert within_words(["one two\nthree", "four five"], words) == shown


def test_a_long_line_is_cut_where_the_words_end() -> None:
    line = " ".join(f"w{number}" for number in range(50))

    assert within_words([line], 20) == "[1] " + " ".join(f"w{number}" for number in range(20)) + " […]"
