"""Group the ranked passages of one turn into a hit: a prompt with its reply, and no more than a few entries. Pure."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from engram.search.episodes.candidates import Column
from engram.search.passages.candidate_set import Shortlist
from engram.search.passages.model import SCORE_SCALE

#: Maximum number of entries of a turn in one hit, and of their words together.
MAX_ENTRIES, MAX_WORDS = 3, 100
#: An entry joins a better one of its turn if it is at least a seventh (1 / e²) as likely to answer.
_MAX_SCORE_GAP = 2.0 * SCORE_SCALE
#: A passage that is this much worse than the last hit can neither join a hit nor become one.
_CUTOFF_GAP = _MAX_SCORE_GAP + SCORE_SCALE * math.log(MAX_ENTRIES)


@dataclass(slots=True)
class HitGroup:
    """The best passages of up to three entries of one turn."""

    #: Indexes of the shortlist, the best first.
    indexes: list[int]
    #: The text that each passage shows.
    texts: list[str]
    #: Score of the best passage.
    best_score: float
    #: Sum of the likelihoods of all passages, on the scale of a score.
    score: float
    words: int

    def accepts(self, score: float, words: int) -> bool:
        """Return whether another entry of the turn belongs here: nearly as good, and there is room."""
        has_room = len(self.indexes) < MAX_ENTRIES and self.words + words <= MAX_WORDS
        return has_room and self.best_score - score < _MAX_SCORE_GAP

    def add(self, index: int, score: float, text: str, words: int) -> None:
        """Add a passage of another entry."""
        self.indexes.append(index)
        self.texts.append(text)
        self.words += words
        self.score = float(SCORE_SCALE * np.logaddexp(self.score / SCORE_SCALE, score / SCORE_SCALE))


def group_hits(shortlist: Shortlist, score: Column, limit: int, shown_text: Callable[[int], str]) -> list[HitGroup]:
    """Return the best groups, best first; each entry is in one of them, by its best passage.

    Args:
        shortlist: the ranked passages.
        score: a score for each; minus infinity leaves a passage out.
        limit: maximum number of groups.
        shown_text: returns the text to show for an index of the shortlist.
    """
    groups: list[HitGroup] = []
    group_of_turn: dict[int, HitGroup] = {}
    seen_blocks: set[int] = set()
    for index in (int(place) for place in np.argsort(-score, kind="stable")):
        if np.isneginf(score[index]):
            break
        if len(groups) >= limit and groups[limit - 1].best_score - score[index] >= _CUTOFF_GAP:
            break
        place = int(shortlist.places[index])
        block, turn = int(shortlist.candidates.block[place]), int(shortlist.candidates.turn[place])
        if block in seen_blocks:
            continue
        seen_blocks.add(block)
        text = shown_text(index)
        words = len(text.split())
        group = group_of_turn.get(turn)
        if group is not None and group.accepts(float(score[index]), words):
            group.add(index, float(score[index]), text, words)
        else:
            group_of_turn[turn] = HitGroup(
                indexes=[index],
                texts=[text],
                best_score=float(score[index]),
                score=float(score[index]),
                words=words,
            )
            groups.append(group_of_turn[turn])
    return sorted(groups, key=lambda group: -group.score)[:limit]
