"""Two machines of one person and a sealed space: what is said on one is found on the other, and stays forgotten."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

from engram.enums import Actor, Importance, Status
from engram.memories.save import edit_memory, pin_memory
from engram.models.memories import memory_changes
from engram.models.rescue.backup import make_backup
from engram.redaction import redact
from tests.hub.machines import Hub, HubCopy, Machine

Make = Callable[..., Machine]
Pair = tuple[Machine, Machine]


def test_what_was_there_before_joining_and_what_is_saved_later_is_found_on_the_other_machine(
    hub: Hub, make_machine: Make
) -> None:
    laptop, desktop = make_machine("laptop"), make_machine("desktop")
    before = laptop.save("We deploy with blue-green switches on Fridays.")
    joined = laptop.join(hub, hub.invite("Ada"))
    laptop.sync()
    desktop.join(hub, laptop.code())
    desktop.sync()
    later = desktop.save("The staging database is called heron.", is_pinned=True)
    desktop.sync()
    laptop.sync()

    assert len(joined.phrase.split()) == 17
    assert desktop.state(before.episode_id) == laptop.state(before.episode_id)
    assert laptop.state(later.episode_id) == desktop.state(later.episode_id)
    assert laptop.find(later.episode_id).is_pinned
    assert laptop.said() == desktop.said()


def test_a_memory_is_found_by_its_questions_on_the_other_machine(pair: Pair) -> None:
    laptop, desktop = pair
    asked = laptop.save("We deploy with blue-green switches.")
    questions = ("How do releases reach users?",)
    with laptop.store.transaction() as tx:
        memory_changes.change_memory(tx, asked, "edit", actor=Actor.AGENT, questions=questions)
    plain = laptop.save("The staging database is called heron.")
    laptop.sync()
    desktop.sync()

    assert desktop.find(asked.episode_id).questions == questions
    assert desktop.find(plain.episode_id).questions == ()
    with desktop.store.transaction() as tx:
        (found,) = tx.rows("SELECT rowid FROM episode_fts WHERE episode_fts MATCH 'releases'")
    assert found == (desktop.find(asked.episode_id).id,)

    edit_memory(desktop.store, asked.episode_id, redact, actor=Actor.USER, summary="We deploy by hand.")
    desktop.sync()
    laptop.sync()

    assert (laptop.find(asked.episode_id).summary, laptop.find(asked.episode_id).questions) == (
        "We deploy by hand.",
        (),
    )


def test_fields_are_joined_one_by_one_and_the_later_of_two_values_counts(pair: Pair) -> None:
    laptop, desktop = pair
    memory = laptop.save("The release branch is cut on Tuesdays.")
    laptop.sync()
    desktop.sync()

    edit_memory(laptop.store, memory.episode_id, redact, actor=Actor.USER, content="It is cut on Mondays.")
    pin_memory(desktop.store, memory.episode_id, actor=Actor.USER)
    edit_memory(desktop.store, memory.episode_id, redact, actor=Actor.USER, content="It is cut on Sundays.")
    edit_memory(laptop.store, memory.episode_id, redact, actor=Actor.USER, importance=Importance.HIGH)
    edit_memory(laptop.store, memory.episode_id, redact, actor=Actor.USER, content="It is cut on Wednesdays.")
    for machine in (laptop, desktop, laptop):
        machine.sync()

    assert laptop.said() == desktop.said()
    assert laptop.state(memory.episode_id) == desktop.state(memory.episode_id)
    seen = desktop.find(memory.episode_id)
    assert (seen.content, seen.is_pinned, seen.importance) == ("It is cut on Wednesdays.", True, Importance.HIGH)
    assert not laptop.sync().did_something


def test_a_memory_that_is_forgotten_on_one_machine_is_gone_from_the_other_and_from_the_hub(
    pair: Pair, hub: Hub, tmp_path: Path
) -> None:
    laptop, desktop = pair
    memory = laptop.save("The canary word is quixotically-canary for the forget of two machines.")
    pin_memory(laptop.store, memory.episode_id, actor=Actor.USER)
    laptop.sync()
    desktop.sync()
    (desktop.places.notes / "daily" / "2026-01-01.md").write_text(f"- {memory.summary}\n")
    make_backup(desktop.store, desktop.places.backups, keep=2)
    edit_memory(desktop.store, memory.episode_id, redact, actor=Actor.USER, importance=Importance.HIGH)
    desktop.sync()

    laptop.forget(memory.episode_id)
    laptop.sync()
    desktop.sync()

    assert memory.content not in desktop.texts()
    files = [path for path in desktop.places.root.rglob("*") if path.is_file()]
    assert len(files) > 2
    assert [path for path in files if b"quixotically-canary" in path.read_bytes()] == []
    assert [row.is_forgotten for row in hub.rows("SELECT is_forgotten FROM hub.statement")] == [True]


def test_a_change_that_comes_after_the_forget_brings_nothing_back(pair: Pair) -> None:
    laptop, desktop = pair
    memory = laptop.save("The build runs on the machine called otter.")
    laptop.sync()
    desktop.sync()

    laptop.forget(memory.episode_id)
    laptop.sync()
    edit_memory(desktop.store, memory.episode_id, redact, actor=Actor.USER, content="It runs on the machine badger.")
    for machine in (desktop, laptop, desktop):
        machine.sync()

    assert laptop.texts() == desktop.texts() == set()


def test_what_replaces_a_memory_replaces_it_everywhere_in_any_order_of_arrival(pair: Pair) -> None:
    laptop, desktop = pair
    old = laptop.save("We use npm in every project of ours.")
    laptop.sync()
    desktop.sync()

    new = desktop.save("We use pnpm in every project of ours.", supersedes=old.episode_id)
    for machine in (desktop, laptop):
        machine.sync()
    assert (laptop.find(old.episode_id).status, laptop.find(old.episode_id).superseded_by) == (
        Status.SUPERSEDED,
        new.episode_id,
    )

    laptop.forget(new.episode_id)
    for machine in (laptop, desktop, laptop):
        machine.sync()
    assert laptop.find(old.episode_id).status == desktop.find(old.episode_id).status == Status.ACTIVE
    assert laptop.said() == desktop.said()


def test_a_copy_of_a_machine_becomes_a_separate_device_and_nothing_is_lost(
    pair: Pair, hub: Hub, make_machine: Make, tmp_path: Path
) -> None:
    laptop, desktop = pair
    laptop.save("Known before the disk was cloned.")
    laptop.sync()
    waiting = laptop.save("Not pushed when the disk was cloned.")
    laptop.store.checkpoint("TRUNCATE")
    laptop.store.close()
    shutil.copytree(laptop.places.root, tmp_path / "clone")
    clone = make_machine("clone")
    edit_memory(laptop.store, waiting.episode_id, redact, actor=Actor.USER, content="Said by the laptop.")
    laptop.sync()
    edit_memory(clone.store, waiting.episode_id, redact, actor=Actor.USER, content="Said by the clone.")
    own = clone.save("Made on the clone alone.")
    clone.sync()
    for machine in (laptop, desktop, clone):
        machine.sync()

    assert laptop.said() == desktop.said() == clone.said()
    assert laptop.find(own.episode_id).content == own.content
    assert desktop.find(waiting.episode_id).content == "Said by the clone."
    assert len(hub.rows("SELECT device_id FROM hub.device")) == 3


def test_a_hub_that_was_put_back_to_an_older_copy_gets_everything_again(
    pair: Pair, hub: Hub, make_machine: Make
) -> None:
    laptop, desktop = pair
    early = laptop.save("Said before the hub's backup.")
    laptop.sync()
    desktop.sync()
    copy = HubCopy.take(hub)
    late = desktop.save("Said after the hub's backup, on the desktop.")
    pin_memory(desktop.store, early.episode_id, actor=Actor.USER)
    desktop.sync()
    laptop.sync()
    gone = laptop.save("Forgotten after the hub's backup.")
    laptop.sync()
    laptop.forget(gone.episode_id)
    laptop.sync()
    desktop.sync()

    copy.put_back(hub)
    desktop_is_lost = make_machine("third")
    laptop.sync()
    desktop_is_lost.join(hub, laptop.code())
    desktop_is_lost.sync()

    # The laptop alone said again what the desktop had said.
    assert desktop_is_lost.said() == laptop.said()
    assert desktop_is_lost.find(late.episode_id).content == late.content
    assert desktop_is_lost.find(early.episode_id).is_pinned
    desktop.sync()
    laptop.sync()
    assert desktop.said() == laptop.said()
    assert not {gone.content} & (laptop.texts() | desktop.texts() | desktop_is_lost.texts())
