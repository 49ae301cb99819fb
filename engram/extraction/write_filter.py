"""Filter what is written: recognize text that never becomes a memory, and repetitions."""

from __future__ import annotations

import re
from collections.abc import Iterable

#: The tag around every text that Engram injects; nothing is learned from a message that contains it.
INJECTION_MARKER = "engram-memories"
#: Number of first letters by which two forms of a word are equal.
BEGINNING_LETTERS = 6
#: Share of common words, of the shorter bite, from which on two bites say the same.
SAME_SHARE = 0.6

_STOP_WORDS = """
a an the is are was were be been to of in on at for with by from and or not no as it its this that these
those when where which who how if so than then there they we our you your i my do does did has have had can
could should would will may about into over out up only also more now all each per via use used using new
"""
_STOP = frozenset(_STOP_WORDS.split())
_WORD = re.compile(r"[A-Za-z0-9_]+")
_OWN = re.compile(rf"</?{INJECTION_MARKER}\b|\[ep_[0-9a-z]{{6,}}\]", re.IGNORECASE)
_LOG_LINE = re.compile(
    r"^\s*(?:\d{4}-\d\d-\d\d[T ]\d\d:\d\d|\[?\d\d:\d\d:\d\d|(?:INFO|DEBUG|WARN(?:ING)?|ERROR|TRACE|FATAL)\b|"
    r"at \S+ ?\(|File \"|Traceback|goroutine \d|--- (?:FAIL|PASS)|=== RUN|[+-]{3} [ab]/|@@ |\$ |> )"
)


def is_own(text: str) -> bool:
    """Return True if the text contains something that Engram injected."""
    return bool(_OWN.search(text))


def is_log(text: str) -> bool:
    """Return True if most lines are of a pasted log, stack trace or diff."""
    lines = [line for line in text.splitlines() if line.strip()]
    return len(lines) >= 3 and sum(bool(_LOG_LINE.match(line)) for line in lines) * 2 >= len(lines)


def content_words(text: str) -> frozenset[str]:
    """Return the words that carry content, in lower case."""
    return frozenset(w for w in map(str.lower, _WORD.findall(text)) if w not in _STOP and len(w) > 1)


def beginnings(words: Iterable[str]) -> frozenset[str]:
    """Return the first letters of words, so that "validates" matches "validation"."""
    return frozenset(word[:BEGINNING_LETTERS] for word in words)


def repeats(bite: str, others: Iterable[frozenset[str]]) -> bool:
    """Return True if a bite says the same as one of the others, which are given as ``content_words``."""
    words = content_words(bite)
    if not words:
        return True
    return any(len(words & other) >= SAME_SHARE * max(1, min(len(words), len(other))) for other in others)
