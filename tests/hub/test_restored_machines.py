"""A backup that is restored takes nothing back that another machine did, and no decision about teams."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from engram.hub.client import team_sharing
from engram.models.hub.carried_hubs import carry_hubs
from engram.models.hub.shares import add_rule, drop_rule, list_rules
from engram.models.hub.spaces import list_spaces
from engram.models.memories.memory_records import Memory
from engram.models.rescue.backup import make_backup
from engram.models.rescue.restore import restore_backup
from tests.hub.machines import Hub, Machine
from tests.hub.test_teams import Person, make_person, make_team, team

Pair = tuple[Machine, Machine]
__all__ = ["make_person", "team"]


def back_up(machine: Machine) -> Path:
    return make_backup(machine.store, machine.places.backups).path


def save_and_back_up(machine: Machine, *, is_in_backup: bool) -> tuple[Memory, Path]:
    """Save a memory and return it with a backup from before or after that."""
    backup = back_up(machine)
    memory = machine.save("Version zero.")
    return memory, back_up(machine) if is_in_backup else backup


def restore(machine: Machine, backup: Path) -> None:
    machine.store.close()
    restore_backup(machine.places.memory_db, backup, driver=machine.store.driver, carry_more=carry_hubs)
    machine.store.open()


@pytest.mark.parametrize("is_pulled", [True, False])
@pytest.mark.parametrize("is_in_backup", [True, False])
def test_a_later_edit_on_another_machine_outlasts_a_restore(pair: Pair, is_pulled: bool, is_in_backup: bool) -> None:
    laptop, desktop = pair
    memory, backup = save_and_back_up(laptop, is_in_backup=is_in_backup)
    laptop.edit(memory.episode_id, "Version one.")
    laptop.sync()
    desktop.sync()
    desktop.edit(memory.episode_id, "Version two.")
    desktop.sync()
    if is_pulled:
        laptop.sync()
    restore(laptop, backup)
    for machine in (laptop, desktop, laptop):
        machine.sync()

    assert laptop.find(memory.episode_id).summary == desktop.find(memory.episode_id).summary == "Version two."


@pytest.mark.parametrize("is_in_backup", [True, False])
def test_an_edit_that_was_not_sent_before_a_restore_reaches_the_other_machine(pair: Pair, is_in_backup: bool) -> None:
    laptop, desktop = pair
    memory, backup = save_and_back_up(laptop, is_in_backup=is_in_backup)
    laptop.sync()
    desktop.sync()
    laptop.edit(memory.episode_id, "Version one.")
    restore(laptop, backup)
    for machine in (laptop, desktop, laptop):
        machine.sync()

    assert laptop.find(memory.episode_id).summary == desktop.find(memory.episode_id).summary == "Version one."


def test_rules_and_what_was_held_back_from_them_are_as_before_a_restore(team: tuple[Person, Person, Person]) -> None:
    _, bob, _ = team
    with bob.store.transaction() as tx:
        rule = add_rule(tx, bob.team.id, bob.project.id, 3_600_000)
    held_back, waiting = bob.save("Held back."), bob.save("Waits.")
    backup = back_up(bob.machine)
    team_sharing.unshare(bob.store, bob.places, bob.team, held_back.episode_id)
    restore(bob.machine, backup)

    (report,) = team_sharing.report_rules(bob.store)
    assert report.rule == rule
    assert [candidate.memory.episode_id for candidate in report.waiting] == [waiting.episode_id]

    with bob.store.transaction() as tx:
        drop_rule(tx, bob.team.id, bob.project.id)
    restore(bob.machine, backup)
    assert list_rules(bob.store) == []


def test_a_muted_member_remains_muted_and_an_unmuted_one_unmuted(team: tuple[Person, Person, Person]) -> None:
    ada, bob, _ = team
    ada.share(ada.save("Deploys run on Fridays."))
    bob.machine.sync()
    backup = back_up(bob.machine)
    team_sharing.mute(bob.store, "ada")
    muted_backup = back_up(bob.machine)
    restore(bob.machine, backup)
    ada.share(ada.save("The port is 8443."))
    bob.machine.sync()
    assert bob.theirs() == []

    team_sharing.unmute(bob.store, "ada")
    restore(bob.machine, muted_backup)
    bob.machine.sync()
    assert len(bob.theirs()) == 2


@pytest.mark.parametrize("is_shared_in_backup", [True, False])
def test_a_share_withdrawn_before_a_restore_is_withdrawn(
    team: tuple[Person, Person, Person], is_shared_in_backup: bool
) -> None:
    ada, bob, _ = team
    memory = bob.save("Deploys run on Fridays.")
    backup = back_up(bob.machine)
    bob.share(memory)
    ada.machine.sync()
    if is_shared_in_backup:
        backup = back_up(bob.machine)
    team_sharing.unshare(bob.store, bob.places, bob.team, memory.episode_id)
    restore(bob.machine, backup)
    bob.machine.sync()
    ada.machine.sync()

    assert ada.theirs() == []


def test_a_team_joined_since_a_backup_is_still_joined(hub: Hub, make_person: Callable[..., Person]) -> None:
    ada, bob = make_person("ada"), make_person("bob")
    backup = back_up(bob.machine)
    make_team(ada, (bob, "writer"))
    ada.share(ada.save("Deploys run on Fridays."))
    restore(bob.machine, backup)
    bob.machine.sync()

    assert [space.name for space in list_spaces(bob.store)] == ["private", "shop"]
    assert len(bob.theirs()) == 1
