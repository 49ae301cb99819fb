"""What Engram costs: tokens shown to Claude, and dollars spent on a language model, with the caps, by day."""

from __future__ import annotations

from engram.models.shown.usage import tokens_by_day
from engram.page.rendering import day_chart
from engram.page.view import Answer, PageRequest, Route, View, day_spans
from engram.reports.use_report import report_costs
from engram.settings import MODEL_EXTRACTORS
from engram.system.clock import day_of

#: Number of days in the charts.
DAYS = 30
#: The cap is drawn as a line if it is at most this many times the largest bar.
MAX_CAP_RATIO = 20
#: Maximum number of rows listed.
MAX_ROWS = 30
#: Task of a call of the language model → what it was for.
TASKS = {"extract": "making memories", "distill": "making memories", "rewrite": "rewriting memories"}


def show(request: PageRequest) -> Answer:
    """Show tokens and dollars by day, with the figures of ``engram cost``."""
    spans = day_spans(request.store.now_ms(), DAYS)
    days = [day_of(start) for start, _ in spans]
    report = report_costs(request.store, request.settings, (request.store.now_ms() - spans[0][0]) / 1000)
    tokens = tokens_by_day(request.store, spans[0][0])
    dollars = [sum((row.dollars for row in report.rows if row.day == day), 0.0) for day in days]
    cap = report.caps["day"]
    amounts = [row.dollars for row in report.rows]
    return Answer(
        "costs.html",
        {
            "report": report,
            "max_rows": MAX_ROWS,
            "tokens": day_chart(spans, [tokens.get(day, 0) for day in days]),
            "caps": {name: money(report.caps[name]) for name in ("day", "hour", "project")},
            "chart": day_chart(spans, dollars, money, limit=cap if 0 < cap <= max(dollars) * MAX_CAP_RATIO else 0.0),
            "tasks": TASKS,
            "price": money if all(map(_is_in_cents, amounts)) else "${:,.4f}".format,
            "extractor": request.settings.extractor,
            "models": MODEL_EXTRACTORS,
        },
    )


def money(dollars: float) -> str:
    """Format dollars to the cent, or to a hundredth of a cent for small amounts."""
    return f"${dollars:,.2f}" if dollars >= 1 or _is_in_cents(dollars) else f"${dollars:.4f}"


def _is_in_cents(dollars: float) -> bool:
    return abs(dollars * 100 - round(dollars * 100)) < 1e-6


VIEW = View(name="costs", title="Costs", key="c", path="costs", is_more=True, routes=(Route("/costs", show),))
