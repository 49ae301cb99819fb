"""Filter what is written: recognize text that never becomes a memory, and repetitions."""

from __future__ import annotations

import re
from collections.abc import Iterable

from engram.text.content_words import content_words

#: The tag around every text that Engram injects; nothing is learned from a message that contains it.
INJECTION_MARKER = "engram-memories"
#: Share of common words, of the shorter bite, from which on two bites say the same.
SAME_SHARE = 0.6

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


def repeats(bite: str, others: Iterable[frozenset[str]]) -> bool:
    """Return True if a bite says the same as one of the others, which are given as ``content_words``."""
    words = content_words(bite)
    if not words:
        # The words of other scripts are not compared; a line without any letter says nothing.
        return not any(letter.isalpha() for letter in bite)
    return any(len(words & other) >= SAME_SHARE * max(1, min(len(words), len(other))) for other in others)
