"""The learned linear model over the features of a passage; ``benchmarks/train_ranking.py`` writes its weights."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources

import numpy as np

from engram.search.episodes.candidates import Column
from engram.search.episodes.ranking import Ranking
from engram.search.passages.features import FEATURE_GROUPS

#: A score is a tenth of the weighted sum, so that the best hits are around 1.
SCORE_SCALE = 0.1
WEIGHTS_FILE = "passage_weights.json"


@dataclass(frozen=True, slots=True)
class RankingModel:
    """One weight for each feature."""

    weights: Mapping[str, float]

    def rank(self, features: Mapping[str, Column], *, without: Collection[str] = ()) -> Ranking:
        """Return one score for each passage, and what each feature group added.

        Args:
            features: the columns of ``extract_features``.
            without: names of feature groups to leave out.
        """
        parts: dict[str, Column] = {}
        for feature, group in FEATURE_GROUPS.items():
            if group not in without:
                added = SCORE_SCALE * self.weights.get(feature, 0.0) * features[feature]
                parts[group] = parts[group] + added if group in parts else added
        size = len(next(iter(features.values())))
        return Ranking(sum(parts.values(), np.zeros(size)), parts)


@cache
def load_ranking_model(*, with_vectors: bool) -> RankingModel:
    """Load the shipped weights: those for text and vectors, or those for text alone."""
    file = resources.files(__package__).joinpath(WEIGHTS_FILE)
    weights = json.loads(file.read_text(encoding="utf-8"))
    return RankingModel(weights["with_model" if with_vectors else "text_alone"])
