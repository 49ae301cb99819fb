"""What a session said later about the same is found, however its words are written."""

from __future__ import annotations

import pytest

from engram.models.sessions.passage_rows import LaterText
from engram.search.passages.followed import find_later
from engram.transcripts.turns import Role

EARLIER = "The readFile parser fails for three copper headers."


@pytest.mark.parametrize(
    "later",
    [
        "The parser of readFile is fixed, copper headers pass.",
        "PARSER and read file: fixed for COPPER headers!",
        "Some other matter first. Now the parser's read_file works now for each copper header.",
        "We fixed `readFile`: its parsers take the header of copper.",
    ],
)
def test_words_in_any_form_are_about_the_same(later: str) -> None:
    other = LaterText(Role.ASSISTANT, "The walrus sleeps.", 1)
    found = find_later(EARLIER, Role.ASSISTANT, [other, LaterText(Role.ASSISTANT, later, 2)])

    assert found is not None
    assert found.text in later


@pytest.mark.parametrize(
    "later", ["The walrus is fixed.", "A header was fixed.", "The parser for three copper headers fails still.", ""]
)
def test_what_is_about_something_else_or_says_the_same_ends_nothing(later: str) -> None:
    assert find_later(EARLIER, Role.ASSISTANT, [LaterText(Role.ASSISTANT, later, 1)]) is None


def test_a_sentence_that_is_shown_already_ends_nothing() -> None:
    later = "The parser of readFile is fixed, copper headers pass."

    assert find_later(f"{EARLIER}\n{later}", Role.ASSISTANT, [LaterText(Role.ASSISTANT, later, 1)]) is None
