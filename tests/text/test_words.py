"""Stems, words and sentence spans: each as the package that uses it needs them."""

from __future__ import annotations

import re
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engram.text.splitting import MAX_PASSAGE_WORDS, sentence_spans, split_passages
from engram.text.words import (
    MIN_STEM_CHARS,
    UNSPACED_LETTERS,
    content_words,
    coverage_stem,
    in_pairs,
    prefixes,
    same_words,
    stems,
    topic_words,
)


def test_every_letter_of_a_script_without_spaces_is_indexed_apart() -> None:
    every = "".join(map(chr, (*range(0xD800), *range(0xE000, 0x110000))))
    letters = re.findall(f"[{UNSPACED_LETTERS}]", every)

    assert len(letters) > 100_000
    assert [letter for letter in letters if in_pairs(f"a{letter}b") != f"a {letter} b"] == []


def test_accents_symbols_and_emoji_stay_where_they_are() -> None:
    text = "Größe → 5 µm — „ja“ ✓ 🎉 ❤\ufe0f é\ue0b0"

    assert in_pairs(text) == text


@pytest.mark.parametrize(
    ("word", "stem"), [("locked", "lock"), ("queries", "quer"), ("validation", "valid"), ("is", "is")]
)
def test_a_coverage_stem_loses_one_ending_and_stays_long_enough(word: str, stem: str) -> None:
    assert coverage_stem(word) == stem


@given(st.text(max_size=20))
def test_a_coverage_stem_begins_the_word(word: str) -> None:
    stem = coverage_stem(word)

    assert word.startswith(stem)
    assert len(stem) >= min(len(word), MIN_STEM_CHARS)


def test_excerpt_sentences_end_at_colons_and_lines_and_keep_the_text() -> None:
    text = "We chose it: The lock is held. No\n\nLast line"

    assert [text[start:stop] for start, stop in sentence_spans(text)] == [
        "We chose it:",
        "The lock is held.",
        "No",
        "Last line",
    ]


@given(st.text(max_size=600))
def test_passages_cover_everything_but_white_space_in_order(text: str) -> None:
    spans = split_passages(text)

    assert "".join("".join(text[start:stop].split()) for start, stop in spans) == "".join(text.split())
    assert all(stop <= next_start for (_, stop), (next_start, _) in pairwise(spans))


def test_a_passage_of_short_sentences_has_at_most_its_words() -> None:
    text = "The loader holds the lock. " * 40

    assert all(len(text[start:stop].split()) <= MAX_PASSAGE_WORDS for start, stop in split_passages(text))


def test_topic_words_leave_agreement_and_urging_out() -> None:
    assert topic_words("ok great, please go on with the parser.py cursor, thanks") == ["parser.py", "cursor"]


def test_content_words_match_by_their_beginning() -> None:
    assert prefixes(content_words("The writer validates it")) & prefixes(content_words("validation"))


def test_recollection_stems_split_compound_names_and_tell_the_same_statement() -> None:
    assert stems(["readFile", "locks"]) == {"read", "fil", "lock"}
    assert same_words(stems("the loader holds the queue lock".split()), stems("loader holding queue locks".split()))
    assert not same_words(stems(["lock"]), stems(["lock", "queue"]))
