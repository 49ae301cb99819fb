"""Consolidation tidies, loses nothing, can be interrupted, shown and undone."""

from __future__ import annotations

import dataclasses

import pytest
from hypothesis import HealthCheck, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from showing import show_and_use

from bench.storing import content_digest
from engram.consolidation.consolidation_run import consolidate
from engram.consolidation.undo import undo_run
from engram.enums import Actor, Importance, Scope, Source, Voice
from engram.errors import BadRequest
from engram.forgetting.forget_plan import merged_content, merged_summary
from engram.models.engine.transaction import Store
from engram.models.memories import memory_changes, memory_history, memory_records
from engram.models.memories.memory_records import Evidence, Memory
from engram.models.open_memory import open_store
from engram.models.projects.projects import ensure_project
from engram.settings import Settings
from engram.system.clock import FixedClock, day_of

DAY = 86_400


def keep(store: Store, summary: str, **changes: object) -> Memory:
    made = Memory(memory_records.new_memory_id(), "decision", summary, f"content of {summary}", scope=Scope.GLOBAL)
    made = dataclasses.replace(made, **changes)  # type: ignore[arg-type]
    with store.transaction() as tx:
        return memory_changes.add_memory(tx, made, [Evidence(f"uuid of {made.episode_id}", "s1")], actor=Actor.MODEL)


def status_of(store: Store, memory: Memory) -> str:
    found = memory_records.find_memory(store, memory.episode_id)
    assert found is not None
    return found.status


def test_of_exact_duplicates_one_stays_and_takes_over_the_evidence(store: Store, settings: Settings) -> None:
    first = keep(store, "we use pnpm", content="same")
    second = keep(store, "We use pnpm.", content="same")

    consolidate(store, settings)

    assert (status_of(store, first), status_of(store, second)) == ("active", "archived")
    assert len(memory_records.evidence_of(store, first.id)) == 2


def test_near_duplicates_are_joined_with_both_wordings(store: Store, settings: Settings) -> None:
    first = keep(store, "the queue is SQLite")
    second = keep(store, "SQLite holds the queue")

    consolidate(store, settings, similar=lambda *_: iter([(first.id, second.id, 0.95)]))

    merged = memory_records.find_memory(store, first.episode_id)
    assert merged is not None
    assert merged.summary == "the queue is SQLite | SQLite holds the queue"
    assert "\n---\n" in merged.content
    assert status_of(store, second) == "archived"


def test_a_newer_decision_replaces_the_older_one_and_names_it(
    store: Store, settings: Settings, clock: FixedClock
) -> None:
    old = keep(store, "Decided: the cache lives in Redis")
    clock.advance(DAY)
    new = keep(store, "Decided: the cache lives in SQLite instead of Redis")

    consolidate(store, settings, similar=lambda floor, _: iter([(old.id, new.id, 0.8)] if floor < 0.8 else []))

    found = memory_records.find_memory(store, old.episode_id)
    assert found is not None
    assert (found.status, found.superseded_by) == ("superseded", new.episode_id)
    assert found.valid_to_ms == new.created_at_ms


def test_unused_memories_sink_then_leave_but_never_high_pinned_or_saved_ones(
    store: Store, settings: Settings, clock: FixedClock
) -> None:
    plain = keep(store, "plain one")
    spared = [
        keep(store, "high one", importance=Importance.HIGH),
        keep(store, "pinned one", is_pinned=True),
        keep(store, "saved one", source=Source.MANUAL),
    ]
    clock.advance(31 * DAY)
    consolidate(store, settings)
    aged = memory_records.find_memory(store, plain.episode_id)
    assert aged is not None
    assert (aged.weight, aged.status) == (0.7, "active")

    clock.advance(180 * DAY)
    consolidate(store, settings)

    assert status_of(store, plain) == "archived"
    assert [status_of(store, one) for one in spared] == ["active"] * 3


def test_packed_content_reads_as_before_and_the_index_stays_whole(
    store: Store, settings: Settings, clock: FixedClock
) -> None:
    old = keep(store, "an old one")
    clock.advance(31 * DAY)

    consolidate(store, settings)

    found = memory_records.find_memory(store, old.episode_id)
    assert found is not None
    assert found.content == old.content
    assert store.value("SELECT content FROM episode WHERE id = ?", (old.id,)) == ""
    assert store.find_damage() == ""


def test_a_much_used_memory_of_the_user_graduates_once(store: Store, settings: Settings) -> None:
    mine = keep(store, "never force-push", voice=Voice.USER)
    theirs = keep(store, "the assistant's own words", access_count=9)
    for memory in (mine, theirs):
        show_and_use(store, memory.episode_id)

    consolidate(store, settings, is_forced=True)
    consolidate(store, settings, is_forced=True)

    text = settings.places.memory_note.read_text()
    assert text.count("never force-push") == 1
    assert mine.episode_id in text
    assert "assistant's own words" not in text


