"""The stemmer of search coverage: a question's terms are matched in passages and memories by these stems. Pure."""

from __future__ import annotations

_SUFFIXES = ("ingly", "edly", "ation", "ing", "ies", "ed", "es", "ly", "s", "e")
#: Minimum length of a stem, in characters.
MIN_STEM_CHARS = 3


def coverage_stem(word: str) -> str:
    """Return a word without its first matching suffix; never shorter than ``MIN_STEM_CHARS``."""
    for suffix in _SUFFIXES:
        if word.endswith(suffix) and len(word) - len(suffix) >= MIN_STEM_CHARS:
            return word[: -len(suffix)]
    return word
