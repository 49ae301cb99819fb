"""Pictures that the server draws: bars for the days, without a script and without inline style."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

#: Height of a picture in its own units; each bar is ``BAR_WIDTH`` wide with a gap of 1.
HEIGHT, BAR_WIDTH = 40, 9


@dataclass(frozen=True, slots=True)
class Bar:
    """One bar."""

    x: int
    y: float
    height: float
    number: int


@dataclass(frozen=True, slots=True)
class BarChart:
    """A row of bars, the last one for today."""

    bars: tuple[Bar, ...]
    width: int
    most: int
    total: int


def bar_chart(numbers: Sequence[int]) -> BarChart:
    """Return bars whose heights are shares of the largest number; a number that is not 0 has a visible bar."""
    most = max(numbers, default=0)
    bars = []
    for index, number in enumerate(numbers):
        height = max(1.5, number / most * HEIGHT) if number else 0.0
        bars.append(Bar(index * (BAR_WIDTH + 1), round(HEIGHT - height, 1), round(height, 1), number))
    return BarChart(tuple(bars), len(numbers) * (BAR_WIDTH + 1), most, sum(numbers))
