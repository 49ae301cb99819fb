"""What a session left open ends with the next session on its branch, unless a person settled it."""

from __future__ import annotations

import pytest
from branch_sessions import Workshop, todo_list

from engram.consolidation.consolidation_run import consolidate, settle_session
from engram.consolidation.undo import undo_run
from engram.enums import Actor, Status
from engram.extraction.extracting import extract_session
from engram.extraction.local.local_extractor import LocalExtractor
from engram.models.memories.memory_changes import change_memory
from engram.models.memories.memory_history import list_runs
from engram.models.memories.memory_records import Memory, all_memories

TODOS = todo_list(**{"Mend the cache": "pending"})


def extract(workshop: Workshop, session: str) -> None:
    """Extract a session as the worker does."""
    name, store, settings = workshop.sessions[session], workshop.store, workshop.settings
    extract_session(store, name, extractor=LocalExtractor(), embedder=None, settings=settings)
    settle_session(store, settings, name)


def left_open(workshop: Workshop) -> Memory:
    (memory,) = [memory for memory in all_memories(workshop.store) if memory.summary == "Left open: Mend the cache."]
    return memory


@pytest.fixture
def opened(workshop: Workshop) -> Memory:
    """Open work of a session on the branch ``feature``."""
    workshop.work("feature", "go", TODOS, "More tomorrow.")
    extract(workshop, "one")
    assert left_open(workshop).status is Status.ACTIVE
    return left_open(workshop)


def test_the_next_session_of_the_branch_ends_it_and_that_can_be_undone(workshop: Workshop, opened: Memory) -> None:
    workshop.work("feature", "go on with it", "Done.", session="two")
    extract(workshop, "two")

    assert workshop.stored(opened).status is Status.ARCHIVED
    undo_run(workshop.store, workshop.settings, list_runs(workshop.store)[0].id, actor=Actor.USER)
    consolidate(workshop.store, workshop.settings, is_forced=True)
    assert workshop.stored(opened).status is Status.ACTIVE


def test_a_session_of_another_branch_and_the_same_session_end_nothing(workshop: Workshop, opened: Memory) -> None:
    workshop.work("main", "look at the sweeper", "Done.", session="two")
    extract(workshop, "two")

    assert workshop.stored(opened).status is Status.ACTIVE
    workshop.work("feature", "what is left?", "The cache.")
    extract(workshop, "one")
    current = [memory for memory in all_memories(workshop.store) if memory.is_current]
    assert [memory.summary for memory in current] == [opened.summary]


def test_a_session_that_ended_before_ends_nothing(workshop: Workshop, opened: Memory) -> None:
    workshop.work("feature", "look at the sweeper", "Done.", session="two")
    workshop.work("feature", "what is left?", "The cache.")
    extract(workshop, "one")
    extract(workshop, "two")

    assert [memory.summary for memory in all_memories(workshop.store) if memory.is_current] == [opened.summary]
    workshop.work("feature", "go on with the cache", "Done.", session="two")
    extract(workshop, "two")
    assert not [memory for memory in all_memories(workshop.store) if memory.is_current]


def test_what_somebody_pinned_stays_open(workshop: Workshop, opened: Memory) -> None:
    with workshop.store.transaction() as tx:
        change_memory(tx, opened, "pin", "", actor=Actor.USER, is_pinned=True)
    workshop.work("feature", "go on with it", "Done.", session="two")
    extract(workshop, "two")

    assert workshop.stored(opened).status is Status.ACTIVE
