"""Compose bites: one line of up to forty words from adjacent statements, with their heading."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from engram.extraction.candidate import MAX_CANDIDATE_SUMMARY_CHARACTERS, MAX_SUMMARY_WORDS
from engram.extraction.cues import CAUSE, CHOICE, GENERIC, NARRATION, PROBLEM, RULE, STATUS
from engram.extraction.languages import word_count
from engram.text.statements import Block, Statement

#: Maximum length of a heading put before a bite, in words.
MAX_TOPIC_WORDS = 9
#: Minimum length of a statement that may stand alone, in words.
MIN_WORDS = 4
#: Maximum length of an interjection without a name or a cue ("You're right.", "There it is."), in words.
MAX_INTERJECTION_WORDS = 4
#: How many words a passage may have beyond its forty before it is cut.
MAX_EXCESS_WORDS = 6
#: Maximum distance between two statements of a passage.
MAX_GAP_STATEMENTS = 2

_OPENER = re.compile(
    r"^(?:(?:done|fixed|perfect|great|good|excellent|ok(?:ay)?|yes|right|sure|now|so|alright|interesting|exactly|"
    r"correct|"
    r"got it|you're (?:absolutely )?right|good (?:question|point|catch|news)|found it|confirmed|"
    r"(?:i )?(?:found|see) (?:the|a|an) (?:real |actual )?(?:bug|issue|problem|root cause|culprit))"
    r"\s*[.!,:—–-]+\s+)+(?=\S)",
    re.IGNORECASE,
)
#: What makes even a short sentence informative: a name or a number.
_TELLS = re.compile(r"[`\d_/]|\w[A-Z]|\w\.\w")
_SAID = re.compile("|".join(cue.pattern for cue in (PROBLEM, CHOICE, CAUSE, RULE)), re.IGNORECASE)
_TRAIL = re.compile(r"\s*[:;,—–-]+$")
_CLAUSE = re.compile(r"[,;:.)—–]$")
_WORD = re.compile(r"[A-Za-z0-9_]+")


@dataclass(frozen=True, slots=True)
class Passage:
    """Adjacent statements of a message that make a bite."""

    #: Index of the first statement in the message, and the index after the last one.
    start: int
    stop: int
    #: The line itself.
    bite: str
    #: Heading or lead put before it; "" for none.
    prefix: str


def is_chatter(statement: Statement, *, is_user: bool = False) -> bool:
    """Return True for narration, a question to the user, or a report of a passing state."""
    text = statement.text
    words = word_count(text)
    if words < 2:
        return True
    if is_user:
        return words < MIN_WORDS
    if statement.block is Block.PROSE:
        if words <= MAX_INTERJECTION_WORDS and not _TELLS.search(text) and not _SAID.search(text):
            return True
        if NARRATION.match(text) or (text.endswith("?") and words < 25):
            return True
        if text.endswith(":") and GENERIC.match(text.rstrip(":")):
            return True
    return bool(STATUS.search(text)) and words <= 12


def passages(statements: Sequence[Statement], *, is_user: bool = False) -> list[Passage]:
    """Return a passage for each statement that can begin one, extended to forty words."""
    kept = [i for i, statement in enumerate(statements) if not is_chatter(statement, is_user=is_user)]
    return [_from(statements, kept[at:], is_user) for at in range(len(kept))]


def _from(statements: Sequence[Statement], kept: Sequence[int], is_user: bool) -> Passage:
    """Return the passage that begins at the first of ``kept``; statements that are not kept are skipped."""
    start = kept[0]
    first = statements[start]
    prefix = _prefix(first)
    words = f"{prefix}: {opened(first.text)}".split() if prefix else opened(first.text).split()
    last = start
    for at in kept[1:]:
        more = statements[at]
        if more.topic != first.topic or at - last > MAX_GAP_STATEMENTS:
            break
        addition = opened(more.text).split()
        if len(words) + len(addition) > MAX_SUMMARY_WORDS + MAX_EXCESS_WORDS:
            break
        words = joined(words, statements[last], more, addition)
        last = at
    return Passage(start, last + 1, cut(" ".join(words)), prefix)


def joined(words: list[str], before: Statement, more: Statement, addition: list[str]) -> list[str]:
    """Join two statements on one line: with a semicolon between bullets, with a full stop between sentences."""
    if not words[-1].endswith((".", "!", "?", ":", ";")):
        mark = ";" if more.block is not Block.PROSE or before.block is not Block.PROSE else "."
        return [*words[:-1], words[-1] + mark, *addition]
    return [*words, *addition]


def opened(text: str) -> str:
    """Return the text without its opening interjection ("Done.", "You're right,")."""
    rest = _OPENER.sub("", text)
    return rest if len(rest.split()) >= MIN_WORDS else text


def _prefix(statement: Statement) -> str:
    """Return the heading or lead that the statement needs; "" if they say nothing or repeat it."""
    said = {w.lower() for w in _WORD.findall(statement.text)}
    for label in (statement.lead, statement.topic):
        label = _TRAIL.sub("", label)
        words = [w.lower() for w in _WORD.findall(label)]
        if not words or len(label.split()) > MAX_TOPIC_WORDS or GENERIC.match(label) or NARRATION.match(label):
            continue
        if sum(w in said for w in words) * 2 < len(words):
            return re.sub(r"^\W*\d+[.)]\s*", "", label)
    return ""


def cut(text: str) -> str:
    """Return one line of at most ``MAX_SUMMARY_WORDS`` words, cut at the end of a clause if one is near."""
    words = text.split()
    line = " ".join(words)
    if len(words) > MAX_SUMMARY_WORDS:
        near = range(MAX_SUMMARY_WORDS, MAX_SUMMARY_WORDS - 9, -1)
        end = next((place for place in near if _CLAUSE.search(words[place - 1])), MAX_SUMMARY_WORDS)
        line = " ".join(words[:end])
        line = line if line.endswith(".") else _TRAIL.sub("", line) + "…"
    line = _TRAIL.sub("", line)
    if len(line) > MAX_CANDIDATE_SUMMARY_CHARACTERS:
        line = line[:MAX_CANDIDATE_SUMMARY_CHARACTERS].rsplit(" ", 1)[0]
    return line + "`" if line.count("`") % 2 else line
