"""Why a memory was relevant enough or not: each feature with what it adds, as bars."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources

#: Feature → what it means.
NAMES: Mapping[str, str] = {
    "meaning": "closer than usual",
    "source": "what it rests on is close",
    "turn": "its turn is close",
    "rare": "rare words in common",
    "words": "words in common",
    "length": "the prompt is long",
    "unknown": "found by words alone",
    "shared_alone": "share of the words in common",
    "words_alone": "words in common",
    "support_alone": "words of its turn in common",
}
#: Widest bar, in units of the picture.
MAX_BAR = 90.0


@dataclass(frozen=True, slots=True)
class FeatureBar:
    """One feature of a memory that was considered."""

    name: str
    value: float
    #: Weight × value: what it adds to the relevance, or takes from it, in log odds.
    adds: float
    #: Width of its bar, from 0 to ``MAX_BAR``.
    width: float


def feature_bars(features: Mapping[str, float]) -> list[FeatureBar]:
    """Return a bar for each feature, the strongest first. The weights are those of this version."""
    weights = _weights()
    adds = {name: weights.get(name, 0.0) * value for name, value in features.items()}
    strongest = max((abs(amount) for amount in adds.values()), default=0.0) or 1.0
    ordered = sorted(features.items(), key=lambda pair: -abs(adds[pair[0]]))
    return [
        FeatureBar(NAMES.get(name, name), value, adds[name], abs(adds[name]) / strongest * MAX_BAR)
        for name, value in ordered
    ]


@cache
def _weights() -> Mapping[str, float]:
    """Return the shipped weights. Their own module loads the search, so the file is read here."""
    file = resources.files("engram.recollection").joinpath("relevance_weights.json")
    by_feature: Mapping[str, float] = json.loads(file.read_text(encoding="utf-8"))["by_feature"]
    return by_feature
