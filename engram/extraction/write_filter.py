"""The gate at writing: what never becomes a memory, and what repeats what is there."""

from __future__ import annotations

import re
from collections.abc import Iterable

#: The tag around every text that Engram injects; a message that holds it repeats Engram and is never learned from.
INJECTION_MARKER = "engram-memories"
#: Letters by which two forms of one word are the same.
BEGINNING_LETTERS = 6
#: Share of the shorter bite's words that the other holds, from which both say the same.
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
    """Whether the text holds what Engram injected: it never becomes a memory again."""
    return bool(_OWN.search(text))


def is_log(text: str) -> bool:
    """Whether most lines are a pasted log, stack or diff."""
    lines = [line for line in text.splitlines() if line.strip()]
    return len(lines) >= 3 and sum(bool(_LOG_LINE.match(line)) for line in lines) * 2 >= len(lines)


def content_words(text: str) -> frozenset[str]:
    """Words that carry content, for telling repetitions."""
    return frozenset(w for w in map(str.lower, _WORD.findall(text)) if w not in _STOP and len(w) > 1)


def beginnings(words: Iterable[str]) -> frozenset[str]:
    """Words by their first letters, so that "validates" is found where "validation" was said."""
    return frozenset(word[:BEGINNING_LETTERS] for word in words)


def repeats(bite: str, others: Iterable[frozenset[str]]) -> bool:
    """Whether a bite says what one of the others (as ``content_words``) says already."""
    words = content_words(bite)
    if not words:
        return True
    return any(len(words & other) >= SAME_SHARE * max(1, min(len(words), len(other))) for other in others)
