"""What one hit holds: the entries of one turn that answer together, a prompt with its reply, no more. Pure."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from engram.search.episodes.pool import Column
from engram.search.passages.candidate_set import Read
from engram.search.passages.model import SCALE

#: Entries of a turn that one hit shows at most, and their words together.
MOST_ENTRIES, MOST_WORDS = 3, 100
#: An entry joins a better one of its turn where it is at least a seventh (1 / e²) as likely to answer.
_NEARLY = 2.0 * SCALE
#: What is so much worse than the last hit can neither join one that is shown nor become one.
_TOO_LATE = _NEARLY + SCALE * math.log(MOST_ENTRIES)


@dataclass(slots=True)
class Exchange:
    """The best passages of up to three entries of one turn."""

    #: Indexes into what was read closely, the best first.
    indexes: list[int]
    #: What each would show.
    texts: list[str]
    #: The best one's score.
    best: float
    #: The likelihoods of all, added up, on the scale of a score.
    score: float
    words: int

    def joins(self, score: float, words: int) -> bool:
        """True where another entry of the turn belongs here: nearly as good, and there is room."""
        return len(self.indexes) < MOST_ENTRIES and self.words + words <= MOST_WORDS and self.best - score < _NEARLY

    def add(self, index: int, score: float, text: str, words: int) -> None:
        """Take another entry in."""
        self.indexes.append(index)
        self.texts.append(text)
        self.words += words
        self.score = float(SCALE * np.logaddexp(self.score / SCALE, score / SCALE))


def exchanges(read: Read, score: Column, limit: int, shown: Callable[[int], str]) -> list[Exchange]:
    """The best hits, at most ``limit``, best first; each entry stands in one, by its best passage.

    Args:
        read: what was read closely.
        score: a score for each of it; what must not be shown has an infinitely low one.
        limit: hits at most.
        shown: index → the text that would be shown.
    """
    found: list[Exchange] = []
    of_turn: dict[int, Exchange] = {}
    seen: set[int] = set()
    for index in (int(one) for one in np.argsort(-score, kind="stable")):
        if np.isneginf(score[index]) or (len(found) >= limit and found[limit - 1].best - score[index] >= _TOO_LATE):
            break
        place = int(read.chosen[index])
        said, turn = int(read.pool.said[place]), int(read.pool.turn[place])
        if said in seen:
            continue
        seen.add(said)
        text = shown(index)
        words = len(text.split())
        known = of_turn.get(turn)
        if known is not None and known.joins(float(score[index]), words):
            known.add(index, float(score[index]), text, words)
        else:
            of_turn[turn] = Exchange([index], [text], float(score[index]), float(score[index]), words)
            found.append(of_turn[turn])
    return sorted(found, key=lambda one: -one.score)[:limit]
