"""Exchanges: a bite of what the user asked for, in few words, and of the telling part of the answer."""

from __future__ import annotations

import re
from collections.abc import Sequence

from engram.extraction import cues
from engram.extraction.bite import cut, is_chatter, joined, opened
from engram.extraction.candidate import MAX_SUMMARY_WORDS
from engram.text.statements import Statement

#: Maximum length of the user's part of a bite, in words.
MAX_ASKED_WORDS = 20
#: Separates the user's part from the answer.
ARROW = "→"

#: Texts that only say: go on.
_GO_AHEAD = re.compile(
    r"^\W*(?:(?:yes|yeah|yep|ok(?:ay)?|sure|great|good|nice|perfect|cool|thanks?|alright|right)\b[\s,.!]*)*"
    r"(?:please\s+)?(?:(?:let'?s\s+)?(?:implement|do|try|fix|commit|push|go|continue|proceed|start|run|merge|apply|write)\b"
    r"(?:\s+(?:this|it|that|these|the|for|with|on|ahead|following|plan|all|so|and|commit|push|changes?|branch|tests?|now|again|"
    r"please|up|them|next))*|looks? good|sounds? good|go ahead)?\W*$",
    re.IGNORECASE,
)


def asked_part(typed: Sequence[Statement]) -> str:
    """Return the user's telling sentence: one with a wish or a rule, else the first; "" if there is none."""
    said = [s.text for s in typed if not is_chatter(s, is_user=True) and not _GO_AHEAD.match(s.text)]
    if not said:
        return ""
    best = max(said, key=lambda text: (len(cues.WISH.findall(text)) > 0, len(text.split()) <= MAX_ASKED_WORDS))
    words = best.split()
    return " ".join(words[:MAX_ASKED_WORDS]) + ("…" if len(words) > MAX_ASKED_WORDS else "")


def exchange_bite(asked: str, answer: Sequence[Statement]) -> tuple[str, int, int]:
    """Return a line of question and answer, and which statements of the answer it contains.

    Args:
        asked: The user's part.
        answer: Statements of the message that answers.

    Returns:
        The bite, the index of the first statement and the index after the last one; "" if the answer says nothing.
    """
    words = [*asked.rstrip(".!").split(), ARROW]
    start = stop = -1
    for at, statement in enumerate(answer):
        if is_chatter(statement):
            continue
        addition = opened(statement.text).split()
        if start >= 0 and len(words) + len(addition) > MAX_SUMMARY_WORDS:
            break
        words = joined(words, answer[stop - 1], statement, addition) if start >= 0 else [*words, *addition]
        start = at if start < 0 else start
        stop = at + 1
        if len(words) >= MAX_SUMMARY_WORDS:
            break
    return (cut(" ".join(words)), start, stop) if start >= 0 else ("", 0, 0)
