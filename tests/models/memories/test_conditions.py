"""The shared conditions name stored values only through the enums, and split memories without a gap."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from engram.enums import Scope, Source, Status
from engram.extraction.local.local_extractor import LocalExtractor
from engram.models.engine.transaction import Store
from engram.models.memories import memory_records
from engram.models.memories.memory_records import IS_BY_RULES, Memory, select_memories


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


def test_what_rules_made_has_one_answer_in_python_and_in_sql(store: Store, keep: Callable[..., Memory]) -> None:
    names = [
        "local-1",
        "local-2",
        "local-3",
        "local-4",
        "local-12",
        "local",
        "localai",
        "claude-1",
        "openai-1",
        "manual",
        "",
    ]
    made = [keep(f"{source} {name}", source=source, extractor=name) for name in names for source in Source]

    in_sql = {memory.id for memory in select_memories(store, IS_BY_RULES)}

    assert in_sql == {memory.id for memory in made if memory.is_by_rules}
    assert {memory.extractor for memory in made if memory.is_by_rules} == set(names[:5])
    assert {memory.source for memory in made if memory.is_by_rules} == {Source.AUTO}
    assert LocalExtractor.name in names[:5]
