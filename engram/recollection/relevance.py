"""The probability that a memory is relevant to a prompt, by a logistic regression over a few features. Pure.

``benchmarks/recollection.py --write`` fits the weights on prompts of real coding sessions and writes them with their
provenance to ``relevance_weights.json``. Run it again when the ranking or an extractor changes.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources

from engram.search.episodes.support import Support, stems_of
from engram.search.hits import Hit
from engram.text.recollection_stems import stems
from engram.text.topic_words import topic_words

WEIGHTS_FILE = "relevance_weights.json"
#: Name of a set of weights → its features. A memory has a vector and questions, a vector alone, or neither: without
#: questions its own cosine says less, and so do those of others.
FEATURES: Mapping[str, tuple[str, ...]] = {
    "with_model": ("source", "turn", "special", "siblings", "rivals", "rare"),
    "without_questions": ("source", "turn", "special", "rare"),
    "text_alone": ("shared", "text", "words", "support", "rare"),
}
#: Features are capped at these values: a share, a number of words, a sum of rarities.
MAX_SHARED, MAX_WORDS, MAX_RARITY = 0.6, 6, 20.0
#: Memories next to the best whose mean cosine is that of the rivals.
RIVALS = 4
#: Memories of the same session whose cosines count as those of its siblings.
SIBLINGS = 3


@dataclass(frozen=True, slots=True)
class Weights:
    """The intercept of a logistic regression and a weight for each feature."""

    intercept: float
    by_feature: Mapping[str, float]


@cache
def load_weights(name: str) -> Weights:
    """Load the shipped weights of a set that ``FEATURES`` names."""
    file = resources.files(__package__).joinpath(WEIGHTS_FILE)
    weights = json.loads(file.read_text(encoding="utf-8"))[name]
    return Weights(weights["intercept"], weights["by_feature"])


@dataclass(frozen=True, slots=True)
class FeatureContext:
    """The prompt and the other hits, against which the features of a hit are computed."""

    #: Stems of the prompt's telling words.
    wanted: frozenset[str]
    #: The largest text part of all hits.
    best_text: float
    support: Support
    #: Mean cosine of the hits next to the best.
    rivals: float
    #: Session → row id and cosine of its hits, the closest first.
    by_session: Mapping[str, Sequence[tuple[int, float]]]

    @classmethod
    def of(cls, text: str, hits: Sequence[Hit], support: Support) -> FeatureContext:
        """Return the context of the hits of a prompt."""
        nearest = sorted(((hit.cosine, hit) for hit in hits if hit.cosine is not None), key=lambda pair: -pair[0])
        rivals = [cosine for cosine, _ in nearest[1 : 1 + RIVALS]]
        rivals += [support.usual_cosine] * (RIVALS - len(rivals))
        by_session: dict[str, list[tuple[int, float]]] = {}
        for cosine, hit in nearest:
            if hit.session_id:
                by_session.setdefault(hit.session_id, []).append((hit.row_id, cosine))
        return cls(
            wanted=stems(topic_words(text)),
            best_text=max((hit.parts.get("text", 0.0) for hit in hits), default=0.0),
            support=support,
            rivals=sum(rivals) / RIVALS,
            by_session=by_session,
        )


def features(hit: Hit, context: FeatureContext) -> dict[str, float]:
    """Return all features of a memory by their names; which, depends on whether it has a vector."""
    rarity = context.support.rarity
    rare = min(sum(rarity.get(stem, 0.0) for stem in context.wanted & stems_of(hit)), MAX_RARITY)
    if hit.cosine is None:
        return {**_text_features(hit, context), "rare": rare}
    siblings = [cosine for row_id, cosine in context.by_session.get(hit.session_id, ()) if row_id != hit.row_id]
    return {
        "source": context.support.by_source.get(hit.row_id, hit.cosine),
        "turn": context.support.by_turn.get(hit.row_id, hit.cosine),
        "special": hit.cosine - context.support.usual_cosine,
        "siblings": sum(siblings[:SIBLINGS]) / SIBLINGS,
        "rivals": context.rivals,
        "rare": rare,
    }


def _text_features(hit: Hit, context: FeatureContext) -> dict[str, float]:
    text = hit.parts.get("text", 0.0) / context.best_text if context.best_text > 0 else 0.0
    # A memory without a turn, such as a saved one, is supported by its own text.
    support = text if hit.turn_id is None else context.support.text_by_turn.get(hit.turn_id, 0.0)
    return {
        "shared": min(len(context.wanted & stems_of(hit)) / max(len(context.wanted), 1), MAX_SHARED),
        "text": text,
        "words": min(len(context.wanted & stems(topic_words(hit.text))), MAX_WORDS),
        "support": support,
    }


def relevance(hit: Hit, context: FeatureContext) -> float:
    """Return the probability that a hit is relevant to the prompt."""
    return rate_features(hit, features(hit, context))


def rate_features(hit: Hit, values: Mapping[str, float]) -> float:
    """Return the probability that a hit with these features is relevant to the prompt."""
    return logistic(_weights_of(hit), values)


def counted_features(hit: Hit, values: Mapping[str, float]) -> dict[str, float]:
    """Return those of a hit's features that its relevance is computed from."""
    return {name: values[name] for name in _weights_of(hit).by_feature}


def _weights_of(hit: Hit) -> Weights:
    if hit.cosine is None:
        return load_weights("text_alone")
    has_questions = hit.episode is not None and bool(hit.episode.questions)
    return load_weights("with_model" if has_questions else "without_questions")


def logistic(weights: Weights, values: Mapping[str, float]) -> float:
    """Return the value of a logistic regression, from 0 to 1."""
    total = weights.intercept + sum(weight * values[name] for name, weight in weights.by_feature.items())
    return 1 / (1 + math.exp(-max(-60.0, min(60.0, total))))
