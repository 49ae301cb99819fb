"""Machines that leave a hub or a team and join it again: nothing is doubled, undone or brought back."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from engram.enums import Actor, Status
from engram.hub.client import team_sharing
from engram.hub.client.membership import leave_hub
from engram.memories.save import pin_memory
from engram.models.hub.spaces import list_servers
from engram.models.memories.memory_changes import change_memory
from tests.hub.machines import Hub, Machine
from tests.hub.test_teams import Person, make_person, team

Make = Callable[..., Machine]
Pair = tuple[Machine, Machine]
__all__ = ["make_person", "team"]


def leave(machine: Machine) -> None:
    leave_hub(machine.store, machine.places, list_servers(machine.store)[0])


def join_again(hub: Hub, laptop: Machine, desktop: Machine) -> None:
    """Let the laptop leave the hub, join it again, and exchange everything with the desktop."""
    leave(laptop)
    laptop.join(hub, desktop.code())
    for machine in (laptop, desktop, laptop):
        machine.sync()


def test_a_pin_made_while_away_undoes_no_edit_of_the_other_machine(pair: Pair, hub: Hub) -> None:
    laptop, desktop = pair
    memory = laptop.save("Version zero.")
    laptop.sync()
    desktop.sync()
    leave(laptop)
    desktop.edit(memory.episode_id, "Version one.")
    desktop.sync()
    pin_memory(laptop.store, memory.episode_id, actor=Actor.USER)
    laptop.join(hub, desktop.code())
    for machine in (laptop, desktop, laptop):
        machine.sync()

    for machine in (laptop, desktop):
        found = machine.find(memory.episode_id)
        assert (found.summary, found.is_pinned) == ("Version one.", True)


def test_what_was_unpinned_while_away_is_unpinned_everywhere(pair: Pair, hub: Hub) -> None:
    laptop, desktop = pair
    memory = laptop.save("Pinned for a while.", is_pinned=True)
    laptop.sync()
    desktop.sync()
    leave(laptop)
    with laptop.store.transaction() as tx:
        change_memory(tx, laptop.find(memory.episode_id), "unpin", actor=Actor.USER, is_pinned=False)
    laptop.join(hub, desktop.code())
    for machine in (laptop, desktop):
        machine.sync()

    assert not laptop.find(memory.episode_id).is_pinned
    assert not desktop.find(memory.episode_id).is_pinned


def test_what_the_other_machine_edited_and_ended_remains_so_and_reaches_a_third_one(
    pair: Pair, hub: Hub, make_machine: Make
) -> None:
    laptop, desktop = pair
    edited, ended = laptop.save("Version zero."), laptop.save("The freeze is on.")
    laptop.sync()
    desktop.sync()
    desktop.edit(edited.episode_id, "Version one.")
    with desktop.store.transaction() as tx:
        change_memory(tx, desktop.find(ended.episode_id), "end", actor=Actor.USER, status=Status.ARCHIVED)
    desktop.sync()
    laptop.sync()
    leave(laptop)
    code = hub.invite("Bea")
    # A new hub account: what the desktop said is not there.
    laptop.join(hub, code)
    laptop.sync()
    third = make_machine("third")
    third.join(hub, laptop.code())
    third.sync()

    for machine in (laptop, third):
        assert machine.find(edited.episode_id).summary == "Version one."
        assert machine.find(ended.episode_id).status == Status.ARCHIVED


def test_an_edit_pulled_before_leaving_is_not_taken_back_on_joining_again(pair: Pair, hub: Hub) -> None:
    laptop, desktop = pair
    memory = laptop.save("Version zero.")
    laptop.sync()
    desktop.sync()
    desktop.edit(memory.episode_id, "Version one.")
    desktop.sync()
    laptop.sync()
    join_again(hub, laptop, desktop)

    assert laptop.find(memory.episode_id).summary == desktop.find(memory.episode_id).summary == "Version one."


def test_an_edit_that_was_not_sent_yet_is_newer_than_an_older_one_that_arrived_later(pair: Pair, hub: Hub) -> None:
    laptop, desktop = pair
    memory = laptop.save("Version zero.")
    laptop.sync()
    desktop.sync()
    desktop.edit(memory.episode_id, "Version one.")
    desktop.sync()
    desktop.edit(memory.episode_id, "Version two.")
    laptop.sync()
    join_again(hub, laptop, desktop)

    assert laptop.find(memory.episode_id).summary == desktop.find(memory.episode_id).summary == "Version two."


def rejoin(bob: Person, ada: Person) -> None:
    code = team_sharing.invite(ada.store, ada.places, ada.team, "writer")
    team_sharing.join_team(bob.store, bob.places, list_servers(bob.store)[0], code)
    bob.machine.sync()


def test_a_team_that_is_joined_again_doubles_nothing_and_brings_nothing_back(
    team: tuple[Person, Person, Person],
) -> None:
    ada, bob, _ = team
    changed, forgotten = ada.save("The port is 8443."), ada.save("Deploys run on Fridays.")
    ada.share(changed, forgotten)
    bob.machine.sync()
    gone = next(memory for memory in bob.theirs() if memory.content == forgotten.content)
    bob.machine.forget(gone.episode_id)
    team_sharing.leave(bob.store, bob.places, bob.team, is_erased=False)
    ada.machine.edit(changed.episode_id, "The port is 9443.")
    ada.share(ada.machine.find(changed.episode_id))
    rejoin(bob, ada)

    assert [memory.content for memory in bob.theirs()] == ["The port is 9443."]
    assert bob.machine.sync().pushed == 0


def test_what_its_author_withdrew_meanwhile_is_gone_after_joining_again(team: tuple[Person, Person, Person]) -> None:
    ada, bob, _ = team
    withdrawn = ada.save("The port is 8443.")
    ada.share(withdrawn)
    bob.machine.sync()
    team_sharing.leave(bob.store, bob.places, bob.team, is_erased=False)
    assert len(bob.theirs()) == 1
    ada.machine.forget(withdrawn.episode_id)
    ada.machine.sync()
    rejoin(bob, ada)

    assert bob.theirs() == []


def test_what_was_erased_on_leaving_a_team_arrives_again_with_the_team(team: tuple[Person, Person, Person]) -> None:
    ada, bob, _ = team
    ada.share(ada.save("The port is 8443."))
    bob.machine.sync()
    for _ in range(2):
        assert team_sharing.leave(bob.store, bob.places, bob.team, is_erased=True) == 1
        assert bob.theirs() == []
        rejoin(bob, ada)

    assert [memory.content for memory in bob.theirs()] == ["The port is 8443."]


@pytest.mark.parametrize("when", ["before the round", "after the round"])
def test_a_member_who_joins_again_changes_and_withdraws_what_they_had_shared(
    team: tuple[Person, Person, Person], when: str
) -> None:
    ada, bob, _ = team
    changed, forgotten, forgotten_later = (bob.save(f"Said {number}.") for number in range(3))
    bob.share(changed, forgotten, forgotten_later)
    ada.machine.sync()
    assert len(ada.theirs()) == 3
    team_sharing.leave(bob.store, bob.places, bob.team, is_erased=False)
    bob.machine.forget(forgotten.episode_id)
    code = team_sharing.invite(ada.store, ada.places, ada.team, "writer")
    team_sharing.join_team(bob.store, bob.places, list_servers(bob.store)[0], code)
    if when == "after the round":
        bob.machine.sync()
    bob.machine.edit(changed.episode_id, "Changed.")
    bob.share(bob.machine.find(changed.episode_id))
    bob.machine.forget(forgotten_later.episode_id)
    bob.machine.sync()
    bob.machine.sync()
    ada.machine.sync()

    assert [memory.content for memory in ada.theirs()] == ["Changed."]
    assert bob.machine.sync().pushed == bob.machine.sync().pulled == 0
