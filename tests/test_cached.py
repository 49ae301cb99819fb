"""The cache for what a function found in a text."""

from __future__ import annotations

from typing import Any

import pytest

from engram.system.cached import cached_by_text

LONG = "From now on use kilograms. " * 200
TOO_LONG = LONG * 20


@cached_by_text
def judged(text: str, *, following: str = "", said_before: frozenset[str] = frozenset()) -> object:
    return object()


def test_what_was_found_in_a_short_text_is_kept() -> None:
    assert judged("a", following="b") is judged("a", following="b")
    assert judged("a", following="b") is not judged("a", following="c")


@pytest.mark.parametrize(
    ("text", "others"), [(TOO_LONG, {}), ("a", {"following": TOO_LONG}), ("a", {"said_before": frozenset([TOO_LONG])})]
)
def test_no_text_that_is_too_long_is_kept_whichever_argument_it_is(text: str, others: dict[str, Any]) -> None:
    assert judged(text, **others) is not judged(text, **others)


def test_the_prompts_of_a_long_session_are_kept() -> None:
    found = [judged(f"prompt {number}") for number in range(5_000)]

    assert all(judged(f"prompt {number}") is result for number, result in enumerate(found))


def test_texts_give_way_to_later_ones_before_they_take_too_much_memory() -> None:
    first, kept = judged(LONG), judged(f"{LONG}kept")

    for number in range(1_500):
        judged(f"{LONG}{number}")
        assert judged(f"{LONG}kept") is kept

    assert judged(LONG) is not first
