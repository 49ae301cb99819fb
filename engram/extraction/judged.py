"""Recognize a proposal that says again what was judged wrong or outdated. Pure."""

from __future__ import annotations

import re

from engram.enums import Judgement, Voice
from engram.models.episodes import Episode
from engram.models.judgements import JudgedMemory

#: Share of the words of the longer of two statements that the shorter one must have.
MIN_SHARE = 0.8

_WORD = re.compile(r"\w+(?:['’]\w+)?")
_ARTICLES = frozenset(("a", "an", "the"))
#: Words that change what a statement says.
_TURNS = re.compile(r".*\d.*|not|no|never|none|without|instead|only|but|except|.+n['’]t|cannot")


def is_said_again(new: Episode, judged: JudgedMemory) -> bool:
    """Return True if a new memory says what was judged, and nothing newer speaks for it.

    What the user says after a judgement counts; so does what anybody says after a memory was judged outdated, since it
    may hold again.
    """
    is_later = judged.at_ms > 0 and new.created_at_ms > judged.at_ms
    is_users = new.voice in (Voice.USER, Voice.CHOSEN)
    if is_later and (is_users or judged.judgement is Judgement.OUTDATED):
        return False
    return says_the_same(new.summary, judged.episode.summary)


def says_the_same(first: str, second: str) -> bool:
    """Return True if one statement has all words of the other and hardly more, none of which is a number or denies it.

    Two statements that differ in a word each are not the same: one may correct the other.
    """
    short, long = sorted((_words(first), _words(second)), key=len)
    if not short or not short <= long or len(short) < MIN_SHARE * len(long):
        return False
    return not any(_TURNS.fullmatch(word) for word in long - short)


def _words(text: str) -> frozenset[str]:
    return frozenset(_WORD.findall(text.lower())) - _ARTICLES
