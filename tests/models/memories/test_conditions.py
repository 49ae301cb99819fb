"""The shared conditions name stored values only through the enums, and split memories without a gap."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from engram.enums import Scope, Source, Status
from engram.models.engine.transaction import Store
from engram.models.memories import memory_records
from engram.models.memories.memory_records import Memory


def matching(store: Store, condition: str) -> set[str]:
    return {str(summary) for (summary,) in store.rows(f"SELECT e.summary FROM episode e WHERE {condition}")}


@pytest.mark.parametrize(
    ("condition", "field", "value"),
    [
        (memory_records.GLOBAL_SQL, "scope", Scope.GLOBAL),
        (memory_records.IS_OF_PROJECT, "scope", Scope.PROJECT),
        (memory_records.IS_MANUAL, "source", Source.MANUAL),
    ],
)
def test_a_condition_holds_for_its_value_alone(
    store: Store, keep: Callable[..., Memory], condition: str, field: str, value: Status | Scope | Source
) -> None:
    for member in type(value):
        keep(member.value, **{field: member})

    assert matching(store, condition) == {value.value}
