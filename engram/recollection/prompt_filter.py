"""Decide whether a prompt is worth a search in the memory. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass

from engram.enums import Verdict
from engram.text.question_words import MAX_QUERY_CHARS
from engram.text.topic_words import topic_words
from engram.transcripts.speaker import is_interruption, typed_words
from engram.transcripts.text import PICTURE

#: Minimum number of topic words of a prompt that is searched for.
MIN_WORDS = 2

_NAME = re.compile(r"[a-z][A-Z]|\w[._/:#-]\w|\w_\w|\d{2,}")
_COMMAND = re.compile(r"/[\w:.-]+\s*")


@dataclass(frozen=True, slots=True)
class FilteredPrompt:
    """The part of a prompt that is searched for."""

    #: "" if nothing should be injected.
    text: str
    #: Why nothing should be; None for a prompt that is searched for.
    verdict: Verdict | None = None


def filter_prompt(prompt: object) -> FilteredPrompt:
    """Return the part of a prompt that is searched for, or why there is none.

    Nothing is searched for what a program wrote (notifications, command output), for bare commands, agreement, thanks,
    requests to go on, and prompts with fewer than two topic words.
    """
    typed = typed_words(prompt) if isinstance(prompt, str) else ""
    if not typed or typed == PICTURE or is_interruption(typed):
        return FilteredPrompt("", Verdict.NOT_TYPED)
    command = _COMMAND.match(typed)
    text = typed[command.end() :] if command else typed
    text = text[:MAX_QUERY_CHARS].strip()
    return FilteredPrompt(text) if is_telling(text) else FilteredPrompt("", Verdict.TOO_SHORT)


def search_text(prompt: object) -> str:
    """Return the part of a prompt that is searched for; "" if nothing should be injected."""
    return filter_prompt(prompt).text


def is_telling(text: str) -> bool:
    """Return True if the text names a topic."""
    words = topic_words(text)
    if len(words) >= MIN_WORDS:
        return True
    return any(_NAME.search(word) or (not word.isascii() and len(word) > 3) for word in words)
