"""The probability that a text is worth telling for a prompt, by one logistic regression over a few features. Pure.

The features mean the same for every kind of text: a memory by whomever, with questions or without, or a quotation.
``benchmarks/gate.py fit --write`` fits the weights on judged prompts of real coding sessions and writes them with their
provenance to ``relevance_weights.json``. Run it again when the ranking or an extractor changes.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources

from engram.search.episodes.support import Support, stems_of
from engram.search.hits import Hit
from engram.text.recollection_stems import stems
from engram.text.topic_words import topic_words

WEIGHTS_FILE = "relevance_weights.json"
#: Features by closeness, and by words; those of the last line count only for a text whose vector is not known, since
#: words say more there. None is a vector that is far away.
FEATURES = (
    *("meaning", "source", "turn"),
    *("rare", "words", "length"),
    *("unknown", "shared_alone", "words_alone", "support_alone"),
)
#: Features that may only speak against a text; "unknown" may do either, and all others only speak for it.
AGAINST, EITHER = frozenset({"length"}), frozenset({"unknown"})
#: Features are capped at these values: a share, a number of words, a sum of rarities.
MAX_SHARED, MAX_WORDS, MAX_RARITY = 0.6, 6, 20.0


@dataclass(frozen=True, slots=True)
class Weights:
    """The intercept of a logistic regression and a weight for each feature."""

    intercept: float
    by_feature: Mapping[str, float]


@cache
def load_weights() -> Weights:
    """Load the shipped weights."""
    file = resources.files(__package__).joinpath(WEIGHTS_FILE)
    weights = json.loads(file.read_text(encoding="utf-8"))
    return Weights(weights["intercept"], weights["by_feature"])


@dataclass(frozen=True, slots=True)
class FeatureContext:
    """The prompt, and what speaks for the hits apart from their own text."""

    #: Stems of the prompt's telling words.
    wanted: frozenset[str]
    support: Support

    @classmethod
    def of(cls, text: str, support: Support) -> FeatureContext:
        """Return the context of a prompt."""
        return cls(wanted=stems(topic_words(text)), support=support)


def features(hit: Hit, context: FeatureContext) -> dict[str, float]:
    """Return the features of a text by their names; see ``FEATURES``."""
    support = context.support
    shared = context.wanted & stems_of(hit)
    rare = min(sum(support.rarity.get(stem, 0.0) for stem in shared), MAX_RARITY)
    share = min(len(shared) / max(len(context.wanted), 1), MAX_SHARED)
    words = float(min(len(context.wanted & stems(topic_words(hit.text))), MAX_WORDS))
    values = dict.fromkeys(FEATURES, 0.0) | {
        "rare": rare,
        "words": words,
        "length": math.log1p(len(context.wanted)),
    }
    if hit.cosine is None:
        # A text without a turn, such as a saved memory, is supported by its own words.
        of_turn = share / MAX_SHARED if hit.turn_id is None else support.text_by_turn.get(hit.turn_id, 0.0)
        return values | {
            "unknown": 1.0,
            "shared_alone": share,
            "words_alone": words,
            "support_alone": of_turn,
        }
    return values | {
        "meaning": hit.cosine - support.usual_cosine,
        "source": support.by_source.get(hit.row_id, hit.cosine) - support.usual_cosine,
        "turn": support.by_turn.get(hit.row_id, hit.cosine) - support.usual_cosine,
    }


def rate_hit(hit: Hit, context: FeatureContext) -> tuple[float, dict[str, float]]:
    """Return the probability that a hit is relevant to the prompt, and the features that it was computed from."""
    values, weights = features(hit, context), load_weights()
    return logistic(weights, values), {name: values[name] for name in weights.by_feature}


def logistic(weights: Weights, values: Mapping[str, float]) -> float:
    """Return the value of a logistic regression, from 0 to 1."""
    total = weights.intercept + sum(weight * values[name] for name, weight in weights.by_feature.items())
    return 1 / (1 + math.exp(-max(-60.0, min(60.0, total))))