def test_a_graduated_line_says_when_and_for_which_project(store: Store, settings: Settings, clock: FixedClock) -> None:
    with store.transaction() as tx:
        harbor = ensure_project(tx, "/work/harbor", "harbor\x1b[31m")
    ours = keep(store, "deploy on fridays only", voice=Voice.USER, scope=Scope.PROJECT, project_id=harbor.id)
    mine = keep(store, "never force-push", voice=Voice.USER, scope=Scope.GLOBAL)
    for memory in (ours, mine):
        show_and_use(store, memory.episode_id)
    settings.places.memory_note.write_text("# Memory\n\n## 2025-12\n- my own line\n")

    consolidate(store, settings, is_forced=True)
    consolidate(store, settings, is_forced=True)

    day = day_of(clock.now_ms())
    assert settings.places.memory_note.read_text().splitlines() == [
        "# Memory",
        "",
        "## 2025-12",
        "- my own line",
        "",
        f"## {day[:7]}, harbor",
        f"- {day}, in harbor only: deploy on fridays only <!-- {ours.episode_id} -->",
        "",
        f"## {day[:7]}",
        f"- {day}, every project: never force-push <!-- {mine.episode_id} -->",
    ]


def test_content_that_grew_too_long_keeps_the_newer() -> None:
    old, middle, new = ("old " * 400).strip(), ("middle " * 300).strip(), ("new " * 400).strip()

    joined = merged_content(merged_content(old, middle), new)
    assert joined == f"{middle}\n\n---\n\n{new}"
    assert merged_content(old * 2, new * 3) == new * 3
    assert merged_content("short", "x" * 5000) == "x" * 5000
    assert merged_summary("s" * 300, "t" * 300) == "t" * 300


def test_a_second_run_right_after_changes_nothing(store: Store, settings: Settings, clock: FixedClock) -> None:
    keep(store, "we use pnpm", content="same")
    keep(store, "we use pnpm", content="same")
    clock.advance(40 * DAY)
    consolidate(store, settings, is_forced=True)
    before = content_digest(store)

    report = consolidate(store, settings, is_forced=True)

    assert report.lines == ()
    assert content_digest(store) == before


def test_a_dry_run_tells_what_would_be_done_and_does_nothing(store: Store, settings: Settings) -> None:
    keep(store, "we use pnpm", content="same")
    keep(store, "we use pnpm", content="same")
    before = content_digest(store)

    report = consolidate(store, settings, is_dry=True)

    assert len(report.lines) == 1
    assert content_digest(store) == before


def test_undo_restores_memories_and_notes_byte_for_byte(store: Store, settings: Settings, clock: FixedClock) -> None:
    for number in range(3):
        show_and_use(store, keep(store, "we use pnpm", content="same", voice=Voice.USER).episode_id)
        keep(store, f"memory {number}")
    settings.places.memory_note.write_text("# mine\n\nkept by hand\n")
    clock.advance(200 * DAY)
    before, note = content_digest(store), settings.places.memory_note.read_bytes()
    report = consolidate(store, settings, is_forced=True)
    assert content_digest(store) != before

    undo_run(store, settings, report.run_id, actor=Actor.USER)

    assert content_digest(store) == before
    assert settings.places.memory_note.read_bytes() == note
    assert store.find_damage() == ""
    with pytest.raises(BadRequest):
        undo_run(store, settings, report.run_id, actor=Actor.USER)


def test_a_run_over_its_time_budget_continues_next_time(store: Store, settings: Settings, clock: FixedClock) -> None:
    keep(store, "we use pnpm", content="same")
    keep(store, "we use pnpm", content="same")

    class Ticking(FixedClock):
        def steady_seconds(self) -> float:
            self.steady += 100
            return self.steady

    store.clock = Ticking(at_ms=clock.at_ms)
    first = consolidate(store, settings, is_forced=True)
    store.clock = clock
    second = consolidate(store, settings, is_forced=True)

    assert (first.is_complete, second.is_complete) == (False, True)
    assert first.run_id == second.run_id


def test_two_workers_consolidate_once(store: Store, settings: Settings) -> None:
    consolidate(store, settings)

    assert not consolidate(store, settings).has_run


WORDS = st.sampled_from(
    [
        "we",
        "use",
        "pnpm",
        "npm",
        "redis",
        "sqlite",
        "cache",
        "queue",
        "never",
        "always",
        "instead",
        "of",
        "no",
        "longer",
        "port",
        "8080",
        "9090",
    ]
)


@given(data=st.data())
@hypothesis_settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_no_run_reduces_what_can_be_recovered(data: st.DataObject, tmp_path_factory: pytest.TempPathFactory) -> None:
    settings = Settings(home=tmp_path_factory.mktemp("home"))
    settings.places.prepare()
    clock = FixedClock()
    with open_store(settings.places.memory_db, clock=clock) as store:
        made = [
            keep(store, " ".join(data.draw(st.lists(WORDS, min_size=2, max_size=6))), content=data.draw(WORDS))
            for _ in range(data.draw(st.integers(2, 6)))
        ]
        texts = {one.episode_id: (one.summary, one.content) for one in made}
        pairs = [(a.id, b.id, 0.95) for a in made for b in made if a.id < b.id]
        for _ in range(data.draw(st.integers(1, 3))):
            clock.advance(data.draw(st.integers(0, 120)) * DAY)
            consolidate(store, settings, similar=lambda *_: iter(pairs), is_forced=True)

        for episode_id, (summary, content) in texts.items():
            found = memory_records.find_memory(store, episode_id)
            assert found is not None
            history = memory_history.history_of(store, episode_id)
            assert summary == found.summary or summary in [c.before.get("summary") for c in history]
            assert content == found.content or content in [c.before.get("content") for c in history]
        assert store.find_damage() == ""
