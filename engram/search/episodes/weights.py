"""The weights of the ranking, one number a step."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Weights:
    """What each step counts. Text and vector are scaled to 0..1 over the candidates before they are weighed."""

    text: float = 0.4
    vector: float = 0.6
    #: Share of its neighbours' scores that a passage gets.
    neighbours: float = 0.2
    #: Share of the mean of its session's three best.
    session: float = 0.15
    #: A time named in the question is the candidate's.
    time: float = 0.15
    #: Names of the question (paths, symbols, commands) that stand in the candidate.
    names: float = 0.1
    #: Superseded and archived sink.
    validity: float = 0.8
    pinned: float = 0.03
    importance: float = 0.02
    #: Tie-breakers.
    recency: float = 0.005
    access: float = 0.005


PASSAGE_WEIGHTS = Weights()
EPISODE_WEIGHTS = Weights(neighbours=0.0, session=0.05)
