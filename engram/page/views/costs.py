"""What Engram cost: tokens that Claude was shown, and dollars of a language model against the caps, by day."""

from __future__ import annotations

import datetime
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from engram.models.shown.usage import tokens_by_day
from engram.page.rendering import HEIGHT, bar_chart
from engram.page.view import Answer, PageRequest, Route, View
from engram.reports.use_report import DEFAULT_SECONDS, CostReport, report_costs

#: Days of the pictures.
DAYS = 30
#: The line of the cap is drawn where the cap is at most so many times the largest bar.
MAX_CAP_RATIO = 20


@dataclass(frozen=True, slots=True)
class CostBar:
    """The bar of one day, in the units of the picture."""

    day: str
    dollars: float
    x: int
    y: float
    height: float


@dataclass(frozen=True, slots=True)
class CostChart:
    """Dollars by day, with the cap of a day as a line."""

    bars: tuple[CostBar, ...]
    width: int
    #: The line's distance from the top; None where the cap is far above every bar.
    cap_y: float | None


def show(request: PageRequest) -> Answer:
    """Show tokens and dollars by day; the figures are those of ``engram cost``."""
    now = datetime.datetime.fromtimestamp(request.store.now_ms() / 1000)
    days = [(now - datetime.timedelta(days=back)).strftime("%Y-%m-%d") for back in range(DAYS - 1, -1, -1)]
    report = report_costs(request.store, request.settings, DEFAULT_SECONDS)
    tokens = tokens_by_day(request.store, request.store.now_ms() - int(DEFAULT_SECONDS * 1000))
    return Answer(
        "costs.html",
        {
            "report": report,
            "tokens": bar_chart([tokens.get(day, 0) for day in days]),
            "chart": cost_chart(days, report),
            "extractor": request.settings.extractor,
        },
    )


def cost_chart(days: Sequence[str], report: CostReport) -> CostChart:
    """Return the bars of dollars by day; the scale holds the cap where spending comes near it."""
    spent: Counter[str] = Counter()
    for row in report.rows:
        spent[row.day] += row.dollars  # type: ignore[assignment]
    most, cap = max([*spent.values(), 0.0]), report.caps["day"]
    has_cap = 0 < cap <= most * MAX_CAP_RATIO
    top = max(most, cap if has_cap else 0.0) or 1.0
    bars = []
    for index, day in enumerate(days):
        height = max(1.0, spent[day] / top * HEIGHT) if spent[day] else 0.0
        bars.append(CostBar(day, spent[day], index * 10, round(HEIGHT - height, 1), round(height, 1)))
    return CostChart(tuple(bars), len(days) * 10, round(HEIGHT - cap / top * HEIGHT, 1) if has_cap else None)


VIEW = View(name="costs", title="Costs", key="c", path="costs", is_more=True, routes=(Route("/costs", show),))
