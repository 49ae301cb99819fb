"""Runs the steps over the candidates: one score each, and what every step added to it."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

import numpy as np

from engram.search.episodes.pool import Column, Pool
from engram.search.episodes.scorers import STEPS
from engram.search.episodes.weights import Weights
from engram.search.question.parsed import Asked


@dataclass(frozen=True, slots=True)
class Ranked:
    """Scores in the order of the pool."""

    score: Column
    #: Name of a step → what it added.
    parts: Mapping[str, Column]

    def parts_of(self, index: int) -> dict[str, float]:
        """The parts of one candidate that are not 0."""
        return {name: round(float(column[index]), 4) for name, column in self.parts.items() if column[index]}


def rank(pool: Pool, asked: Asked, weights: Weights, *, without: Collection[str] = ()) -> Ranked:
    """Score all candidates; ``without`` leaves steps out by name."""
    score = np.zeros(len(pool))
    parts: dict[str, Column] = {}
    for step in STEPS:
        if step.name not in without:
            added = step.added(pool, asked, score, weights)
            parts[step.name] = added
            score = score + added
    return Ranked(score, parts)
