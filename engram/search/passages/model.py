"""The learned weights of the signs: a small readable file, made by ``benchmarks/train_ranking.py``."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources

import numpy as np

from engram.search.episodes.pool import Column
from engram.search.episodes.ranking import Ranked
from engram.search.passages.features import GROUPS

#: Scores are shown as a tenth of the sum, so that the best hits lie around 1.
SCALE = 0.1
_FILE = "passage_weights.json"


@dataclass(frozen=True, slots=True)
class LearnedWeights:
    """A weight a sign."""

    by_sign: Mapping[str, float]

    def rank(self, signs: Mapping[str, Column], *, without: Collection[str] = ()) -> Ranked:
        """One score a passage and what each step added; ``without`` leaves steps out by name."""
        parts: dict[str, Column] = {}
        for sign, step in GROUPS.items():
            if step not in without:
                added = SCALE * self.by_sign.get(sign, 0.0) * signs[sign]
                parts[step] = parts[step] + added if step in parts else added
        size = len(next(iter(signs.values())))
        return Ranked(sum(parts.values(), np.zeros(size)), parts)


@cache
def learned_weights(*, with_model: bool) -> LearnedWeights:
    """The weights that ship: those for text and vectors together, or for text alone."""
    file = resources.files(__package__).joinpath(_FILE)
    found = json.loads(file.read_text(encoding="utf-8"))
    return LearnedWeights(found["with_model" if with_model else "text_alone"])
