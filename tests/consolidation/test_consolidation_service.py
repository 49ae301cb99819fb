"""What a consolidation must mind: other people's changes, its time, notes that were edited, values that differ."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import pytest
from planting import plant
from showing import show_and_use

from bench.storing import content_digest
from engram.consolidation import tidying_steps
from engram.consolidation.consolidation_run import consolidate
from engram.consolidation.step_context import Context
from engram.consolidation.undo import undo_run
from engram.enums import Actor, Importance, Source, Status, Voice
from engram.models.engine.transaction import Store
from engram.models.memories import memory_changes, memory_records
from engram.models.memories.memory_records import Memory
from engram.settings import Settings
from engram.system.clock import FixedClock

DAY = 86_400
Keep = Callable[..., Memory]


def now(store: Store, memory: Memory) -> Memory:
    found = memory_records.find_memory(store, memory.episode_id)
    assert found is not None
    return found


def test_an_import_of_old_sessions_archives_and_packs_nothing_at_once(
    store: Store, settings: Settings, clock: FixedClock, keep: Keep
) -> None:
    long_ago = clock.at_ms - 700 * DAY * 1000
    old = [
        keep(f"memory {n}", created_at_ms=long_ago, status=Status.PROVISIONAL if n % 2 else "active") for n in range(40)
    ]

    report = consolidate(store, settings, is_forced=True)

    assert report.lines == ()
    assert all(now(store, one).weight == 1.0 for one in old)


def test_likes_with_other_values_or_the_opposite_are_not_joined(store: Store, settings: Settings, keep: Keep) -> None:
    pairs = [
        ("the port is 8080", "the port is 9090", "fact"),
        ("always force push to main", "never force push to main", "fact"),
        ("the build takes two minutes", "the build takes seven minutes", "fact"),
    ]
    made = [(keep(one, kind=kind), keep(other, kind=kind)) for one, other, kind in pairs]

    consolidate(store, settings, similar=lambda *_: iter([(a.id, b.id, 0.97) for a, b in made]))

    assert {now(store, one).status for pair in made for one in pair} == {"active"}


def test_a_change_made_by_hand_while_a_step_looks_elsewhere_stays(
    store: Store, settings: Settings, clock: FixedClock, keep: Keep
) -> None:
    first, second = keep("the queue is SQLite"), keep("SQLite holds the queue")
    context = Context(store, settings, run_id=1)
    seen = now(store, first)
    with store.transaction() as tx:
        memory_changes.change_memory(
            tx, seen, "edit", "by hand", summary="my own words", content="mine", actor=Actor.USER
        )

    assert not context.change(seen, "age", "old", actor=Actor.TIDYING, weight=0.7)
    assert not tidying_steps._merge(context, seen, second, 0.95)
    assert (now(store, first).summary, now(store, first).content) == ("my own words", "mine")
    assert now(store, second).status == "active"
    assert context.lines == []


def test_uses_that_are_counted_meanwhile_are_not_uncounted(store: Store, settings: Settings, keep: Keep) -> None:
    memory = keep("used right now")
    context = Context(store, settings)
    seen = now(store, memory)
    memory_changes.note_access(store, memory.episode_id)

    context.change(seen, "age", "old", actor=Actor.TIDYING, weight=0.7)

    assert (now(store, memory).access_count, now(store, memory).weight) == (1, 0.7)


def test_memories_are_read_in_batches_the_most_trusted_first_and_as_they_are_then(
    store: Store, settings: Settings, keep: Keep, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("engram.consolidation.step_context._BATCH_ROWS", 2)
    plain = [keep(f"memory {number}", created_at_ms=100 - number) for number in range(3)]
    high = keep("high", importance=Importance.HIGH)
    saved = keep("saved", source=Source.MANUAL)
    pinned = keep("pinned", is_pinned=True)
    keep("archived", status=Status.ARCHIVED)

    reading = Context(store, settings).current_memories()

    assert [next(reading).id, next(reading).id] == [pinned.id, saved.id]
    with store.transaction() as tx:
        memory_changes.change_memory(tx, plain[2], "archive", "by hand", status=Status.ARCHIVED, actor=Actor.USER)
    assert [memory.id for memory in reading] == [high.id, plain[1].id, plain[0].id]


def test_exact_duplicates_are_found_however_far_apart_they_are_read(
    store: Store, settings: Settings, keep: Keep, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("engram.consolidation.step_context._BATCH_ROWS", 2)
    made = [keep(summary, content="same") for summary in ("we use pnpm", "a", "b", "We use pnpm.", "c", "we use pnpm")]

    consolidate(store, settings)

    assert [now(store, one).status for one in made] == ["active", "active", "active", "archived", "active", "archived"]
    assert {now(store, made[3]).superseded_by, now(store, made[5]).superseded_by} == {made[0].episode_id}


def test_a_merge_of_two_sessions_confirms_what_both_say(store: Store, settings: Settings, keep: Keep) -> None:
    plant(
        store,
        "INSERT INTO session (session_id, agent, first_at_ms, last_at_ms) VALUES ('s1', 'c', 0, 0), ('s2', 'c', 0, 0)",
    )
    asked = ("Where do tasks wait?",)
    one = keep("the queue is SQLite", status=Status.PROVISIONAL, session_id="s1", entities=("queue",), questions=asked)
    other = keep("SQLite holds the queue", status=Status.PROVISIONAL, session_id="s2", entities=("SQLite",))

    consolidate(store, settings, similar=lambda *_: iter([(one.id, other.id, 0.95)]))

    merged = now(store, one)
    assert (merged.status, merged.confirmations, merged.entities) == ("active", 1, ("queue", "SQLite"))
    assert merged.questions == asked


def test_of_three_statements_each_replaces_the_one_before_it(
    store: Store, settings: Settings, clock: FixedClock, keep: Keep
) -> None:
    texts = [
        "the cache lives in Redis",
        "the cache lives in SQLite instead of Redis",
        "the cache lives in memory instead of SQLite",
    ]
    made = []
    for text in texts:
        made.append(keep(text))
        clock.advance(DAY)
    pairs = [(made[1].id, made[2].id, 0.9), (made[0].id, made[1].id, 0.85)]

    consolidate(store, settings, similar=lambda floor, _: iter([p for p in pairs if floor < 0.9]))

    assert [now(store, one).superseded_by for one in made] == [made[1].episode_id, made[2].episode_id, ""]


def test_a_long_step_stops_at_the_time_budget_and_the_next_run_continues_inside_it(
    store: Store, settings: Settings, clock: FixedClock, keep: Keep
) -> None:
    for number in range(20):
        keep(f"memory {number}")
    clock.advance(31 * DAY)

    class Ticking(FixedClock):
        def steady_seconds(self) -> float:
            self.steady += 30
            return self.steady

    store.clock = Ticking(at_ms=clock.at_ms)
    reports = [consolidate(store, settings, is_forced=True)]
    while not reports[-1].is_complete and len(reports) < 60:
        reports.append(consolidate(store, settings, is_forced=True))

    assert len(reports) > 2
    assert {one.run_id for one in reports} == {1}
    assert sum(line.startswith("age ") for line in reports[-1].lines) == 20
    undo_run(store, settings, 1, actor=Actor.USER)
    assert {e.weight for e in memory_records.all_memories(store)} == {1.0}


def test_a_replaced_memory_leaves_the_note_for_the_archive_and_undo_brings_it_back(
    store: Store, settings: Settings, clock: FixedClock, keep: Keep
) -> None:
    old = keep("we use npm", voice=Voice.USER)
    show_and_use(store, old.episode_id)
    show_and_use(store, keep("tabs, never spaces", voice=Voice.USER).episode_id)
    consolidate(store, settings, is_forced=True)
    note, archive = settings.places.memory_note, settings.places.archive_notes
    before = note.read_bytes()
    assert b"we use npm" in before
    with store.transaction() as tx:
        memory_changes.change_memory(
            tx, now(store, old), "supersede", "by hand", status=Status.SUPERSEDED, actor=Actor.TIDYING
        )

    report = consolidate(store, settings, is_forced=True)

    assert b"we use npm" not in note.read_bytes()
    assert b"tabs, never spaces" in note.read_bytes()
    assert any("we use npm" in path.read_text() for path in archive.glob("*.md"))
    undo_run(store, settings, report.run_id, actor=Actor.USER)
    assert note.read_bytes() == before
    assert list(archive.glob("*.md")) == []


def test_undo_keeps_what_the_user_wrote_into_the_note_since(store: Store, settings: Settings, keep: Keep) -> None:
    show_and_use(store, keep("we use pnpm", voice=Voice.USER).episode_id)
    report = consolidate(store, settings, is_forced=True)
    note = settings.places.memory_note
    note.write_text(note.read_text() + "- my own line\n")

    told = undo_run(store, settings, report.run_id, actor=Actor.USER)

    assert "my own line" in note.read_text()
    assert "we use pnpm" not in note.read_text()
    assert any("has been changed since" in line for line in told)


def test_the_note_stays_within_its_limits_however_much_graduates(
    store: Store, settings: Settings, clock: FixedClock, keep: Keep
) -> None:
    settings = dataclasses.replace(settings, graduate_limit=200)
    texts = []
    for month in range(4):
        rules = [keep(f"rule {month}-{n}: {'word ' * 20}", voice=Voice.USER) for n in range(120)]
        for rule in rules:
            show_and_use(store, rule.episode_id)
        texts += [rule.summary for rule in rules]
        consolidate(store, settings, is_forced=True)
        note = settings.places.memory_note.read_bytes()
        assert len(note.splitlines()) <= 200
        assert len(note) <= 25_000
        clock.advance(31 * DAY)
    everything = note.decode() + "".join(path.read_text() for path in settings.places.archive_notes.glob("*.md"))
    assert all(text.split(":")[0] in everything for text in texts)


def test_an_undo_that_was_undone_by_a_later_run_is_refused_until_that_one_is_undone(
    store: Store, settings: Settings, clock: FixedClock, keep: Keep
) -> None:
    keep("plain one")
    before = content_digest(store)
    clock.advance(31 * DAY)
    first = consolidate(store, settings, is_forced=True)
    clock.advance(200 * DAY)
    second = consolidate(store, settings, is_forced=True)

    undo_run(store, settings, second.run_id, actor=Actor.USER)
    undo_run(store, settings, first.run_id, actor=Actor.USER)

    assert content_digest(store) == before
