"""What a person or an agent changed since a backup survives a restore of it; what tidying did since does not."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from engram.enums import Actor, Judgement, Scope, Source, Status
from engram.memories.correct import correct_memory, judge_memory, keep_one, supersede_memory, take_back_judgement
from engram.memories.save import edit_memory, pin_memory, trust_memory
from engram.models.engine.transaction import Store
from engram.models.hub.carried_hubs import carry_hubs
from engram.models.memories import memory_changes
from engram.models.memories.judgements import note_contradiction, open_contradictions, standing_judgements
from engram.models.memories.memory_history import history_of
from engram.models.memories.memory_records import Memory, find_memory
from engram.models.open_memory import open_store
from engram.models.projects.project_folders import keep_apart, kept_apart, list_hints, merge_projects
from engram.models.projects.projects import ProjectRow, ensure_project, find_project, rename_project
from engram.models.rescue.backup import make_backup
from engram.models.rescue.restore import Restored, restore_backup
from engram.models.work.work import pause, paused_scopes, resume
from engram.system.clock import SYSTEM_CLOCK, FixedClock
from tests.empty_memory import open_empty

Keep = Callable[..., Memory]


@dataclass
class Life:
    """A memory with a backup, and what happened to it since."""

    store: Store
    backup: Path

    def restore(self) -> Restored:
        """Close the memory and put the backup in its place; ``store`` is the restored one afterwards."""
        self.store.close()
        done = restore_backup(self.store.path, self.backup, driver=self.store.driver, carry_more=carry_hubs)
        self.store = open_store(self.store.path, driver=self.store.driver, clock=self.store.clock)
        return done

    def now(self, memory: Memory) -> Memory:
        found = find_memory(self.store, memory.episode_id)
        assert found is not None
        return found

    def actions(self, memory: Memory) -> list[str]:
        return [step.action for step in history_of(self.store, memory.episode_id)]


@pytest.fixture
def back_up(store: Store, tmp_path: Path) -> Callable[[], Life]:
    return lambda: Life(store, make_backup(store, tmp_path / "backups").path)


def test_each_change_by_a_person_is_there_after_a_restore(
    store: Store, keep: Keep, back_up: Callable[[], Life]
) -> None:
    pinned, unpinned = keep("pin me"), keep("unpin me", is_pinned=True)
    edited, widened = keep("edit me"), keep("everywhere")
    wrong, helpful, outdated = keep("judged wrong"), keep("judged helpful"), keep("judged outdated")
    corrected, replaced, better = keep("it opens at six"), keep("the old way"), keep("the new way")
    held = keep("orders", suspect="an order")
    life = back_up()
    pin_memory(store, pinned.episode_id, actor=Actor.USER, is_pinned=True)
    pin_memory(store, unpinned.episode_id, actor=Actor.USER, is_pinned=False)
    edit_memory(store, edited.episode_id, str, actor=Actor.USER, summary="edited")
    edit_memory(store, widened.episode_id, str, actor=Actor.AGENT, scope=Scope.GLOBAL)
    judge_memory(store, wrong.episode_id, Judgement.WRONG, "no", str, actor=Actor.USER)
    judge_memory(store, helpful.episode_id, Judgement.HELPFUL, "yes", str, actor=Actor.AGENT)
    judge_memory(store, outdated.episode_id, Judgement.OUTDATED, "over", str, actor=Actor.USER)
    made = correct_memory(store, corrected.episode_id, "It opens at seven", "seen", str, actor=Actor.USER).made
    supersede_memory(store, replaced.episode_id, better.episode_id, actor=Actor.USER)
    trust_memory(store, held.episode_id, actor=Actor.USER)

    done = life.restore()

    assert life.now(pinned).is_pinned
    assert not life.now(unpinned).is_pinned
    assert life.now(edited).summary == "edited"
    assert life.now(widened).scope == Scope.GLOBAL
    assert life.now(wrong).is_lowered
    assert life.now(outdated).status == Status.ARCHIVED
    judged = [standing_judgements(history_of(life.store, one.episode_id)) for one in (wrong, helpful, outdated)]
    assert [[step.reason for step in steps] for steps in judged] == [["no"], ["yes"], ["over"]]
    assert (life.now(corrected).status, life.now(corrected).superseded_by) == (Status.SUPERSEDED, made.episode_id)
    assert life.now(made).is_current
    assert life.now(replaced).superseded_by == better.episode_id
    assert life.now(held).suspect == ""
    assert (done.carried.memories, done.carried.changed) == (1, 10)


def test_what_was_not_a_persons_is_taken_back(store: Store, keep: Keep, back_up: Callable[[], Life]) -> None:
    memory = keep("as it was")
    life = back_up()
    with store.transaction() as tx:
        changed = memory_changes.change_memory(tx, memory, "rewrite", actor=Actor.MODEL, summary="by a model")
        memory_changes.change_memory(tx, changed, "archive", actor=Actor.TIDYING, status=Status.ARCHIVED)
    pin_memory(store, memory.episode_id, actor=Actor.USER, is_pinned=True)

    life.restore()

    now = life.now(memory)
    assert (now.summary, now.status, now.is_pinned) == ("as it was", Status.ACTIVE, True)


def test_the_history_comes_along_once_and_can_still_be_taken_back(
    store: Store, keep: Keep, back_up: Callable[[], Life]
) -> None:
    memory = keep("judged and taken back")
    life = back_up()
    judge_memory(store, memory.episode_id, Judgement.WRONG, "no", str, actor=Actor.USER)
    take_back_judgement(store, memory.episode_id, actor=Actor.USER)
    judge_memory(store, memory.episode_id, Judgement.OUTDATED, "over", str, actor=Actor.USER)
    at_ms = [step.at_ms for step in history_of(store, memory.episode_id)]

    life.restore()
    again = life.restore()

    assert life.actions(memory)[1:] == ["bad", "take back", "outdated"]
    steps = history_of(life.store, memory.episode_id)
    assert [step.at_ms for step in steps] == at_ms
    assert steps[2].undoes == steps[1].id
    assert again.carried.changed == 1
    take_back_judgement(life.store, memory.episode_id, actor=Actor.USER)
    assert life.now(memory).is_current


def test_a_saved_memory_comes_with_its_history(store: Store, keep: Keep, back_up: Callable[[], Life]) -> None:
    life = back_up()
    saved = keep("saved", source=Source.MANUAL)
    pin_memory(store, saved.episode_id, actor=Actor.USER, is_pinned=True)

    life.restore()

    assert life.actions(saved)[1:] == ["pin", "recover"]
    assert life.now(saved).is_pinned


def test_what_a_person_chose_as_replacement_comes_along(store: Store, keep: Keep, back_up: Callable[[], Life]) -> None:
    old = keep("the old way")
    life = back_up()
    chosen = keep("read from a transcript since")
    supersede_memory(store, old.episode_id, chosen.episode_id, actor=Actor.USER)

    life.restore()

    assert life.now(old).superseded_by == chosen.episode_id
    assert life.now(chosen).is_current


def test_a_decision_about_a_contradiction_is_not_asked_again(
    store: Store, keep: Keep, back_up: Callable[[], Life]
) -> None:
    first, second = keep("six"), keep("seven")
    with store.transaction() as tx:
        note_contradiction(tx, first.episode_id, second.episode_id, "the hour")
    life = back_up()
    keep_one(store, second.episode_id, actor=Actor.USER)
    third = keep("eight", source=Source.MANUAL)
    with store.transaction() as tx:
        note_contradiction(tx, second.episode_id, third.episode_id, "the hour")

    life.restore()

    assert life.now(first).superseded_by == second.episode_id
    assert [(one.older_id, one.newer_id) for one in open_contradictions(life.store)] == [
        (second.episode_id, third.episode_id)
    ]
    decisions = life.store.rows("SELECT decision FROM contradiction ORDER BY id")
    assert decisions == [(second.episode_id,), ("",)]


def test_a_quotation_that_was_judged_stays_judged(store: Store, back_up: Callable[[], Life]) -> None:
    life = back_up()
    with store.transaction() as tx:
        tx.run(
            "INSERT INTO history (episode_id, at_ms, action, reason, actor, before, after) "
            "VALUES ('q_0123456789ab00', 5, 'bad', 'no', 'user', '{}', '{}')"
        )

    life.restore()
    life.restore()

    assert life.store.rows("SELECT episode_id, at_ms FROM history") == [("q_0123456789ab00", 5)]


def made(store: Store, name: str) -> ProjectRow:
    with store.transaction() as tx:
        return ensure_project(tx, f"/gone/{name}", name, f"/gone/{name}")


def test_names_and_links_of_projects_are_kept(store: Store, keep: Keep, back_up: Callable[[], Life]) -> None:
    boat, shed, pier = made(store, "boat"), made(store, "shed"), made(store, "pier")
    memory = keep("of the shed", project_id=shed.id)
    life = back_up()
    rename_project(store, boat, "ferry")
    merge_projects(store, pier, shed, "by hand", actor=Actor.USER)
    with store.transaction() as tx:
        keep_apart(tx, ["/gone/elsewhere"])
    newer = made(store, "dock")
    rename_project(store, newer, "quay")

    life.restore()

    assert find_project(life.store, "/gone/boat").name == "ferry"  # type: ignore[union-attr]
    assert find_project(life.store, "/gone/shed").name == "pier"  # type: ignore[union-attr]
    assert find_project(life.store, "/gone/dock").name == "quay"  # type: ignore[union-attr]
    assert life.now(memory).project_id == find_project(life.store, "pier").id  # type: ignore[union-attr]
    assert [hints.folders for hints in list_hints(life.store) if hints.project.name == "pier"] == [("/gone/shed",)]
    assert "/gone/elsewhere" in kept_apart(life.store)


def test_a_memory_without_a_rename_leaves_the_name_that_the_backup_knows(
    store: Store, tmp_path: Path, back_up: Callable[[], Life]
) -> None:
    rename_project(store, made(store, "boat"), "ferry")
    life = back_up()
    store.close()
    with open_empty(tmp_path / "anew" / "memory.db", driver=store.driver) as anew:
        made(anew, "boat")
    (tmp_path / "anew" / "memory.db").rename(store.path)

    life.restore()

    assert find_project(life.store, "/gone/boat").name == "ferry"  # type: ignore[union-attr]


def test_a_pause_that_ended_since_is_over_and_one_that_was_extended_lasts(
    store: Store, clock: FixedClock, back_up: Callable[[], Life]
) -> None:
    now = clock.at_ms = SYSTEM_CLOCK.now_ms() - 60_000
    for scope in ("/over", "/longer", "/same"):
        pause(store, scope, now + 900_000_000)
    life = back_up()
    clock.at_ms += 1000
    resume(store, "/over")
    pause(store, "/longer", now + 990_000_000)

    life.restore()

    assert paused_scopes(life.store) == {"/longer", "/same"}
    assert life.store.value("SELECT until_ms FROM pause WHERE scope = '/longer'") == now + 990_000_000


def test_what_the_backup_knows_later_is_not_overwritten(store: Store, keep: Keep, back_up: Callable[[], Life]) -> None:
    memory = keep("edit me")
    life = back_up()
    edit_memory(store, memory.episode_id, str, actor=Actor.USER, summary="edited earlier")
    pin_memory(store, memory.episode_id, actor=Actor.USER, is_pinned=True)
    later = store.now_ms() + 5_000
    with sqlite3.connect(life.backup) as other:
        other.execute(
            "INSERT INTO history (episode_id, at_ms, action, reason, actor, before, after) "
            "VALUES (?, ?, 'edit', '', 'user', '{}', '{\"summary\": \"edit me\"}')",
            (memory.episode_id, later),
        )
    other.close()

    life.restore()

    assert (life.now(memory).summary, life.now(memory).is_pinned) == ("edit me", True)


def test_a_row_is_taken_whole_if_its_history_cannot_be_read(
    store: Store, keep: Keep, back_up: Callable[[], Life]
) -> None:
    memory = keep("edit me")
    life = back_up()
    edit_memory(store, memory.episode_id, str, actor=Actor.USER, summary="edited")
    with store.transaction() as tx:
        tx.run("UPDATE history SET after = 'not JSON' WHERE action = 'edit'")

    life.restore()

    assert life.now(memory).summary == "edited"


def test_what_the_changed_memory_forgot_of_its_words_stays_forgotten(
    store: Store, keep: Keep, back_up: Callable[[], Life]
) -> None:
    memory = keep("the walnut harbour", content="The walnut harbour is deep.")
    life = back_up()
    with store.transaction() as tx:
        erased = memory_changes.erase_fields(tx, memory, "forgotten", actor=Actor.USER, content="")
        memory_changes.change_memory(tx, erased, "pin", actor=Actor.USER, is_pinned=True)

    life.restore()

    assert (life.now(memory).content, life.now(memory).is_pinned) == ("", True)
    assert life.store.rows("SELECT 1 FROM history WHERE before LIKE '%deep%' OR after LIKE '%deep%'") == []
