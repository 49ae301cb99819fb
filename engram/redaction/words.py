"""Find the words of a text that need a close look. Every distinct word is judged once, and most turn out plain.

Ordinary text repeats its words. A word that can hold no token, no made-up password and no name of a secret is
remembered as plain, so that the rules for these run over the few other words only.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator
from itertools import accumulate

from engram.redaction.assignments import name_places
from engram.redaction.composed import word_spans
from engram.redaction.opaque import token_places

#: Most plain words that are remembered, and the longest such word in characters.
_MAX_REMEMBERED = 10_000
_MAX_WORD_CHARS = 64
#: Names of secrets that contain a blank, which single words do not show.
#: Most words that are searched one by one; for more of them the text is read word by word once.
_FEW = 16
_WORD = re.compile(r"\S+")
_OF_TWO_WORDS = ("session key", "connection string", "login with", "invite code")

_plain: set[str] = set()

#: What a word may hold, as bits.
TOKEN, NAME, PASSWORD = 1, 2, 4


def places(text: str, low: str) -> Iterator[tuple[int, int, int]]:
    """Yield the words that need a close look: start, end and reason. ``low`` is the text in lower case."""
    words = set(text.split())
    new = words.difference(_plain)
    if new:
        flagged = _judge(new)
        _remember(new.difference(flagged))
        if len(flagged) > _FEW:
            for match in _WORD.finditer(text):
                if match.group() in flagged:
                    yield match.start(), match.end(), flagged[match.group()]
        else:
            for word, look in flagged.items():
                yield from ((at, at + len(word), look) for at in _occurrences(text, word))
    for name in _OF_TWO_WORDS:
        at = low.find(name)
        while at >= 0:
            yield at, at + len(name), NAME
            at = low.find(name, at + 1)


def _remember(words: set[str]) -> None:
    if len(_plain) > _MAX_REMEMBERED:
        _plain.clear()
    _plain.update(word for word in words if len(word) <= _MAX_WORD_CHARS)


def _judge(new: set[str]) -> dict[str, int]:
    """Return the words that are not plain; all are examined together, one a line."""
    words = list(new)
    lines = "\n".join(words)
    low = lines.lower()
    if len(low) != len(lines):
        return dict.fromkeys(words, TOKEN | NAME | PASSWORD)
    looks = [0] * len(words)
    starts = list(accumulate((len(word) + 1 for word in words), initial=0))
    for look, at in (
        *((NAME, at) for at in name_places(lines, low)),
        *((TOKEN, at) for at in token_places(lines)),
        *((PASSWORD, span.start) for span in word_spans(lines, 0, len(lines))),
    ):
        looks[bisect_right(starts, at) - 1] |= look
    return {word: look for word, look in zip(words, looks, strict=True) if look}


def _occurrences(text: str, word: str) -> Iterator[int]:
    at, size, last = text.find(word), len(word), len(text)
    while at >= 0:
        stop = at + size
        if (not at or text[at - 1].isspace()) and (stop == last or text[stop].isspace()):
            yield at
        at = text.find(word, stop)
