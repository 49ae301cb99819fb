"""How sure it is that a memory belongs to a prompt: a few features, one number from 0 to 1. Pure.

The weights were fitted by ``benchmarks/recollection.py``, a logistic regression over prompts of real coding sessions, each
also asked of the projects that it has nothing to do with; run it again when the ranking or the extractor changes.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from engram.recollection.prompt_filter import telling_words
from engram.search.episodes.nearest import mean_of_nearest
from engram.search.hits import Hit
from engram.text.stems import stems

#: Names of the features, in the order of the weights.
FEATURES = ("cosine", "shared", "both", "text", "rank", "words", "quality", "support", "near")
#: Beyond these more says nothing more: a cosine, a share, a number of words, a quality.
MOST_COSINE, MOST_SHARED, MOST_WORDS, MOST_QUALITY = 0.6, 0.6, 6, 0.6


@dataclass(frozen=True, slots=True)
class Weights:
    """A logistic regression: intercept, and one weight a feature."""

    intercept: float
    by_feature: tuple[float, ...]


#: With a model.
WITH_MODEL = Weights(-16.37, (8.13, 6.36, -13.87, 1.54, -0.09, 0.33, 3.66, 4.53, 7.55))
#: Where hits have no cosine; the intercept is a little lower than the fit's, against false alarms.
TEXT_ALONE = Weights(-9.58, (0.0, 3.12, 0.0, 0.83, 0.0, 0.67, 1.74, 4.09, 0.0))


#: Below this cosine a memory has nothing to do with a prompt, unless half of the prompt's words stand in it.
LEAST_COSINE, ENOUGH_SHARED = 0.2, 0.5


@dataclass(frozen=True, slots=True)
class Support:
    """What was said that fits the prompt."""

    #: Row id of a turn → how well its best passage fits, as a share of the best passage of all.
    by_turn: Mapping[int, float] = field(default_factory=dict)
    #: The mean cosine of the nearest passages; 0 without a model.
    near: float = 0.0

    @classmethod
    def of(cls, passages: Sequence[Hit]) -> Support:
        """What these passages support."""
        best = max((hit.score for hit in passages), default=0.0)
        by_turn: dict[int, float] = {}
        for hit in passages:
            if hit.turn_id is not None and best > 0:
                by_turn[hit.turn_id] = max(by_turn.get(hit.turn_id, 0.0), hit.score / best)
        return cls(by_turn, mean_of_nearest(hit.cosine for hit in passages if hit.turn_id is not None and hit.cosine))


@dataclass(frozen=True, slots=True)
class Answer:
    """What the features of a hit are measured against."""

    #: The prompt's telling words, as ``stems`` makes them.
    wanted: frozenset[str]
    #: The largest text part of all hits.
    best_text: float
    #: What rests on no turn, such as a memory that was saved by hand, supports itself.
    support: Support
    #: How near the prompt comes to anything at all, a memory or what was said.
    near: float

    @classmethod
    def of(cls, text: str, hits: Sequence[Hit], support: Support) -> Answer:
        """The answer ``hits`` to the prompt ``text``."""
        best = max((hit.parts.get("text", 0.0) for hit in hits), default=0.0)
        nearest = max((min(hit.cosine or 0.0, MOST_COSINE) for hit in hits), default=0.0)
        return cls(stems(telling_words(text)), best, support, max(support.near, nearest))


def features(hit: Hit, rank: int, answer: Answer) -> tuple[float, ...]:
    """The features of one hit.

    Args:
        hit: an episode.
        rank: its place in the answer, from 0.
        answer: what it is measured against.
    """
    episode = hit.episode
    told = stems(telling_words(hit.text))
    known = told | stems(telling_words(" ".join(episode.entities) if episode is not None else ""))
    shared = min(len(answer.wanted & known) / max(len(answer.wanted), 1), MOST_SHARED)
    cosine = min(hit.cosine if hit.cosine is not None else 0.0, MOST_COSINE)
    text = hit.parts.get("text", 0.0) / answer.best_text if answer.best_text > 0 else 0.0
    words = min(len(answer.wanted & told), MOST_WORDS)
    quality = min(episode.quality, MOST_QUALITY) if episode is not None else 0.0
    support = answer.support.by_turn.get(hit.turn_id, 0.0) if hit.turn_id is not None else _own_support(hit, text)
    return (cosine, shared, cosine * shared, text, 1 / (1 + rank), words, quality, support, answer.near)


def _own_support(hit: Hit, text: float) -> float:
    """What stands for the support of a memory that rests on no turn."""
    return text if hit.cosine is None else (text + min(hit.cosine, MOST_COSINE) / MOST_COSINE) / 2


def relevance(hit: Hit, rank: int, answer: Answer) -> float:
    """The probability that a hit belongs to the prompt."""
    found = features(hit, rank, answer)
    if hit.cosine is None:
        return logistic(TEXT_ALONE, found)
    is_far = found[0] < LEAST_COSINE and found[1] < ENOUGH_SHARED
    return 0.0 if is_far else logistic(WITH_MODEL, found)


def logistic(weights: Weights, values: Sequence[float]) -> float:
    """The value of a logistic regression."""
    total = weights.intercept + sum(w * x for w, x in zip(weights.by_feature, values, strict=True))
    return 1 / (1 + math.exp(-max(-60.0, min(60.0, total))))
