"""What the user set between private tags is dropped, however the tags are written."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engram.redaction import drop_private


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("a <private>b</private> c", "a  c"),
        ("a <PRIVATE>b</Private> c", "a  c"),
        ("a <private>never closed", "a "),
        ("a <private>b <private>c</private> d</private> e", "a  e"),
        ("a </private> b", "a  b"),
        ('a <private reason="x">b</private> c', "a  c"),
        ("two <private>1</private> and <private>2</private>.", "two  and ."),
        ("a private matter", "a private matter"),
        ("<privately>kept</privately>", "<privately>kept</privately>"),
        ("<pri<private>x</private>vate>gone", ""),
    ],
)
def test_private_parts_are_dropped(text: str, left: str) -> None:
    assert drop_private(text) == left


@settings(max_examples=100, deadline=None)
@given(st.lists(st.sampled_from(["<private>", "</private>", "x", "<pri", "vate>", "<", " "]), max_size=20))
def test_dropping_twice_changes_nothing_more(parts: list[str]) -> None:
    once = drop_private("".join(parts))

    assert drop_private(once) == once
    assert "<private>" not in once
