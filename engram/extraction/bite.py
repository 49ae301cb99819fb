"""Compose bites: up to forty words of adjacent statements under their heading, one line."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from engram.extraction.candidate import SUMMARY_CHARS, SUMMARY_WORDS
from engram.extraction.cues import GENERIC, NARRATION, STATUS
from engram.extraction.sentences import Block, Statement

#: Longest heading put before a bite, in words.
TOPIC_WORDS = 9
#: Shortest statement that may stand alone, in words.
MIN_WORDS = 4

_OPENER = re.compile(
    r"^(?:(?:done|fixed|perfect|great|good|excellent|ok(?:ay)?|yes|right|sure|now|so|alright|interesting|exactly|correct|"
    r"got it|you're (?:absolutely )?right|good (?:question|point|catch|news))\s*[.!,:—–-]+\s+)+(?=\S)",
    re.IGNORECASE,
)
_TRAIL = re.compile(r"\s*[:;,—–-]+$")
_CLAUSE = re.compile(r"[,;:.)—–]$")
_WORD = re.compile(r"[A-Za-z0-9_]+")


@dataclass(frozen=True, slots=True)
class Passage:
    """Adjacent statements of one message that make one bite."""

    #: Place of the first and behind the last statement in the message.
    start: int
    stop: int
    #: The line itself.
    bite: str
    #: Heading or lead that was put before it; "" where none was.
    prefix: str


def is_chatter(statement: Statement) -> bool:
    """Whether the statement alone is narration, a question to the user or a report of the moment."""
    text = statement.text
    words = len(text.split())
    if words < 2:
        return True
    if statement.block is Block.PROSE:
        if NARRATION.match(text) or (text.endswith("?") and words < 25):
            return True
        if text.endswith(":") and GENERIC.match(text.rstrip(":")):
            return True
    return bool(STATUS.search(text)) and words <= 12


def passages(statements: Sequence[Statement]) -> list[Passage]:
    """A passage for each statement that can begin one, extended over its neighbours to forty words."""
    return [_from(statements, start) for start, first in enumerate(statements) if not is_chatter(first)]


def _from(statements: Sequence[Statement], start: int) -> Passage:
    first = statements[start]
    prefix = _prefix(first)
    words = f"{prefix}: {_opened(first.text)}".split() if prefix else _opened(first.text).split()
    stop = start + 1
    while stop < len(statements) and len(words) < SUMMARY_WORDS:
        more = statements[stop]
        if more.topic != first.topic or is_chatter(more):
            break
        addition = more.text.split()
        if len(words) + len(addition) > SUMMARY_WORDS + 6:
            break
        words = _joined(words, statements[stop - 1], more, addition)
        stop += 1
    return Passage(start, stop, cut(" ".join(words)), prefix)


def _joined(words: list[str], before: Statement, more: Statement, addition: list[str]) -> list[str]:
    """Two statements on one line: bullets are parted by a semicolon, sentences by their full stop."""
    if not words[-1].endswith((".", "!", "?", ":", ";")):
        mark = ";" if more.block is not Block.PROSE or before.block is not Block.PROSE else "."
        return [*words[:-1], words[-1] + mark, *addition]
    return [*words, *addition]


def _opened(text: str) -> str:
    """The text without its opening interjection ("Done.", "You're right,")."""
    rest = _OPENER.sub("", text)
    return rest if len(rest.split()) >= MIN_WORDS else text


def _prefix(statement: Statement) -> str:
    """The heading or lead that the statement needs to be understood; "" where it says nothing or repeats."""
    said = {w.lower() for w in _WORD.findall(statement.text)}
    for label in (statement.lead, statement.topic):
        label = _TRAIL.sub("", label)
        words = [w.lower() for w in _WORD.findall(label)]
        if not words or len(label.split()) > TOPIC_WORDS or GENERIC.match(label):
            continue
        if sum(w in said for w in words) * 2 < len(words):
            return re.sub(r"^\W*\d+[.)]\s*", "", label)
    return ""


def cut(text: str) -> str:
    """The text as one line of at most ``SUMMARY_WORDS`` words, cut at a clause where one ends near."""
    words = text.split()
    if len(words) > SUMMARY_WORDS:
        end = SUMMARY_WORDS
        for place in range(SUMMARY_WORDS, SUMMARY_WORDS - 9, -1):
            if _CLAUSE.search(words[place - 1]):
                end = place
                break
        words = words[:end]
    line = _TRAIL.sub("", " ".join(words))
    if len(line) > SUMMARY_CHARS:
        line = line[:SUMMARY_CHARS].rsplit(" ", 1)[0]
    return line + "`" if line.count("`") % 2 else line
