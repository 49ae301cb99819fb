"""The shared conditions name stored values only through the enums, and split memories without a gap."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from engram.enums import CURRENT_STATUSES, Scope, Source, Status
from engram.models import conditions
from engram.models.episodes import Episode
from engram.models.store import Store


def matching(store: Store, condition: str) -> set[str]:
    return {str(summary) for (summary,) in store.rows(f"SELECT e.summary FROM episode e WHERE {condition}")}


def test_values_are_listed_as_literals() -> None:
    assert conditions.sql_list([Status.ACTIVE, Status.ARCHIVED]) == "'active', 'archived'"


def test_every_status_is_current_or_not(store: Store, keep: Callable[..., Episode]) -> None:
    for status in Status:
        keep(status.value, status=status)

    current, other = matching(store, conditions.IS_CURRENT), matching(store, conditions.IS_NOT_CURRENT)

    assert current == {status.value for status in CURRENT_STATUSES}
    assert current | other == {status.value for status in Status}
    assert current & other == set()


@pytest.mark.parametrize(
    ("condition", "field", "value"),
    [
        (conditions.IS_ACTIVE, "status", Status.ACTIVE),
        (conditions.IS_ARCHIVED, "status", Status.ARCHIVED),
        (conditions.IS_SUPERSEDED, "status", Status.SUPERSEDED),
        (conditions.IS_GLOBAL, "scope", Scope.GLOBAL),
        (conditions.IS_OF_PROJECT, "scope", Scope.PROJECT),
        (conditions.IS_AUTO, "source", Source.AUTO),
        (conditions.IS_MANUAL, "source", Source.MANUAL),
    ],
)
def test_a_condition_holds_for_its_value_alone(
    store: Store, keep: Callable[..., Episode], condition: str, field: str, value: Status | Scope | Source
) -> None:
    for member in type(value):
        keep(member.value, **{field: member})

    assert matching(store, condition) == {value.value}
