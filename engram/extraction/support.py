"""Find the messages that say the same as a memory, to add them to its evidence and content."""

from __future__ import annotations

from collections.abc import Iterable

from engram.text.content_words import content_words
from engram.transcripts.record import TextBlock

#: Minimum share of a memory's words that a message must contain to support it.
MIN_SUPPORT_SHARE = 0.3
#: Maximum number of supporting messages of a memory, and of characters of each in its content.
MAX_SUPPORTS = 2
MAX_SUPPORT_CHARACTERS = 300


def supporting(bite: str, messages: Iterable[TextBlock]) -> list[TextBlock]:
    """Return the messages that say much of what a bite says, the closest first."""
    words = content_words(bite)
    shares = [
        (len(words & content_words(message.text)) / max(1, len(words)), message) for message in messages if message.uuid
    ]
    near = sorted((pair for pair in shares if pair[0] >= MIN_SUPPORT_SHARE), key=lambda pair: -pair[0])
    return [message for _, message in near[:MAX_SUPPORTS]]


def excerpt(message: TextBlock, bite: str) -> str:
    """Return the part of a supporting message that a content quotes: from the line nearest to the bite on."""
    words = content_words(bite)
    lines = message.text.splitlines()
    best = max(range(len(lines)), key=lambda number: len(words & content_words(lines[number])), default=0)
    return "[also] " + "\n".join(lines[best:]).strip()[:MAX_SUPPORT_CHARACTERS]
