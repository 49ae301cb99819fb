"""Who may see a memory, and what of it: its own project all, other projects the one line of a global one."""

from __future__ import annotations

import pytest

from engram.enums import Kind, Scope, Source
from engram.models.memories.memory_records import Memory, may_see, may_see_context, may_stand_for

HERE, THERE = 1, 2


def memory(scope: Scope, project_id: int | None, source: Source = Source.AUTO) -> Memory:
    return Memory("ep_0", Kind.FACT, "a summary", "content", scope=scope, project_id=project_id, source=source)


@pytest.mark.parametrize(
    ("kept", "is_line_seen", "is_context_seen"),
    [
        (memory(Scope.PROJECT, HERE), True, True),
        (memory(Scope.PROJECT, THERE), False, False),
        (memory(Scope.GLOBAL, HERE), True, True),
        (memory(Scope.GLOBAL, THERE), True, False),
        (memory(Scope.GLOBAL, THERE, Source.MANUAL), True, True),
        (memory(Scope.GLOBAL, None), True, True),
    ],
)
def test_a_project_sees_its_own_and_of_a_global_memory_of_another_its_line(
    kept: Memory, is_line_seen: bool, is_context_seen: bool
) -> None:
    assert may_see(kept, HERE) is is_line_seen
    assert (may_see(kept, HERE) and may_see_context(kept, HERE)) is is_context_seen


def test_a_memory_of_one_project_never_replaces_that_of_another() -> None:
    assert may_stand_for(memory(Scope.PROJECT, HERE), memory(Scope.PROJECT, HERE))
    assert not may_stand_for(memory(Scope.PROJECT, HERE), memory(Scope.PROJECT, THERE))
    assert may_stand_for(memory(Scope.GLOBAL, HERE), memory(Scope.PROJECT, THERE))
