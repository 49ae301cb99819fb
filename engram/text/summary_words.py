"""Stemmed words of a memory's summary, for consolidation: are two memories about the same matter? Pure."""

from __future__ import annotations

import re

_WORD = re.compile(r"[A-Za-z_][\w+#/-]*(?:\.[A-Za-z]\w*)*|\d[\w.]*")
_STOP_TEXT = """
    a an the is are was were be been to of in on at for with by from and or as it its this that we i you they use
    uses used using should must will would can now so then than instead of no not never always do does don't prefer
    all every any our my your decided decision preference longer more anymore switch move replace drop remove change
    just only because since which when where how go went there here user said wants want rather new old one ones up
    have has had keep get make made into after going forward each mind
"""
#: Words that say nothing about the matter of a memory.
STOP_WORDS = frozenset(_STOP_TEXT.split())


def words_of(text: str) -> frozenset[str]:
    """Return the stemmed words of a summary without stop words; numbers count."""
    words = (word.lower() for word in _WORD.findall(text))
    return frozenset(stem(word) for word in words if (word not in STOP_WORDS and len(word) > 1) or word.isdigit())


def stem(word: str) -> str:
    """Return a word without its commonest endings."""
    for ending in ("ing", "ies", "ed", "es", "s"):
        if word.endswith(ending) and len(word) - len(ending) >= 3 and not word.endswith("ss"):
            return word[: -len(ending)].rstrip("e")
    return word.rstrip("e") if len(word) > 3 else word
