"""The gate at writing: what never becomes a memory, and what repeats what is there."""

from __future__ import annotations

import re
from collections.abc import Iterable

from engram.text.content_words import content_words

#: The tag around every text that Engram injects; a message that holds it repeats Engram and is never learned from.
INJECTION_MARKER = "engram-memories"
#: Share of the shorter bite's words that the other holds, from which both say the same.
SAME_SHARE = 0.6

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


def repeats(bite: str, others: Iterable[frozenset[str]]) -> bool:
    """Whether a bite says what one of the others (as ``content_words``) says already."""
    words = content_words(bite)
    if not words:
        return True
    return any(len(words & other) >= SAME_SHARE * max(1, min(len(words), len(other))) for other in others)
