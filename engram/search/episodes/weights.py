"""The weights of the scorers of memories."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Weights:
    """The weight of each scorer. Text and vector are scaled to 0..1 over the candidates before they are weighed."""

    text: float = 0.4
    vector: float = 0.6
    #: Share of the mean of its session's three best that a memory gets.
    session: float = 0.05
    #: The memory is of the time that the question names.
    time: float = 0.15
    #: Names of the question (paths, symbols, commands) that the memory contains.
    names: float = 0.1
    #: Deducted from memories that are superseded, archived or judged wrong.
    validity: float = 0.8
    pinned: float = 0.03
    importance: float = 0.02
    #: Tie-breakers.
    recency: float = 0.005
    access: float = 0.005


EPISODE_WEIGHTS = Weights()
