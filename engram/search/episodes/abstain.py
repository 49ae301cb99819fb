"""When to stop, or to say nothing at all: what is hardly likely to answer is not shown. Pure.

Two things are weighed together: how likely a hit is by its signs, and how near the question comes to anything at all.
A question that comes near to much gets many hits, one that comes near to nothing only what is very likely.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from engram.search.episodes.nearest import mean_of_nearest
from engram.search.episodes.pool import Pool
from engram.search.question.coverage import Coverage
from engram.search.question.parsed import Asked

#: The score that a hit must reach at a nearness of 1, and how much less for each 1 more; in a chat scores are lower.
LEAST_SCORE, LEAST_SCORE_CHAT, SLOPE = 0.85, 0.45, 0.45
#: Nearer than this counts no more.
MOST_NEARNESS = 1.33
#: A question that names what stands nowhere is so much further away.
UNKNOWN = 0.83
#: A look-up by few words or by a name that stand somewhere, or by a date, is at least so near; so near, a question gets
#: some hits always.
LOOK_UP_NEARNESS, FEWEST_HITS = 1.2, 3
_FEWEST_TERMS = 3
#: Below this a question comes near to nothing that was said; below the other, by the nearest one alone, to no memory: in
#: a young memory only one may fit.
FAR_NEARNESS, FAR_FROM_MEMORIES = 1.06, 0.93
#: The cosine from which on a memory is shown, in units of the model's relevance floor, for a question that comes near to
#: much, and how much more it takes for each 1 of nearness less.
LEAST_COSINE, COSINE_SLOPE = 0.5, 0.5
#: A memory with so many of the question's telling words, and so large a share of them, is shown at any cosine.
_ENOUGH_WORDS, _ENOUGH_SHARE = 2, 0.5


def nearness(
    asked: Asked, unknown: frozenset[str], texts: Iterable[str], cosines: Iterable[float], relevance_floor: float
) -> float:
    """How near a question comes to what was said, in units of the model's relevance floor.

    Args:
        asked: the question.
        unknown: those of its terms that stand nowhere as a word.
        texts: of the passages that were read.
        cosines: of the passages that were found.
        relevance_floor: the model's cosine below which a text has nothing to do with a question; 0 where there is
            no model, and everything is near.
    """
    if relevance_floor <= 0:
        return MOST_NEARNESS
    near = mean_of_nearest(cosines) / relevance_floor
    is_few_known = len(asked.terms) < _FEWEST_TERMS and not unknown.intersection(asked.terms)
    is_look_up = is_few_known or asked.span is not None
    if asked.names or asked.proper:
        everything = "\n".join(texts).lower()
        is_look_up = is_look_up or any(name in everything for name in asked.names)
        if any(name in unknown and name not in everything for name in asked.proper):
            near -= UNKNOWN
    return max(near, LOOK_UP_NEARNESS) if is_look_up else near


def is_far(near: float) -> bool:
    """True where a question comes near to nothing: for texts whose scores say little by themselves."""
    return near < FAR_NEARNESS


def fitting(pool: Pool, asked: Asked, coverage: Coverage, relevance_floor: float) -> tuple[NDArray[np.bool_], bool]:
    """Which memories may be shown, and whether the question comes near to none of them.

    A memory may that is near enough, or holds a name of the question or half of its telling words; one that has no
    vector yet may, too, and all may where there is no model.
    """
    known = pool.cosine[~np.isnan(pool.cosine)]
    if relevance_floor <= 0 or not len(known):
        return np.ones(len(pool), dtype=np.bool_), False
    near = nearness(asked, coverage.unknown, pool.texts, [float(known.max())], relevance_floor)
    least = relevance_floor * (LEAST_COSINE + COSINE_SLOPE * max(0.0, MOST_NEARNESS - near))
    fits = [
        np.isnan(cosine) or cosine >= least or _is_told(text.lower(), asked, coverage)
        for cosine, text in zip(pool.cosine, pool.texts, strict=True)
    ]
    return np.array(fits, dtype=np.bool_), near < FAR_FROM_MEMORIES


def _is_told(text: str, asked: Asked, coverage: Coverage) -> bool:
    found = coverage.found_in(text)
    is_shared = len(found) >= _ENOUGH_WORDS and len(found) >= _ENOUGH_SHARE * len(asked.terms)
    return is_shared or any(name in text for name in asked.names)


def how_many(scores: Iterable[float], near: float, *, is_chat: bool) -> int:
    """How many of the hits with these scores are likely enough to be shown, for a question that comes so near."""
    least = LEAST_SCORE_CHAT if is_chat else LEAST_SCORE
    likely = sum(score >= least - SLOPE * (min(near, MOST_NEARNESS) - 1.0) for score in scores)
    return max(likely, FEWEST_HITS) if near >= LOOK_UP_NEARNESS else likely
