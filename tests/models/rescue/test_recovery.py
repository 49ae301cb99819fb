"""What people did by hand comes out of damaged and older databases; what transcripts bring again does not."""

from __future__ import annotations

import contextlib
import os
import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from engram.enums import Actor, Scope, Source
from engram.errors import BudgetReached, DiskFull
from engram.models.engine.transaction import Store
from engram.models.forgetting.erase_entries import sources_of
from engram.models.hub.carried_hubs import carry_hubs
from engram.models.hub.spaces import drop_server, list_servers
from engram.models.memories import memory_changes
from engram.models.memories.judgements import note_contradiction
from engram.models.memories.memory_imports import contradictions_of
from engram.models.memories.memory_records import Evidence, Memory, all_memories, evidence_of, memories_of_turns
from engram.models.memories.tombstones import is_memory_gone
from engram.models.memories.watermarks import keep_undone, load_undone, mark_unjoined, unjoined_rows
from engram.models.open_memory import open_store
from engram.models.projects.project_folders import keep_apart, kept_apart
from engram.models.rescue.carry_over import recover_by_hand
from engram.models.work.spend import Caps, reserve, settle, spending
from engram.models.work.work import pause, paused_scopes
from engram.system.clock import FixedClock
from engram.transcripts.turns import Opening, Role, TextBlock
from tests.models.conversations import make_turn, store_project, store_turn
from tests.models.hub_spaces_made import join_made_up

Keep = Callable[..., Memory]
CAPS = Caps(
    dollars_per_hour=1.0, dollars_per_day=2.0, dollars_per_project=0.5, calls_per_hour=60, tokens_per_day=2_000_000
)


@pytest.fixture
def new(store: Store, tmp_path: Path) -> Iterator[Store]:
    with open_store(tmp_path / "new" / "memory.db", driver=store.driver, clock=store.clock) as opened:
        yield opened


def close_and_copy(store: Store, path: Path) -> Path:
    """A copy of the memory as it is now, in one file."""
    store.checkpoint("TRUNCATE")
    path.write_bytes(store.path.read_bytes())
    return path


def test_only_what_somebody_decided_is_carried(store: Store, new: Store, keep: Keep) -> None:
    keep("made of a transcript")
    keep("saved", source=Source.MANUAL)
    keep("pinned", is_pinned=True)
    keep("lowered", is_lowered=True)
    edited = keep("edit me")
    forgotten = keep("forgotten", source=Source.MANUAL)
    with store.transaction() as tx:
        memory_changes.change_memory(tx, edited, "edit", actor=Actor.USER, summary="edited")
        memory_changes.delete_memory(tx, forgotten, actor=Actor.USER)

    done = recover_by_hand(new, [store.path], actor=Actor.USER, carry_more=carry_hubs)

    assert {memory.summary for memory in all_memories(new)} == {"saved", "pinned", "lowered", "edited"}
    assert (done.memories, done.tombstones, done.lost, done.is_complete) == (4, 1, 0, True)
    assert is_memory_gone(new, forgotten.episode_id, with_purged=False)


def test_what_came_back_with_its_project_is_not_by_hand(store: Store, new: Store, keep: Keep, tmp_path: Path) -> None:
    project = store_project(store, "a")
    keep("made of a transcript", project_id=project.id, scope=Scope.PROJECT)
    keep("pinned", project_id=project.id, scope=Scope.PROJECT, is_pinned=True)

    done = recover_by_hand(new, [store.path], actor=Actor.USER, with_new_projects=True, carry_more=carry_hubs)
    with open_store(tmp_path / "third" / "memory.db", driver=store.driver, clock=store.clock) as third:
        again = recover_by_hand(third, [new.path], actor=Actor.TIDYING, carry_more=carry_hubs)

        assert (done.memories, again.memories) == (2, 1)
        assert [memory.summary for memory in all_memories(third)] == ["pinned"]


def test_what_waits_to_be_compared_still_waits_afterwards(store: Store, new: Store, keep: Keep) -> None:
    waiting = keep("waiting", is_pinned=True)
    keep("compared", is_pinned=True)
    with store.transaction() as tx:
        mark_unjoined(tx, waiting.id)

    recover_by_hand(new, [store.path], actor=Actor.USER, carry_more=carry_hubs)

    assert [memory.summary for memory in all_memories(new) if memory.id in unjoined_rows(new)] == ["waiting"]


