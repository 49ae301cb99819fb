"""After a restore, a turn is read anew as it is by then: memories of its first half do not stay beside it.

Memories that can't be made again, because their transcripts are gone, are carried over.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from transcript_lines import say

from engram.enums import Actor
from engram.forgetting.forget import forget_memory
from engram.ingest.read_sources import ingest_path
from engram.models.hub.carried_hubs import carry_hubs
from engram.models.memories import memory_records
from engram.models.memories.memory_changes import change_memory
from engram.models.open_memory import open_store
from engram.models.rescue.backup import Backup, make_backup
from engram.models.rescue.restore import find_missing, list_rescues, restore_backup
from engram.redaction import redact
from engram.settings import Settings
from engram.tasks.session_tasks import extract_now, read_and_make_due
from engram.worker import memory_file
from engram.worker.memory_file import open_or_set_aside
from tests.faults.chaos import TurnExtractor, make_runtime

SESSION = "11111111-2222-3333-4444-555555555555"
OTHER = "22222222-2222-3333-4444-555555555555"
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


def read(settings: Settings, session: str = SESSION) -> dict[str, str]:
    """Read and extract a session; returns the summary of each current memory, with its id."""
    with open_store(settings.places.memory_db, driver=settings.sqlite_driver) as store:
        runtime = make_runtime(settings, store)
        assert isinstance(runtime.extractor, TurnExtractor)
        read_and_make_due(runtime, session)
        extract_now(runtime, session)
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


def grown_since_a_backup(settings: Settings) -> tuple[Backup, Path, dict[str, str]]:
    """A backup with one session of a project, and another session that was read since: its transcript and memories."""
    folder = settings.projects_folder / "-work-demo"
    grow(folder / f"{SESSION}.jsonl", 1)
    before = read(settings)
    backup = backed_up(settings)
    for number in (1, 2):
        say(folder / f"{OTHER}.jsonl", "user", f"Explain the copper importer {number}")
        say(folder / f"{OTHER}.jsonl", "assistant", "Step 1")
    after = read(settings, OTHER)
    return backup, folder / f"{OTHER}.jsonl", {summary: after[summary] for summary in after.keys() - before.keys()}


def test_a_memory_whose_transcript_is_gone_survives_a_restore_and_one_that_was_forgotten_does_not(
    settings: Settings,
) -> None:
    memory_db, driver = settings.places.memory_db, settings.sqlite_driver
    backup, transcript, since = grown_since_a_backup(settings)
    assert len(since) == 2
    transcript.unlink()
    forgotten, kept = sorted(since)
    with open_store(memory_db, driver=driver) as store:
        forget_memory(store, settings.places, since[forgotten], actor=Actor.USER)
        missing = find_missing(store, backup.path)
    assert (missing.gone_turns, missing.carried_memories, missing.other_memories) == (2, 1, 0)

    restore_backup(memory_db, backup.path, driver=driver, carry_more=carry_hubs)

    there = read(settings)
    assert there[kept] == since[kept]
    assert forgotten not in there
    assert len(there) == 3


def test_a_memory_whose_transcript_is_there_is_left_to_the_reader(settings: Settings) -> None:
    memory_db, driver = settings.places.memory_db, settings.sqlite_driver
    backup, _, since = grown_since_a_backup(settings)

    done = restore_backup(memory_db, backup.path, driver=driver, carry_more=carry_hubs)

    assert done.carried.memories == 0
    assert since.keys() <= read(settings, OTHER).keys()


def test_a_damaged_memory_gives_up_what_nothing_would_make_again_and_says_what_is_missing(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, transcript, since = grown_since_a_backup(settings)
    transcript.unlink()
    monkeypatch.setattr(memory_file, "quick_damage", lambda store: "a page is torn")

    with open_or_set_aside(settings.places, settings) as store:
        there = {one.summary: one.episode_id for one in memory_records.all_memories(store)}
        (said,) = list_rescues(store).values()

    assert there.items() >= since.items()
    assert "2 turns, whose transcripts are gone, can't be read again" in said


def test_a_memory_whose_transcript_is_gone_survives_every_restore(settings: Settings) -> None:
    memory_db, driver = settings.places.memory_db, settings.sqlite_driver
    backup, transcript, since = grown_since_a_backup(settings)
    transcript.unlink()

    for _ in range(3):
        restore_backup(memory_db, backup.path, driver=driver, carry_more=carry_hubs)
        assert since.items() <= read(settings).items()


def test_a_memory_survives_of_whose_session_only_another_transcript_exists(settings: Settings) -> None:
    memory_db, driver = settings.places.memory_db, settings.sqlite_driver
    backup, transcript, since = grown_since_a_backup(settings)
    other = settings.projects_folder / "-work-demo-again" / transcript.name
    say(other, "user", "Explain the tin importer")
    say(other, "assistant", "Step 1")
    with open_store(memory_db, driver=driver) as store:
        ingest_path(store, other, settings=settings, redact=redact)
    made = "Explain the tin importer It took 1 steps."
    assert made in read(settings, OTHER)
    transcript.unlink()

    restore_backup(memory_db, backup.path, driver=driver, carry_more=carry_hubs)

    assert since.items() <= read(settings).items()
