"""A clock that jumps a day back or a year ahead loses nothing, repeats nothing and keeps nothing away for long."""

from __future__ import annotations

import uuid
from pathlib import Path

import pytest
import transcript_lines

from engram.consolidation.consolidation_run import consolidate
from engram.embedding.hashed import HashedEmbedder
from engram.enums import Channel, Verdict
from engram.extraction.extracting import extract_session
from engram.extraction.local.local_extractor import LocalExtractor
from engram.ingest.read_sources import ingest_path
from engram.models.engine.transaction import Store
from engram.models.memories import memory_records
from engram.models.rescue.backup import list_backups, make_backup
from engram.models.sessions.prompt_outcomes import Outcome, add_outcomes, outcomes_of_session
from engram.models.work.work import due_work, make_due, release_lease, settled_ms, take_lease, watch_clock
from engram.recollection.recollection_service import RecollectionService
from engram.redaction import redact
from engram.search.searcher import Searcher
from engram.settings import Settings
from engram.system.clock import FixedClock

SESSION = "11111111-2222-3333-4444-555555555555"
DAY_MS = 86_400_000
JUMPS = {
    "a day back": -DAY_MS,
    "a year ahead": 365 * DAY_MS,
    "ten years back": -3650 * DAY_MS,
    "an hour back": -3_600_000,
}


@pytest.fixture
def clock() -> FixedClock:
    return FixedClock()


def say(path: Path, text: str) -> None:
    transcript_lines.say(path, "user", text, at="2026-01-01T00:00:00.000Z")


@pytest.mark.parametrize("jump_ms", JUMPS.values(), ids=JUMPS)
def test_a_whole_life_continues(settings: Settings, store: Store, clock: FixedClock, jump_ms: int) -> None:
    path = settings.projects_folder / "-work-demo" / f"{SESSION}.jsonl"
    searcher = Searcher(store, settings, embedder=HashedEmbedder())
    service = RecollectionService(store, searcher, settings, embedder=HashedEmbedder())
    say(path, "Always run make lantern before you push.")
    ingest_path(store, path, settings=settings, redact=redact, close=True)
    clock.at_ms += jump_ms
    say(path, "Always use the copper cache instead of the walnut one.")
    ingest_path(store, path, settings=settings, redact=redact, close=True)

    extract_session(store, SESSION, extractor=LocalExtractor(), embedder=HashedEmbedder(), settings=settings)
    consolidate(store, settings, is_forced=True)
    searcher.refresh()
    payload = {
        "session_id": str(uuid.uuid4()),
        "cwd": "/work/demo",
        "prompt": "Shall I run make lantern before I push?",
    }
    answer = service.answer_hook(payload | {"hook_event_name": "UserPromptSubmit"})

    kept = [one for one in memory_records.all_memories(store) if one.status == "active"]
    assert len(kept) == 2
    assert all(one.weight >= 0 and one.created_at_ms <= max(clock.at_ms, clock.at_ms - jump_ms) for one in kept)
    assert b"make lantern" in answer


@pytest.mark.parametrize("jump_ms", JUMPS.values(), ids=JUMPS)
def test_a_lease_of_a_dead_holder_is_never_kept_longer_than_it_lasts(
    store: Store, clock: FixedClock, jump_ms: int
) -> None:
    assert take_lease(store, "scan", "dead", 60)
    clock.at_ms += jump_ms
    clock.advance(61)

    assert take_lease(store, "scan", "living", 60)


@pytest.mark.parametrize("jump_ms", JUMPS.values(), ids=JUMPS)
def test_periodic_work_runs_once_and_then_waits_again(store: Store, clock: FixedClock, jump_ms: int) -> None:
    assert take_lease(store, "consolidate", "one", 60, every_seconds=600)
    release_lease(store, "consolidate", "one")
    clock.at_ms += jump_ms

    runs = 0
    for _ in range(10):
        if take_lease(store, "consolidate", "one", 60, every_seconds=600):
            release_lease(store, "consolidate", "one")
            runs += 1

    assert runs == 1


def test_backups_from_a_year_ahead_push_out_none_that_are_made_now(
    store: Store, clock: FixedClock, tmp_path: Path
) -> None:
    """Once the clock is right again, the newest backup is the one that was made last."""
    clock.at_ms += 365 * DAY_MS
    for _ in range(2):
        make_backup(store, tmp_path / "backups")
        clock.advance(86_400)
    clock.at_ms -= 367 * DAY_MS

    made = make_backup(store, tmp_path / "backups")

    kept = [backup.path for backup in list_backups(tmp_path / "backups", clock)]
    assert (kept[0], len(kept)) == (made.path, 2)


def test_work_that_was_due_soon_is_not_put_off_for_years(store: Store, clock: FixedClock) -> None:
    with store.transaction() as tx:
        make_due(tx, "extract", "s1", clock.now_ms() + 20 * 60_000)
    clock.at_ms -= 3650 * DAY_MS

    assert [work.key for work in due_work(store)] == ["s1"]


def test_nothing_is_old_while_a_clock_is_a_year_ahead_for_less_than_a_day(
    settings: Settings, store: Store, clock: FixedClock
) -> None:
    """What was shown and why is deleted by age, and unused memories are archived."""
    path = settings.projects_folder / "-work-demo" / f"{SESSION}.jsonl"
    service = RecollectionService(store, Searcher(store, settings), settings)
    say(path, "Use the copper cache instead of the walnut one.")
    ingest_path(store, path, settings=settings, redact=redact, close=True)
    extract_session(store, SESSION, extractor=LocalExtractor(), embedder=HashedEmbedder(), settings=settings)
    outcome = Outcome(session_id=SESSION, channel=Channel.PROMPT, verdict=Verdict.TOO_SHORT, at_ms=clock.at_ms)
    with store.transaction() as tx:
        add_outcomes(tx, [outcome])

    def left() -> tuple[int, list[str]]:
        clock.advance(60)
        service.tidy()
        consolidate(store, settings, is_forced=True)
        memories = [str(one.status) for one in memory_records.all_memories(store)]
        return len(outcomes_of_session(store, SESSION)), memories

    before = left()
    assert before == (1, ["active"])
    clock.at_ms += 365 * DAY_MS
    assert left() == before
    clock.advance(23 * 3_600)
    assert left() == before
    clock.at_ms -= 365 * DAY_MS
    assert left() == before

    clock.at_ms += 365 * DAY_MS
    assert left() == before
    clock.advance(86_400)
    assert left() == (0, ["archived"])


def test_a_machine_that_stands_still_every_night_stays_at_most_a_few_nights_behind(
    store: Store, clock: FixedClock
) -> None:
    """The steady clock of a virtual machine does not go on while the machine is suspended."""
    for _ in range(60):
        for _ in range(8):
            clock.advance(3_600)
            watch_clock(store)
        clock.at_ms += 16 * 3_600_000
        watch_clock(store)

    assert clock.at_ms - settled_ms(store) <= 3 * 16 * 3_600_000


def test_each_jump_ahead_is_doubted_for_a_day_of_its_own(store: Store, clock: FixedClock) -> None:
    watch_clock(store)
    right_ms = clock.at_ms
    for hours, jump_ms in ((0, 365 * DAY_MS), (23, -365 * DAY_MS), (0, 365 * DAY_MS), (23, 0)):
        clock.advance(hours * 3_600)
        right_ms += hours * 3_600_000
        clock.at_ms += jump_ms
        watch_clock(store)
        assert settled_ms(store) == right_ms
