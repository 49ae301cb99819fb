"""An error is recognised in what a person reports."""

from __future__ import annotations

import pytest

from engram.recollection.reported_errors import is_stated


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
def test_the_same_words_far_apart_are_no_report(text: str) -> None:
    assert not is_stated("sail: cannot raise: no halyard", text)
