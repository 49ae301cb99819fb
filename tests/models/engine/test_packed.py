"""Packed texts: every text comes back word for word, long ones take less room, and damage is told."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engram.errors import BrokenDatabase
from engram.models.engine.statement import pack_text, unpack_text


@given(st.text(max_size=600))
def test_every_text_comes_back_word_for_word(text: str) -> None:
    assert unpack_text(pack_text(text)) == text


def test_a_long_text_takes_less_room_and_a_short_one_stays_readable() -> None:
    assert len(pack_text("the same words again " * 50)) < 200
    assert pack_text("short") == "short"


@pytest.mark.parametrize("cut", [1, 5, -1])
def test_damaged_bytes_are_told_as_damage(cut: int) -> None:
    packed = pack_text("the same words again " * 50)
    assert isinstance(packed, bytes)

    with pytest.raises(BrokenDatabase):
        unpack_text(packed[:cut])
