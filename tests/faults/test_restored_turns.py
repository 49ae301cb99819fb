"""After a restore, a turn is read anew as it is by then: memories of its first half do not stay beside it."""

from __future__ import annotations

from pathlib import Path

from transcript_lines import say

from engram.enums import Actor
from engram.models.hub.carried_hubs import carry_hubs
from engram.models.memories import memory_records
from engram.models.memories.memory_changes import change_memory
from engram.models.open_memory import open_store
from engram.models.rescue.backup import Backup, make_backup
from engram.models.rescue.restore import restore_backup
from engram.settings import Settings
from engram.tasks.session_tasks import extract_now, read_and_make_due
from tests.faults.chaos import TurnExtractor, make_runtime

SESSION = "11111111-2222-3333-4444-555555555555"
PROMPTS = ("Explain the harbor importer", "Explain the walnut importer")


def grow(path: Path, step: int) -> None:
    """The first step of both turns, or the next step of the turn that is still open."""
    for prompt in PROMPTS if step == 1 else ():
        say(path, "user", prompt)
        say(path, "assistant", "Step 1")
    if step > 1:
        say(path, "assistant", f"Step {step}")


def backed_up(settings: Settings) -> Backup:
    """A backup of the memory before anything is read."""
    with open_store(settings.places.memory_db, driver=settings.sqlite_driver) as store:
        return make_backup(store, settings.places.backups)


def read(settings: Settings) -> dict[str, str]:
    """Read and extract the session; returns the summary of each current memory, with its id."""
    with open_store(settings.places.memory_db, driver=settings.sqlite_driver) as store:
        runtime = make_runtime(settings, store)
        assert isinstance(runtime.extractor, TurnExtractor)
        read_and_make_due(runtime, SESSION)
        extract_now(runtime, SESSION)
        return {one.summary: one.episode_id for one in memory_records.all_memories(store) if one.is_current}


def test_a_memory_that_came_back_with_its_project_is_withdrawn_by_the_whole_turn(settings: Settings) -> None:
    path = settings.projects_folder / "-work-demo" / f"{SESSION}.jsonl"
    memory_db, driver = settings.places.memory_db, settings.sqlite_driver
    backup = backed_up(settings)
    grow(path, 1)
    assert len(read(settings)) == 2

    restore_backup(memory_db, backup.path, driver=driver, carry_more=carry_hubs)
    grow(path, 2)

    assert sorted(read(settings)) == [f"{PROMPTS[0]} It took 1 steps.", f"{PROMPTS[1]} It took 2 steps."]


def test_a_memory_that_somebody_pinned_stays(settings: Settings) -> None:
    path = settings.projects_folder / "-work-demo" / f"{SESSION}.jsonl"
    memory_db, driver = settings.places.memory_db, settings.sqlite_driver
    backup = backed_up(settings)
    grow(path, 1)
    pinned = f"{PROMPTS[1]} It took 1 steps."
    episode_id = read(settings)[pinned]
    with open_store(memory_db, driver=driver) as store, store.transaction() as tx:
        memory = memory_records.find_memory(tx, episode_id)
        assert memory is not None
        change_memory(tx, memory, "pin", actor=Actor.USER, is_pinned=True)

    restore_backup(memory_db, backup.path, driver=driver, carry_more=carry_hubs)
    grow(path, 2)

    assert {pinned, f"{PROMPTS[1]} It took 2 steps."} <= set(read(settings))
