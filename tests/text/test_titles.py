"""Titles: what is written is kept if it is one, and any other text is cut where a clause ends."""

from __future__ import annotations

import pytest

from engram.text.titles import MAX_TITLE_CHARACTERS, MAX_TITLE_WORDS, clean_title, title_from


@pytest.mark.parametrize(
    ("text", "title"),
    [
        ("Footnotes are numbered from 0 again, because the export counts so", "Footnotes are numbered from 0 again"),
        ("Dead end: caching by path failed because the mtime is coarse", "caching by path failed"),
        ("`f()` is called twice: once per worker", "`f()` is called twice"),
        ("The hook exits 0 (always)", "The hook exits 0"),
        ("fix it", "fix it"),
        ("# Plan: move the store\n\nIt takes three steps.", "Plan: move the store"),
        ("Implement the following plan:\n\n# Move the store to SQLite\n\n1. Copy.", "Move the store to SQLite"),
        ("設定ファイルはTOMLで書く。理由は読みやすさ。", "設定ファイルはTOMLで書く"),
        ("Use `3.11` or later. Older ones lack it.", "Use `3.11` or later"),
        ("", ""),
        ("https://example.org/a/issues/7#c-1 Find the cause of the flicker.", "Find the cause of the flicker"),
        ("https://example.org/run/8\n\nwhy did this job fail?", "why did this job fail"),
        ("#7\nthe import is slow again", "the import is slow again"),
        ("https://example.org/a", "https://example.org/a"),
    ],
)
def test_a_title_is_the_first_clause(text: str, title: str) -> None:
    assert title_from(text) == title


@pytest.mark.parametrize("text", ["word " * 40, "x" * 400, "一" * 200, "a, " * 60, "(" * 200, "…" * 300])
def test_a_text_without_a_clause_is_cut_at_a_word(text: str) -> None:
    title = title_from(text)

    assert len(title.split()) <= MAX_TITLE_WORDS
    assert len(title) <= MAX_TITLE_CHARACTERS


@pytest.mark.parametrize(
    ("given", "title"),
    [(" The cache\nis Redis. ", "The cache is Redis"), ("word " * 11, ""), ("x" * 91, ""), ("", "")],
)
def test_a_title_that_somebody_wrote_is_kept_if_it_is_short(given: str, title: str) -> None:
    assert clean_title(given) == title
