"""Report how memory was used in the last few days, and what the language model cost."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from engram.enums import Refusal
from engram.models.engine.transaction import Store
from engram.models.memories.memory_history import Run
from engram.models.sessions.prompt_outcomes import count_asked_prompts
from engram.models.shown.usage import Usage, late_since, usage_since
from engram.models.work.spend import Spending, spending
from engram.settings import Settings
from engram.system.clock import DAY_MS, iso_or_none
from engram.trust.display import number_of

#: Default length of the report, in days.
REPORT_DAYS = 7


def late_of_days(store: Store) -> tuple[dict[str, int], int]:
    """Return how many recent answers were too late, by cause, and how many prompts a hook asked about.

    The second number is at least as large, because for a prompt whose hook exited early, only the late answer is
    recorded.
    """
    since_ms = store.now_ms() - REPORT_DAYS * DAY_MS
    late = late_since(store, since_ms)
    return late, max(count_asked_prompts(store, since_ms), sum(late.values()))


def report_of_days(store: Store, days: int = REPORT_DAYS) -> Usage:
    return usage_since(store, store.now_ms() - days * DAY_MS)


def late_text(late: Mapping[str, int]) -> str:
    """Describe how many answers came too late and why; "" for none."""
    return "; ".join(f"{number_of(number, 'answer')}: {cause}" for cause, number in late.items())


#: Reason for a refusal → its meaning, for display.
_REFUSALS = {
    Refusal.UNREADABLE: "not in the requested form",
    Refusal.NO_EVIDENCE: "cites nothing that was sent",
    Refusal.NO_SUMMARY: "says nothing",
    Refusal.NO_TARGET: "withdraws an unknown or unrelated memory",
    Refusal.NOT_SAID: "was not said in the session",
    Refusal.NOT_CITED: "is unrelated to what it cites",
    Refusal.UNPROVEN: "rests on a command whose result is unknown",
    Refusal.OUTPUT: "says only what a command printed",
    Refusal.REPEATED: "already known",
    Refusal.OWN_TEXT: "repeats Engram's own text",
    Refusal.LOG: "quotes a log",
    Refusal.FORGOTTEN: "forgotten earlier",
    Refusal.JUDGED: "judged wrong or outdated earlier",
    Refusal.FULL: "over the limit for a session or an hour",
    Refusal.TARGET_STAYS: "would end a protected memory",
}


def refused_text(refused: Mapping[str, int]) -> str:
    """Describe how many of a language model's proposals were refused, and why; "" for none."""
    meaning = {reason.value: text for reason, text in _REFUSALS.items()}
    return "; ".join(f"{number}: {meaning.get(reason, reason)}" for reason, number in refused.items())


# -- Costs of the language model by day, model, task and project, and the caps.

#: Default length of the cost report, in seconds.
DEFAULT_SECONDS = 30 * 86_400.0


@dataclass(frozen=True, slots=True)
class CostReport:
    """Spending on the language model since a certain time."""

    rows: tuple[Spending, ...]
    #: Dollars spent in the last 24 hours, to compare with the daily cap.
    day_dollars: float
    extractor: str
    #: The caps: ``day``, ``hour`` and ``project`` in dollars, and ``calls_per_hour``.
    caps: dict[str, float]

    @property
    def calls(self) -> int:
        return sum(row.calls for row in self.rows)

    @property
    def dollars(self) -> float:
        return sum(row.dollars for row in self.rows)

    def to_json(self) -> dict[str, Any]:
        return {
            "dollars": self.dollars,
            "day_dollars": self.day_dollars,
            "rows": [dataclasses.asdict(row) for row in self.rows],
            "extractor": self.extractor,
            "caps": self.caps,
        }


def report_costs(store: Store, settings: Settings, seconds: float = DEFAULT_SECONDS) -> CostReport:
    return CostReport(
        # Calls that were refused before they cost anything are left out.
        rows=tuple(
            row
            for row in spending(store, store.now_ms() - int(seconds * 1000))
            if row.input_tokens or row.output_tokens or row.dollars
        ),
        day_dollars=sum(row.dollars for row in spending(store, store.now_ms() - DAY_MS)),
        extractor=settings.extractor,
        caps={
            "day": settings.llm_dollars_per_day,
            "hour": settings.llm_dollars_per_hour,
            "project": settings.llm_dollars_per_project,
            "calls_per_hour": settings.llm_calls_per_hour,
        },
    )


# -- Latest runs: consolidations, and changes made by extractions, saves and decisions.


def run_to_json(run: Run) -> dict[str, Any]:
    return {
        "run": run.id,
        "kind": run.kind,
        "state": run.state,
        "started_at": iso_or_none(run.started_at_ms),
        "changes": len(run.report.get("lines", [])),
    }
