"""Small line charts with logarithmic axes as SVG text, without any library."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

_WIDTH, _HEIGHT, _LEFT, _BOTTOM, _TOP, _RIGHT = 420, 300, 56, 44, 34, 110
_COLOURS = ("#1f6feb", "#d1242f", "#1a7f37", "#9a6700", "#8250df", "#57606a")


@dataclass(frozen=True, slots=True)
class Line:
    """One line of a chart."""

    name: str
    #: (x, y) in order of increasing x, both above 0.
    points: Sequence[tuple[float, float]]


@dataclass(frozen=True, slots=True)
class Chart:
    """A chart with its title and lines. ``goals`` are points (x, y) that a value should not exceed."""

    title: str
    lines: Sequence[Line]
    goals: Sequence[tuple[float, float]] = ()


def draw(charts: Sequence[Chart]) -> str:
    """Return an SVG document with the charts side by side."""
    parts = [_chart(chart, number * _WIDTH) for number, chart in enumerate(charts)]
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH * len(charts)} {_HEIGHT}" '
        f'font-family="sans-serif" font-size="11" fill="#24292f">\n'
        f'<rect width="100%" height="100%" fill="#ffffff"/>\n' + "\n".join(parts) + "\n</svg>\n"
    )


def _chart(chart: Chart, offset: float) -> str:
    points = [point for line in chart.lines for point in line.points] + list(chart.goals)
    x_low, x_high = _decades([x for x, _ in points])
    y_low, y_high = _decades([y for _, y in points])

    def place(x: float, y: float) -> tuple[float, float]:
        across = (math.log10(x) - x_low) / (x_high - x_low)
        up = (math.log10(y) - y_low) / (y_high - y_low)
        return (
            round(_LEFT + across * (_WIDTH - _LEFT - _RIGHT), 1),
            round(_HEIGHT - _BOTTOM - up * (_HEIGHT - _BOTTOM - _TOP), 1),
        )

    parts = [f'<text x="{_LEFT}" y="18" font-size="13" font-weight="bold">{chart.title}</text>']
    for power in range(x_low, x_high + 1):
        x, y = place(10**power, 10**y_low)
        parts.append(f'<line x1="{x}" y1="{_TOP}" x2="{x}" y2="{y}" stroke="#eaeef2"/>')
        parts.append(f'<text x="{x}" y="{y + 16}" text-anchor="middle">{_short(10**power)}</text>')
    for power in range(y_low, y_high + 1):
        x, y = place(10**x_low, 10**power)
        parts.append(f'<line x1="{x}" y1="{y}" x2="{_WIDTH - _RIGHT}" y2="{y}" stroke="#eaeef2"/>')
        parts.append(f'<text x="{x - 6}" y="{y + 4}" text-anchor="end">{_short(10**power)}</text>')
    parts.append(f'<text x="{_LEFT}" y="{_HEIGHT - 8}">turns</text>')
    for x, y in (place(*goal) for goal in chart.goals):
        parts.append(f'<path d="M{x - 6} {y}h12" stroke="#24292f" stroke-width="2.5"/>')
    for number, line in enumerate(chart.lines):
        parts.append(_line(line, [place(*point) for point in line.points], number))
    return f'<g transform="translate({offset} 0)">\n' + "\n".join(parts) + "\n</g>"


def _line(line: Line, points: Sequence[tuple[float, float]], number: int) -> str:
    colour = _COLOURS[number % len(_COLOURS)]
    drawn = " ".join(f"{x},{y}" for x, y in points)
    dots = "".join(f'<circle cx="{x}" cy="{y}" r="2.5" fill="{colour}"/>' for x, y in points)
    y = _TOP + 10 + 16 * number
    key = f'<text x="{_WIDTH - _RIGHT + 24}" y="{y + 4}" fill="{colour}">{line.name}</text>'
    mark = f'<path d="M{_WIDTH - _RIGHT + 6} {y}h14" stroke="{colour}" stroke-width="2"/>'
    return f'<polyline points="{drawn}" fill="none" stroke="{colour}" stroke-width="2"/>{dots}{mark}{key}'


def _decades(values: Sequence[float]) -> tuple[int, int]:
    """Return the powers of ten that enclose all values."""
    low, high = math.floor(math.log10(min(values))), math.ceil(math.log10(max(values)))
    return low, max(high, low + 1)


def _short(value: float) -> str:
    for size, sign in ((1_000_000, "M"), (1_000, "k")):
        if value >= size:
            return f"{value / size:g}{sign}"
    return f"{value:g}"
