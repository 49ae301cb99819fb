"""The text index in memory that a benchmark asks."""

from __future__ import annotations

import pytest

from bench.loose_texts import LooseTexts


@pytest.mark.parametrize("driver", ["auto", "sqlite3"])
def test_texts_are_found_by_any_word_and_its_stem(driver: str) -> None:
    texts = LooseTexts(["The locks were held.", "A green button.", "The button is locked."], driver=driver)

    found = texts.search("Which button did we lock?")

    assert set(found) == {0, 1, 2}
    assert max(found, key=lambda place: found[place]) == 2


def test_no_question_is_syntax() -> None:
    texts = LooseTexts(["one OR two"])

    assert texts.search('"; NEAR( AND *') == {}
    assert texts.search("???") == {}
    assert set(texts.search('two" OR "x')) == {0}
