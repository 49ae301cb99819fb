"""Words that carry content, for extraction: does a text repeat another, is a summary grounded in its evidence? Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable

from engram.text.unspaced import in_pairs

#: Two forms of a word are the same if they share a prefix of this length, in letters.
PREFIX_LETTERS = 6

_STOP_TEXT = """
a an the is are was were be been to of in on at for with by from and or not no as it its this that these
those when where which who how if so than then there they we our you your i my do does did has have had can
could should would will may about into over out up only also more now all each per via use used using new
"""
_STOP_WORDS = frozenset(_STOP_TEXT.split())
_WORD = re.compile(r"\w+")


def content_words(text: str) -> frozenset[str]:
    """Return the words of a text that are no stop words, in lower case; of scripts without spaces, pairs of letters."""
    words = map(str.lower, _WORD.findall(text if text.isascii() else in_pairs(text)))
    return frozenset(word for word in words if word not in _STOP_WORDS and len(word) > 1)


def prefixes(words: Iterable[str]) -> frozenset[str]:
    """Return words by their first letters, so that "validates" matches "validation"."""
    return frozenset(word[:PREFIX_LETTERS] for word in words)
