"""Cutting long text: nothing is lost, nothing is too long, good places come first."""

from __future__ import annotations

import re

from hypothesis import given, settings
from hypothesis import strategies as st

from engram.embedding.pieces import Spans, cut


def words(text: str) -> Spans:
    return [match.span() for match in re.finditer(r"\S+", text)]


@settings(max_examples=60, deadline=None)
@given(st.text(alphabet="ab. \n\t", max_size=400), st.integers(min_value=1, max_value=9))
def test_pieces_hold_every_word_once_and_none_is_too_long(text: str, limit: int) -> None:
    pieces = cut(text, limit, words)

    assert " ".join(pieces).split() == text.split()
    assert all(len(piece.split()) <= limit for piece in pieces)
    assert all(piece.strip() for piece in pieces)


def test_a_piece_ends_with_a_paragraph_rather_than_a_sentence() -> None:
    text = "one two three four five six.\n\nseven eight. nine ten eleven"

    assert cut(text, 8, words)[0] == "one two three four five six."


def test_a_piece_ends_with_a_sentence_rather_than_a_word() -> None:
    text = "one two three four five six seven eight. nine ten eleven twelve"

    assert cut(text, 10, words)[0] == "one two three four five six seven eight."


def test_a_very_long_text_is_cut_in_blocks_without_losing_a_word() -> None:
    text = " ".join(f"word{number}" for number in range(20_000))

    pieces = cut(text, 100, words)

    assert " ".join(pieces) == text
