"""Spending on language models: reserve before a call, checking the caps in one transaction, and settle after it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from peewee import JOIN, SQL, Case, Query, fn

from engram.errors import BudgetReached
from engram.models import tables
from engram.models.engine.meta import get_meta, put_meta
from engram.models.engine.statement import is_same, prepared
from engram.models.engine.transaction import Reader, Store, Tx

HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS
_CLOCK = "spend_clock"


@dataclass(frozen=True, slots=True)
class Caps:
    """What may be spent in the last 60 minutes and the last 24 hours, by the ledger's own clock."""

    dollars_per_hour: float
    dollars_per_day: float
    #: For one project in 24 hours; calls without a project count as one project.
    dollars_per_project: float
    calls_per_hour: int
    #: Input and output tokens together in 24 hours.
    tokens_per_day: int


def reserve(
    store: Store,
    caps: Caps,
    *,
    task: str,
    model: str,
    project_id: int | None,
    input_tokens: int,
    output_tokens: int,
    dollars: float,
) -> int:
    """Reserve the maximum cost of a call; return the reservation's number.

    The caps' periods are measured by the ledger's own clock, which never goes back and never runs ahead of the
    machine's steady clock, so that no jump of the wall clock lifts a cap.

    Raises:
        BudgetReached: the call could exceed a cap; nothing was reserved.
    """
    with store.transaction() as tx:
        ledger = _ledger_ms(tx)
        last_hour = tx.fetch_first(_spent_since(ledger - HOUR_MS, project_id))
        last_day = tx.fetch_first(_spent_since(ledger - DAY_MS, project_id))
        tokens = input_tokens + output_tokens
        for spent, wanted, cap, name in (
            (last_hour.dollars, dollars, caps.dollars_per_hour, "dollars an hour"),
            (last_day.dollars, dollars, caps.dollars_per_day, "dollars a day"),
            (last_day.project_dollars, dollars, caps.dollars_per_project, "dollars a day and project"),
            (last_hour.calls, 1, caps.calls_per_hour, "calls an hour"),
            (last_day.tokens, tokens, caps.tokens_per_day, "tokens a day"),
        ):
            # Written so that NaN counts as reaching the cap.
            if not wanted <= cap + 1e-9:
                raise BudgetReached(
                    f"the cap of {_amount(cap)} {name} is less than one call may take ({_amount(wanted)}), so no call "
                    "is made until you raise it; the local extractor is used instead"
                )
            if not spent + wanted <= cap + 1e-9:
                raise BudgetReached(
                    f"the cap of {_amount(cap)} {name} has been reached; the local extractor is used instead"
                )
        return tx.insert(
            tables.Spend.insert(
                at_ms=tx.now_ms(),
                ledger_ms=ledger,
                task=task,
                model=model,
                project_id=project_id,
                state="reserved",
                input_tokens=input_tokens,
                output_tokens=output_tokens,
                dollars=dollars,
            )
        )


def _amount(cap: float) -> str:
    return f"{cap:,}" if isinstance(cap, int) else f"{round(cap, 4):g}"


def _ledger_ms(tx: Tx) -> int:
    """Advance the ledger's clock as much as the wall clock or the steady clock, whichever is less; return its time.

    All processes share the machine's steady clock. If it has gone back, the machine was restarted, and only the wall
    clock counts.
    """
    wall, steady = tx.now_ms(), int(tx.clock.steady_seconds() * 1000)
    known = get_meta(tx, _CLOCK)
    if known is None:
        ledger = wall
    else:
        ledger, old_wall, old_steady = json.loads(known)
        by_wall, by_steady = max(0, wall - old_wall), steady - old_steady
        ledger += by_wall if by_steady < 0 else min(by_wall, by_steady)
    put_meta(tx, _CLOCK, json.dumps([ledger, wall, steady]))
    return int(ledger)


def settle(store: Store, reservation: int, *, input_tokens: int, output_tokens: int, dollars: float) -> None:
    """Replace a reservation with the call's actual cost. Until it is settled, a reservation counts in full."""
    with store.transaction() as tx:
        query = tables.Spend.update(
            state="spent", input_tokens=input_tokens, output_tokens=output_tokens, dollars=dollars
        )
        tx.run(query.where(tables.Spend.id == reservation))


def carry_spending(tx: Tx, source: Reader, project_ids: Mapping[int, int], *, is_newer: bool) -> None:
    """Add what another memory.db of this machine has spent, so that replacing memory.db does not lift a cap.

    A call that both have counts once, as settled. If ``source`` is the newer one, the ledger continues from its clock.

    Args:
        project_ids: the source's row ids of ``projects_with_spending`` → those here.
    """
    table = tables.Spend
    clock = get_meta(source, _CLOCK)
    if clock is not None and (is_newer or get_meta(tx, _CLOCK) is None):
        put_meta(tx, _CLOCK, clock)
    here = {_call(row): row for row in tx.fetch(table.select())}
    for row in source.fetch(table.select().order_by(table.id)):
        known = here.get(_call(row))
        if known is None:
            fields = row._asdict()
            del fields["id"]
            tx.insert_row(table, {**fields, "project_id": project_ids.get(row.project_id)})
        elif known.state == "reserved":
            cost = {name: getattr(row, name) for name in ("state", "input_tokens", "output_tokens", "dollars")}
            tx.update_row(table, known.id, cost)


def projects_with_spending(store: Reader) -> set[int]:
    """Return the row ids of the projects, even deleted ones, for which a language model was called."""
    return {int(number) for number in store.fetch_values(tables.Spend.select(tables.Spend.project_id)) if number}


def _call(row: Any) -> tuple[int, int, str, str]:
    """Return what identifies a call in every memory.db that has it."""
    return row.at_ms, row.ledger_ms, row.task, row.model


@prepared
def _spent_since(since_ms: int, project_id: int | None) -> Query:
    """Return the spending since a time, including open reservations. None selects spending without a project."""
    spend = tables.Spend
    return spend.select(
        fn.COUNT(spend.id).alias("calls"),
        fn.TOTAL(spend.dollars).alias("dollars"),
        fn.TOTAL(Case(None, [(is_same(spend.project_id, project_id), spend.dollars)])).alias("project_dollars"),
        fn.TOTAL(spend.input_tokens + spend.output_tokens).alias("tokens"),
    ).where(spend.ledger_ms > since_ms)


@dataclass(frozen=True, slots=True)
class Spending:
    """Spending on a language model, for one day, model, task and project."""

    day: str
    model: str
    task: str
    project: str
    calls: int
    input_tokens: int
    output_tokens: int
    dollars: float


def spending(store: Reader, since_ms: int) -> list[Spending]:
    """Return the spending since a time by day, model, task and project, the latest day first."""
    spend, project = tables.Spend, tables.Project
    day = fn.date(spend.at_ms / 1000, "unixepoch", "localtime")
    query = (
        spend.select(
            day.alias("day"),
            spend.model,
            spend.task,
            fn.COALESCE(project.name, "").alias("project"),
            fn.COUNT(spend.id).alias("calls"),
            fn.SUM(spend.input_tokens).alias("input_tokens"),
            fn.SUM(spend.output_tokens).alias("output_tokens"),
            fn.SUM(spend.dollars).alias("dollars"),
        )
        .join(project, JOIN.LEFT_OUTER, on=project.id == spend.project_id)
        .where(spend.at_ms >= since_ms)
        .group_by(SQL("day"), spend.model, spend.task, project.name)
        .order_by(SQL("day").desc(), spend.model, spend.task)
    )
    return [Spending(**row._asdict()) for row in store.fetch(query)]
