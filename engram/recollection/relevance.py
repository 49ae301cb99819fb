"""The probability that a memory is relevant to a prompt, by a logistic regression over a few features. Pure.

``benchmarks/recollection.py`` fits the weights on prompts of real coding sessions; each is also asked in projects that
it has nothing to do with. Run it again when the ranking or the extractor changes.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from engram.search.episodes.abstain import mean_top_cosine
from engram.search.hits import Hit
from engram.text.recollection_stems import stems
from engram.text.topic_words import topic_words

#: Names of the features, in the order of the weights.
FEATURES = ("cosine", "shared", "both", "text", "rank", "words", "quality", "support", "near")
#: Features are capped at these values: a cosine, a share, a number of words, a quality.
MAX_COSINE, MAX_SHARED, MAX_WORDS, MAX_QUALITY = 0.6, 0.6, 6, 0.6


@dataclass(frozen=True, slots=True)
class Weights:
    """The intercept of a logistic regression and a weight for each feature."""

    intercept: float
    by_feature: tuple[float, ...]


#: Weights for hits with a cosine.
WITH_MODEL = Weights(-16.37, (8.13, 6.36, -13.87, 1.54, -0.09, 0.33, 3.66, 4.53, 7.55))
#: Weights for hits without a cosine. The intercept is a little below the fitted one, to avoid false positives.
TEXT_ALONE = Weights(-9.58, (0.0, 3.12, 0.0, 0.83, 0.0, 0.67, 1.74, 4.09, 0.0))
#: A memory below both, the cosine and the share of the prompt's words that it contains, is irrelevant.
MIN_COSINE, MIN_SHARED = 0.2, 0.5


@dataclass(frozen=True, slots=True)
class Support:
    """The passages that fit a prompt."""

    #: Row id of a turn → score of its best passage, as a share of the best score of all.
    by_turn: Mapping[int, float] = field(default_factory=dict)
    #: Mean cosine of the nearest passages; 0 without a model.
    near: float = 0.0

    @classmethod
    def of(cls, passages: Sequence[Hit]) -> Support:
        """Return the support that passages give."""
        best = max((hit.score for hit in passages), default=0.0)
        by_turn: dict[int, float] = {}
        for hit in passages:
            if hit.turn_id is not None and best > 0:
                by_turn[hit.turn_id] = max(by_turn.get(hit.turn_id, 0.0), hit.score / best)
        return cls(by_turn, mean_top_cosine(hit.cosine for hit in passages if hit.turn_id is not None and hit.cosine))


@dataclass(frozen=True, slots=True)
class FeatureContext:
    """The prompt and the other hits, against which the features of a hit are computed."""

    #: Stems of the prompt's telling words.
    wanted: frozenset[str]
    #: The largest text part of all hits.
    best_text: float
    #: The passages that fit the prompt.
    support: Support
    #: The highest similarity of the prompt to any memory or to the nearest passages.
    near: float

    @classmethod
    def of(cls, text: str, hits: Sequence[Hit], support: Support) -> FeatureContext:
        """Return the context of the hits of a prompt."""
        best = max((hit.parts.get("text", 0.0) for hit in hits), default=0.0)
        nearest = max((min(hit.cosine or 0.0, MAX_COSINE) for hit in hits), default=0.0)
        return cls(stems(topic_words(text)), best, support, max(support.near, nearest))


def features(hit: Hit, rank: int, context: FeatureContext) -> tuple[float, ...]:
    """Return the features of a hit in the order of ``FEATURES``.

    Args:
        hit: an episode.
        rank: its place among the hits, from 0.
        context: what the features are computed against.
    """
    episode = hit.episode
    told = stems(topic_words(hit.text))
    known = told | stems(topic_words(" ".join(episode.entities) if episode is not None else ""))
    shared = min(len(context.wanted & known) / max(len(context.wanted), 1), MAX_SHARED)
    cosine = min(hit.cosine if hit.cosine is not None else 0.0, MAX_COSINE)
    text = hit.parts.get("text", 0.0) / context.best_text if context.best_text > 0 else 0.0
    words = min(len(context.wanted & told), MAX_WORDS)
    quality = min(episode.quality, MAX_QUALITY) if episode is not None else 0.0
    support = context.support.by_turn.get(hit.turn_id, 0.0) if hit.turn_id is not None else _own_support(hit, text)
    return (cosine, shared, cosine * shared, text, 1 / (1 + rank), words, quality, support, context.near)


def _own_support(hit: Hit, text: float) -> float:
    """Return the support of a memory without a turn, such as a saved one: its own text and cosine stand for it."""
    return text if hit.cosine is None else (text + min(hit.cosine, MAX_COSINE) / MAX_COSINE) / 2


def relevance(hit: Hit, rank: int, context: FeatureContext) -> float:
    """Return the probability that a hit is relevant to the prompt."""
    return rate_features(hit, features(hit, rank, context))


def rate_features(hit: Hit, values: Sequence[float]) -> float:
    """Return the probability that a hit with these features is relevant to the prompt."""
    if hit.cosine is None:
        return logistic(TEXT_ALONE, values)
    is_irrelevant = values[0] < MIN_COSINE and values[1] < MIN_SHARED
    return 0.0 if is_irrelevant else logistic(WITH_MODEL, values)


def logistic(weights: Weights, values: Sequence[float]) -> float:
    """Return the value of a logistic regression, from 0 to 1."""
    total = weights.intercept + sum(w * x for w, x in zip(weights.by_feature, values, strict=True))
    return 1 / (1 + math.exp(-max(-60.0, min(60.0, total))))