def test_the_newest_source_wins_and_older_ones_fill_in(store: Store, new: Store, keep: Keep, tmp_path: Path) -> None:
    memory, dropped = keep("old words", source=Source.MANUAL), keep("only in the old one", source=Source.MANUAL)
    older = close_and_copy(store, tmp_path / "older.db")
    with store.transaction() as tx:
        memory_changes.change_memory(tx, memory, "edit", actor=Actor.USER, summary="new words")
        tx.run("DELETE FROM episode WHERE id = ?", (dropped.id,))

    recover_by_hand(new, [store.path, older], actor=Actor.USER, carry_more=carry_hubs)

    assert {memory.summary for memory in all_memories(new)} == {"new words", "only in the old one"}


def test_what_was_forgotten_since_does_not_come_out_of_an_older_source(
    store: Store, new: Store, keep: Keep, tmp_path: Path
) -> None:
    memory = keep("forgotten since", source=Source.MANUAL)
    older = close_and_copy(store, tmp_path / "older.db")
    with store.transaction() as tx:
        memory_changes.delete_memory(tx, memory, actor=Actor.USER)

    done = recover_by_hand(new, [store.path, older], actor=Actor.USER, carry_more=carry_hubs)

    assert (all_memories(new), done.memories, done.lost) == ([], 0, 0)


def test_a_source_that_is_not_a_database_is_passed_over_and_said(
    store: Store, new: Store, keep: Keep, tmp_path: Path
) -> None:
    keep("saved", source=Source.MANUAL)
    broken = tmp_path / "broken.db"
    broken.write_bytes(os.urandom(8192))

    done = recover_by_hand(new, [broken, store.path], actor=Actor.USER, carry_more=carry_hubs)

    assert [memory.summary for memory in all_memories(new)] == ["saved"]
    assert not done.is_complete


def test_a_memory_that_cannot_be_read_anywhere_counts_as_lost(store: Store, new: Store, keep: Keep) -> None:
    keep("saved", source=Source.MANUAL)
    damaged = keep("saved too", source=Source.MANUAL)
    with store.transaction() as tx:
        tx.run("UPDATE episode SET content = X'00FF00FF' WHERE id = ?", (damaged.id,))

    done = recover_by_hand(new, [store.path], actor=Actor.USER, carry_more=carry_hubs)

    assert [memory.summary for memory in all_memories(new)] == ["saved"]
    assert (done.memories, done.lost) == (1, 1)


def test_carrying_twice_doubles_nothing_and_pauses_come_along(store: Store, new: Store, keep: Keep) -> None:
    keep("saved", source=Source.MANUAL)
    pause(store, "git:/a", store.now_ms() + 60_000)

    first = recover_by_hand(new, [store.path], actor=Actor.USER, carry_more=carry_hubs)
    second = recover_by_hand(new, [store.path], actor=Actor.USER, carry_more=carry_hubs)

    assert (first.memories, second.memories) == (1, 0)
    assert len(all_memories(new)) == 1
    assert paused_scopes(new) == {"git:/a"}


def test_what_the_newest_source_cannot_tell_an_older_one_tells(
    store: Store, new: Store, keep: Keep, tmp_path: Path
) -> None:
    join_made_up(store)
    first, second = keep("use tabs", is_pinned=True), keep("use spaces", is_pinned=True)
    with store.transaction() as tx:
        note_contradiction(tx, first.episode_id, second.episode_id, "tabs or spaces")
        keep_undone(tx, [("archive", first.episode_id)])
        keep_apart(tx, ["git:/apart"])
    older = close_and_copy(store, tmp_path / "older.db")
    broken = tmp_path / "broken.db"
    broken.write_bytes(b"no database at all " * 500)

    recover_by_hand(new, [broken, older], actor=Actor.TIDYING, carry_more=carry_hubs)

    assert [server.member_name for server in list_servers(new)] == ["Ada"]
    assert [one.newer_id for one in contradictions_of(new, second.episode_id)] == [second.episode_id]
    assert load_undone(new) == [("archive", first.episode_id)]
    assert set(kept_apart(new)) == {"git:/apart"}


