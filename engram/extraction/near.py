"""Select the existing memories that are near to some turns, by common words. Pure, and the same on every machine.

Vectors are not used: the same memories and turns must make the same request everywhere, so that recorded answers fit.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence

from engram.extraction.request import MAX_NEAR_MEMORIES
from engram.models.episodes import Episode
from engram.text.content_words import content_words, prefixes
from engram.transcripts.record import Turn

#: Minimum share of a memory's words, weighted by rarity, that a single turn must contain.
MIN_SHARE = 0.2


def nearest(episodes: Sequence[Episode], turns: Iterable[Turn], limit: int = MAX_NEAR_MEMORIES) -> list[Episode]:
    """Return the memories that are near to one of the turns, the nearest first.

    Args:
        episodes: memories to choose from.
        turns: the turns of a request.
        limit: maximum number of memories.
    """
    words_of = [prefixes(content_words(" ".join((episode.summary, *episode.entities)))) for episode in episodes]
    counts = Counter(word for words in words_of for word in words)
    weight = {word: math.log(1 + len(episodes) / count) for word, count in counts.items()}
    turn_words = [_words(turn) for turn in turns]
    ranked = []
    for episode, words in zip(episodes, words_of, strict=True):
        whole = sum(sorted(weight[word] for word in words))
        share = max((sum(sorted(weight[w] for w in words & said)) for said in turn_words), default=0.0) / (whole or 1)
        if share >= MIN_SHARE:
            ranked.append((-round(share, 2), -episode.created_at_ms, episode.summary, episode))
    return [episode for *_, episode in sorted(ranked, key=lambda row: row[:3])[:limit]]


def _words(turn: Turn) -> frozenset[str]:
    return prefixes(content_words("\n".join(said.text for said in turn.said)))
