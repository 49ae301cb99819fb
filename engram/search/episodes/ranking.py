"""Run the scorers over the candidates: one score each, and what every scorer added to it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from engram.search.episodes.candidates import Column, EpisodeCandidates
from engram.search.episodes.scorers import SCORERS
from engram.search.episodes.weights import Weights
from engram.search.question.parsed import ParsedQuery


@dataclass(frozen=True, slots=True)
class Ranking:
    """Scores in the order of the candidates."""

    score: Column
    #: Name of a scorer → what it added.
    parts: Mapping[str, Column]

    def parts_of(self, index: int) -> dict[str, float]:
        """Return the parts of one candidate that are not 0."""
        return {name: round(float(column[index]), 4) for name, column in self.parts.items() if column[index]}


def rank(candidates: EpisodeCandidates, query: ParsedQuery, weights: Weights) -> Ranking:
    """Score all candidates."""
    score = np.zeros(len(candidates))
    parts: dict[str, Column] = {}
    for scorer in SCORERS:
        parts[scorer.name] = scorer.score(candidates, query, score, weights)
        score = score + parts[scorer.name]
    return Ranking(score, parts)


def best_places(score: Column, limit: int) -> list[int]:
    """Return the places of the best scores, best first; minus infinity is left out."""
    return [int(place) for place in np.argsort(-score, kind="stable")[:limit] if not np.isneginf(score[place])]