def test_what_the_newest_source_no_longer_has_does_not_come_out_of_an_older_one(
    store: Store, new: Store, tmp_path: Path
) -> None:
    join_made_up(store)
    older = close_and_copy(store, tmp_path / "older.db")
    with store.transaction() as tx:
        drop_server(tx, list_servers(tx)[0].id)

    recover_by_hand(new, [store.path, older], actor=Actor.TIDYING, carry_more=carry_hubs)

    assert list_servers(new) == []


@pytest.mark.parametrize("table", ["evidence", "history"])
def test_a_saved_memory_comes_back_without_what_cannot_be_read_of_it(
    store: Store, new: Store, keep: Keep, tmp_path: Path, table: str
) -> None:
    keep("saved", source=Source.MANUAL)
    damaged = close_and_copy(store, tmp_path / "damaged.db")
    with contextlib.closing(sqlite3.connect(damaged)) as connection:
        connection.execute(f"DROP TABLE {table}")

    done = recover_by_hand(new, [damaged], actor=Actor.TIDYING, carry_more=carry_hubs)

    assert [memory.summary for memory in all_memories(new)] == ["saved"]
    assert (done.memories, done.lost) == (1, 0)


def test_no_cap_is_lifted_by_replacing_memory_db(store: Store, new: Store, clock: FixedClock, tmp_path: Path) -> None:
    def spend(into: Store, dollars: float, project_id: int | None = None) -> int:
        clock.advance(1)
        return reserve(
            into,
            CAPS,
            task="extract",
            model="m",
            project_id=project_id,
            input_tokens=1,
            output_tokens=1,
            dollars=dollars,
        )

    open_call = spend(store, 0.3)
    older = close_and_copy(store, tmp_path / "older.db")
    settle(store, open_call, input_tokens=1, output_tokens=1, dollars=0.2)
    store_project(store, "first")
    spend(store, 0.4, store_project(store, "second").id)
    clock.advance(1800)

    with open_store(older, driver=store.driver, clock=store.clock) as backup:
        for into, sources in ((new, [store.path, older]), (backup, [store.path])):
            recover_by_hand(into, sources, actor=Actor.USER, with_new_projects=True, carry_more=carry_hubs)

            assert sum(row.dollars for row in spending(into, 0)) == pytest.approx(0.6)
            with pytest.raises(BudgetReached, match="an hour"):
                spend(into, 0.5)
            with pytest.raises(BudgetReached, match="project"):
                spend(into, 0.2, store_project(into, "second").id)
            spend(into, 0.3)
    clock.advance(86_400)
    spend(new, 0.3)


def test_a_full_disk_ends_it_instead_of_skipping_what_was_saved_or_forgotten(
    store: Store, new: Store, keep: Keep
) -> None:
    keep("saved " * 5_000, source=Source.MANUAL)
    pages = new.value("PRAGMA page_count")
    new.value(f"PRAGMA max_page_count = {pages}")

    with pytest.raises(DiskFull):
        recover_by_hand(new, [store.path], actor=Actor.USER, carry_more=carry_hubs)


def test_a_memory_of_a_queued_prompt_still_knows_its_prompt(store: Store, new: Store, keep: Keep) -> None:
    said = (TextBlock("", Role.USER, "Always use tabs", offset=0, length=5, line=1),)
    queued = make_turn("q:1", "", said=said, entries=(), opening=Opening.QUEUED)
    memory = keep("use tabs", is_pinned=True, evidence=[Evidence("", "s1", store_turn(store, queued))])
    assert sources_of(store, memory) == ["q:1"]

    recover_by_hand(new, [store.path], actor=Actor.TIDYING, carry_more=carry_hubs)
    turn_id = store_turn(new, queued)

    (recovered,) = all_memories(new)
    assert sources_of(new, recovered) == ["q:1"]
    assert [entry.turn_id for entry in evidence_of(new, recovered.id)] == [turn_id]
    assert memories_of_turns(new, [turn_id]) == [recovered]
