"""What the language model cost, by day, model, task and project, against the caps."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any

from engram.models.spend import Spending, spending
from engram.models.store import Store
from engram.settings import Settings

#: How far back the report goes by default, in seconds.
DEFAULT_SECONDS = 30 * 86_400.0


@dataclass(frozen=True, slots=True)
class CostReport:
    """What was spent since a time."""

    rows: tuple[Spending, ...]
    extractor: str
    #: The caps in dollars, and in calls: day, hour, project and calls_per_hour.
    caps: dict[str, float]

    @property
    def dollars(self) -> float:
        """Everything that was spent, in dollars."""
        return sum(row.dollars for row in self.rows)

    def to_json(self) -> dict[str, Any]:
        """The report for scripts."""
        return {
            "dollars": self.dollars,
            "rows": [dataclasses.asdict(row) for row in self.rows],
            "extractor": self.extractor,
            "caps": self.caps,
        }


def report_costs(store: Store, settings: Settings, seconds: float = DEFAULT_SECONDS) -> CostReport:
    """Return what the language model cost in the last ``seconds``."""
    return CostReport(
        rows=tuple(spending(store, store.now_ms() - int(seconds * 1000))),
        extractor=settings.extractor,
        caps={
            "day": settings.llm_dollars_per_day,
            "hour": settings.llm_dollars_per_hour,
            "project": settings.llm_dollars_per_project,
            "calls_per_hour": settings.llm_calls_per_hour,
        },
    )
