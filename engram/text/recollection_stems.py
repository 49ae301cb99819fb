"""Stems for recollection: compare the words of prompts and memories, and find memories that say the same. Pure."""

from __future__ import annotations

import functools
import re
from collections.abc import Collection, Iterable

#: Minimum overlap of two texts that say the same.
MIN_SAME_SHARE = 0.7
#: Minimum number of words for an overlap to mean anything.
MIN_WORDS = 4
#: Longest word whose parts are kept, in characters.
LONGEST_KNOWN = 40

_PART = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])|\d+|[^\W\d_a-zA-Z]+")
_ENDING = re.compile(r"(?:ations?|ments?|ings?|ers?|ies|ied|ions?|ed|es|s|e|y)$")


def stem_forms(words: Iterable[str]) -> dict[str, str]:
    """Return the stems of the parts of words (``readFile`` → read, file), each with its first form, in lower case."""
    forms: dict[str, str] = {}
    for word in words:
        for stem, form in _known_parts(word) if len(word) <= LONGEST_KNOWN else _parts(word):
            forms.setdefault(stem, form)
    return forms


def _parts(word: str) -> tuple[tuple[str, str], ...]:
    """Return stem and form of each part of a word."""
    found = []
    for part in _PART.findall(word):
        form = part.lower()
        stem = _ENDING.sub("", form)
        stem = stem if len(stem) >= 3 else form
        if len(stem) > 1 or stem.isdigit():
            found.append((stem, form))
    return tuple(found)


# Memories of one project have most words in common, and a question is compared with dozens of them.
_known_parts = functools.lru_cache(maxsize=8192)(_parts)


def stems(words: Iterable[str]) -> frozenset[str]:
    """Return the stems of the parts of words, in lower case."""
    return frozenset(stem_forms(words))


def same_words(first: Collection[str], second: Collection[str]) -> bool:
    """Return whether two texts say the same, by their stems; very short texts only if they are equal."""
    if min(len(first), len(second)) < MIN_WORDS:
        return set(first) == set(second)
    return overlap(first, second) >= MIN_SAME_SHARE


def overlap(first: Collection[str], second: Collection[str]) -> float:
    """Return the shared stems as a share of the smaller set; 0 if either is empty."""
    smaller = min(len(first), len(second))
    return len(set(first) & set(second)) / smaller if smaller else 0.0
