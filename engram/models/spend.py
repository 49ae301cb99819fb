"""Money: a reservation is committed before a call, what it really took after. Caps are checked in the same transaction."""

from __future__ import annotations

from dataclasses import dataclass

from engram.errors import BudgetReached
from engram.models.store import Store

HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS


@dataclass(frozen=True, slots=True)
class Caps:
    """What may be spent. Windows roll: the last 60 minutes, the last 24 hours."""

    dollars_per_hour: float
    dollars_per_day: float
    #: For one project in 24 hours.
    dollars_per_project: float
    calls_per_hour: int


@dataclass(frozen=True, slots=True)
class Spending:
    """Spending of one day, task, model and project."""

    #: Days since 1970, UTC.
    day: int
    task: str
    model: str
    project: str
    calls: int
    input_tokens: int
    output_tokens: int
    dollars: float


def reserve(
    store: Store, caps: Caps, *, task: str, model: str, project_id: int | None, input_tokens: int, output_tokens: int,
    dollars: float,
) -> int:  # fmt: skip
    """Commit the most that a call can cost; returns the reservation's number.

    Rows with a time in the future count as now, so that a clock that went back never opens a cap.

    Raises:
        BudgetReached: the call could pass a cap; nothing was reserved.
    """
    now = store.now_ms()
    with store.writing():
        hour_calls, hour = _spent(store, now - HOUR_MS)
        _, day = _spent(store, now - DAY_MS)
        _, project = _spent(store, now - DAY_MS, project_id)
        for spent, cap, name in (
            (hour + dollars, caps.dollars_per_hour, "dollars an hour"),
            (day + dollars, caps.dollars_per_day, "dollars a day"),
            (project + dollars, caps.dollars_per_project, "dollars a day and project"),
            (hour_calls + 1, caps.calls_per_hour, "calls an hour"),
        ):
            if spent > cap + 1e-9:
                raise BudgetReached(f"the cap of {cap:g} {name} is reached; the local extractor goes on")
        return store.insert(
            "INSERT INTO spend (at_ms, task, model, project_id, state, input_tokens, output_tokens, dollars) "
            "VALUES (?, ?, ?, ?, 'reserved', ?, ?, ?)",
            (now, task, model, project_id, input_tokens, output_tokens, dollars),
        )


def _spent(store: Store, since_ms: int, project_id: int | None = None) -> tuple[int, float]:
    condition, parameters = "", [since_ms]
    if project_id is not None:
        condition, parameters = "AND project_id = ?", [since_ms, project_id]
    found = store.row(f"SELECT count(*), coalesce(sum(dollars), 0) FROM spend WHERE at_ms > ? {condition}", parameters)
    assert found is not None
    return int(found[0]), float(found[1])


def settle(store: Store, reservation: int, *, input_tokens: int, output_tokens: int, dollars: float) -> None:
    """Replace a reservation by what the call really took. One that is never settled goes on counting in full."""
    with store.writing():
        store.run(
            "UPDATE spend SET state = 'spent', input_tokens = ?, output_tokens = ?, dollars = ? WHERE id = ?",
            (input_tokens, output_tokens, dollars, reservation),
        )


def list_spending(store: Store) -> list[Spending]:
    """What was spent by day, task, model and project, the latest day first."""
    rows = store.rows(
        "SELECT s.at_ms / 86400000 AS day, s.task, s.model, coalesce(p.name, ''), count(*), sum(s.input_tokens), "
        "sum(s.output_tokens), sum(s.dollars) FROM spend s LEFT JOIN project p ON p.id = s.project_id "
        "GROUP BY 1, 2, 3, 4 ORDER BY 1 DESC, 2, 3, 4"
    )
    return [Spending(*row) for row in rows]


def spent_since(store: Store, since_ms: int) -> tuple[int, float]:
    """(calls, dollars) since a time."""
    return _spent(store, since_ms)
