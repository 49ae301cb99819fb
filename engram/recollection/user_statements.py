"""What the user said of the matter of a memory that a language model wrote in words of its own."""

from __future__ import annotations

import re
from collections.abc import Sequence

from engram.models.recent import CitedText
from engram.redaction.voice import typed_text
from engram.text.agreement import agrees
from engram.text.content_words import content_words, prefixes
from engram.transcripts.record import Role

#: Minimum number of content words of a summary that the user's statements must contain. A single one may be the name of
#: the project.
MIN_COMMON_WORDS = 2
#: Words of a summary about the speakers themselves.
_ABOUT_THE_SPEAKERS = frozenset(("user", "assistant"))
_SENTENCE = re.compile(r"[^.!?\n]*(?:[.!?](?!\s|$)[^.!?\n]*)*[.!?\n]?")


def is_backed_by_user(summary: str, cited: Sequence[CitedText]) -> bool:
    """Return True if the user chose what a memory says, typed a statement about it, or agreed with the assistant.

    What was pasted, quoted or relayed does not count, nor do questions.

    Args:
        summary: of the memory.
        cited: the texts that the memory rests on.
    """
    if any(text.role is Role.CHOSEN for text in cited):
        return True
    has_proposal = any(text.role is Role.ASSISTANT for text in cited)
    matter = prefixes(content_words(summary) - _ABOUT_THE_SPEAKERS)
    for text in cited:
        if text.role is not Role.USER:
            continue
        typed = typed_text(text.text)
        if has_proposal and agrees(typed):
            return True
        if len(matter & prefixes(content_words(_statements(typed)))) >= MIN_COMMON_WORDS:
            return True
    return False


def may_be_pasted(cited: Sequence[CitedText]) -> bool:
    """Return True if a memory rests on a text of the user's that they did not type as a whole, or on no text at all."""
    return not cited or any(
        text.role is Role.USER and typed_text(text.text).split() != text.text.split() for text in cited
    )


def _statements(typed: str) -> str:
    """Return the sentences that are no questions."""
    return " ".join(sentence for sentence in _SENTENCE.findall(typed) if not sentence.rstrip(" \n\"')").endswith("?"))
