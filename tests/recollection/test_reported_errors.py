"""An error is recognised in what a person reports."""

from __future__ import annotations

import pytest

from engram.recollection.past_fixes import lines_of_error
from engram.recollection.reported_errors import is_stated
from engram.text.shell import MAX_LINE_CHARACTERS


@pytest.mark.parametrize(
    "text",
    [
        "I get sail: cannot raise: no halyard",
        "sail: cannot raise `/srv/mast/main.sail': No halyard",
        "  | sail: cannot raise:\n  |   line 31: no halyard",
    ],
)
def test_the_words_of_an_error_are_found_in_a_report(text: str) -> None:
    assert is_stated("sail: cannot raise: no halyard", text)


@pytest.mark.parametrize(
    "text",
    [
        "sail: cannot raise",
        "no halyard: sail cannot raise",
        "The sail is new. " + "We " * 9 + "cannot raise it since there is no halyard.",
        "",
    ],
)
def test_the_same_words_far_apart_are_not_a_report(text: str) -> None:
    assert not is_stated("sail: cannot raise: no halyard", text)


@pytest.mark.parametrize("error", ["go: " * 5_000, "x" * 100_000, "a b\n" * 40_000])
def test_a_text_that_is_not_an_error_is_looked_up_by_its_beginning(error: str) -> None:
    assert all(len(line) <= MAX_LINE_CHARACTERS for line in lines_of_error(error))
