"""What the user took back is not done again by the next run."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from bench.storing import content_digest
from engram.consolidation.consolidation_run import consolidate, join_pairs
from engram.consolidation.undo import undo_run
from engram.enums import Actor, Importance, Kind, Status, Voice
from engram.memories.save import edit_memory
from engram.models.engine.transaction import Store
from engram.models.memories import memory_records
from engram.models.memories.memory_records import Memory
from engram.redaction import redact
from engram.settings import Settings
from engram.system.clock import FixedClock

DAY = 86_400
Keep = Callable[..., Memory]


def state(store: Store, *memories: Memory) -> list[str]:
    found = [memory_records.find_memory(store, one.episode_id) for one in memories]
    return [one.status for one in found if one is not None]


def test_merging_and_replacing_are_not_repeated_once_undone(store: Store, settings: Settings, keep: Keep) -> None:
    one, same = keep("the port is open", kind=Kind.FACT), keep("open is the port", kind=Kind.FACT)
    old = keep("we deploy with helm", valid_from_ms=1)
    new = keep("we deploy with kustomize instead of helm", valid_from_ms=2)
    pairs = [(one.id, same.id, 0.95), (old.id, new.id, 0.8)]

    def tidy() -> tuple[int, tuple[str, ...]]:
        report = consolidate(
            store, settings, similar=lambda least, _: iter(p for p in pairs if p[2] >= least), is_forced=True
        )
        return report.run_id, report.lines

    before = content_digest(store)
    run_id, lines = tidy()
    assert len(lines) == 2
    undo_run(store, settings, run_id, actor=Actor.USER)

    assert tidy()[1] == ()
    assert content_digest(store) == before
    assert join_pairs(store, settings, pairs, duplicate_cosine=0.92) == []
    assert state(store, one, same, old, new) == ["active"] * 4


def test_exact_duplicates_that_were_kept_apart_stay_apart(store: Store, settings: Settings, keep: Keep) -> None:
    same = {"summary": "the same", "content": "word for word"}
    first, second = keep(**same), keep(**same)

    undo_run(store, settings, consolidate(store, settings, is_forced=True).run_id, actor=Actor.USER)

    assert consolidate(store, settings, is_forced=True).lines == ()
    assert state(store, first, second) == ["active", "active"]


def test_what_had_aged_starts_ageing_again(store: Store, settings: Settings, clock: FixedClock, keep: Keep) -> None:
    memory = keep("hardly ever used", content="")
    clock.advance((settings.archive_days + 1) * DAY)
    run_id = consolidate(store, settings, is_forced=True).run_id
    assert state(store, memory) == ["archived"]
    undo_run(store, settings, run_id, actor=Actor.USER)

    assert consolidate(store, settings, is_forced=True).lines == ()

    assert state(store, memory) == ["active"]
    clock.advance((settings.archive_days + 1) * DAY)
    consolidate(store, settings, is_forced=True)
    assert state(store, memory) == ["archived"]


@pytest.mark.parametrize("status", [Status.ACTIVE, Status.PROVISIONAL])
def test_what_a_person_edited_is_not_archived_for_its_age(
    store: Store, settings: Settings, clock: FixedClock, keep: Keep, status: Status
) -> None:
    edited, other = (keep(f"the {name} port is 8080", content="", status=status) for name in ("metrics", "debug"))
    edit_memory(store, edited.episode_id, redact, actor=Actor.USER, summary="the metrics port is 9090")
    edit_memory(store, other.episode_id, redact, actor=Actor.AGENT, summary="the debug port is 9091")

    clock.advance((settings.archive_days + 1) * DAY)
    consolidate(store, settings, is_forced=True)

    assert state(store, edited, other) == [str(status), "archived"]


def test_what_was_taken_out_of_memory_md_does_not_come_back(
    store: Store, settings: Settings, clock: FixedClock, keep: Keep
) -> None:
    keep("always write tests", voice=Voice.USER, importance=Importance.HIGH, content="")
    clock.advance(15 * DAY)
    run_id = consolidate(store, settings, is_forced=True).run_id
    assert "always write tests" in settings.places.memory_note.read_text()
    undo_run(store, settings, run_id, actor=Actor.USER)

    consolidate(store, settings, is_forced=True)

    assert not settings.places.memory_note.exists()
