"""Teams: what is shared and how it is told, rules, taking back, erasing, muting, reports, sealed spaces."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path

import pytest

from engram.enums import Actor, Importance, Kind, Scope, Status, Voice
from engram.errors import BadRequest, HubRefused, NotFound
from engram.hub.client import team_sharing
from engram.hub.client import team_sharing as sharing
from engram.hub.client.installed_packs import make_pack
from engram.hub.server.accounts import remove_member
from engram.memories.correct import supersede_memory
from engram.memories.save import edit_memory, pin_memory
from engram.models.hub.shares import add_rule, drop_rule, list_rules, list_shares
from engram.models.hub.spaces import Space, list_servers, server_of
from engram.models.memories.memory_changes import change_memory, remove_memory
from engram.models.memories.memory_records import Memory, all_memories
from engram.models.projects.projects import ensure_project
from engram.recollection.briefing_lines import title_line
from engram.redaction import redact
from engram.system.clock import FixedClock
from engram.vaults import Vault, write_vault
from tests.hub.machines import Hub, Machine
from tests.meanwhile import change_before_next_transaction

Make = Callable[..., Machine]
REMOTE = "git.example.org/acme/shop"


class Person:
    """Somebody with a machine, in a repository that colleagues have too."""

    def __init__(self, machine: Machine) -> None:
        self.machine, self.store, self.places = machine, machine.store, machine.places
        with self.store.transaction() as tx:
            root = f"/home/{machine.places.root.name}/shop"
            project = ensure_project(tx, root, "shop", root)
            tx.run("UPDATE project SET remote = ?, first_commit = 'c1' WHERE id = ?", [REMOTE, project.id])
        self.project = project

    @property
    def team(self) -> Space:
        return sharing.require_team(self.store, None)

    def save(self, text: str, **options: object) -> Memory:
        return self.machine.save(text, **({"scope": Scope.PROJECT, "project_id": self.project.id} | options))

    def share(self, *memories: Memory) -> None:
        shown = [
            sharing.preview(self.store, self.places, self.team, self.machine.find(e.episode_id), self.project, redact)
            for e in memories
        ]
        sharing.share(self.store, self.team, shown)
        self.machine.sync()

    def unshare(self, name: str) -> str:
        done = sharing.unshare(self.store, self.places, self.team, name)
        self.machine.sync()
        return done

    def theirs(self) -> list[Memory]:
        """What teammates said, as it lies here."""
        return sorted((e for e in all_memories(self.store) if e.origin), key=lambda memory: memory.summary)


@pytest.fixture
def make_person(hub: Hub, make_machine: Make) -> Callable[..., Person]:
    def make(name: str, **options: object) -> Person:
        machine = make_machine(name, **options)
        machine.join(hub, hub.invite(name))
        return Person(machine)

    return make


@pytest.fixture
def team(make_person: Callable[..., Person]) -> tuple[Person, Person, Person]:
    """A keeper, a writer and a reader of an open team."""
    ada, bob, cyd = (make_person(name) for name in ("ada", "bob", "cyd"))
    make_team(ada, (bob, "writer"), (cyd, "reader"))
    return ada, bob, cyd


def make_team(keeper: Person, *others: tuple[Person, str], is_sealed: bool = False) -> Space:
    server = list_servers(keeper.store)[0]
    space = team_sharing.make_team(keeper.store, keeper.places, server, "shop", is_sealed=is_sealed)
    for person, role in others:
        code = team_sharing.invite(keeper.store, keeper.places, space, role)
        team_sharing.join_team(person.store, person.places, list_servers(person.store)[0], code)
    return space


def test_only_what_was_shared_leaves_and_it_is_told_as_a_teammates(
    hub: Hub, team: tuple[Person, Person, Person]
) -> None:
    ada, bob, cyd = team
    ada.save("My salary is a secret.", kind=Kind.FACT)
    secret = "ghp_" + "a1B2c3D4e5" * 3 + "abcdef"
    shared = ada.save(f"The price list is cached for an hour. token {secret}", importance=Importance.HIGH)
    pin_memory(ada.store, shared.episode_id, actor=Actor.USER)
    ada.share(shared)
    for person in (bob, cyd):
        person.machine.sync()

    (told,) = bob.theirs()
    assert (told.origin, told.voice, told.scope) == ("teammate ada", Voice.ASSISTANT, Scope.PROJECT)
    assert (told.importance, told.is_pinned, told.confidence, told.project_id) == (
        Importance.NORMAL,
        False,
        0.5,
        bob.project.id,
    )
    assert secret not in told.content
    assert "teammate ada" in title_line(told, told.summary)
    assert [e.summary for e in cyd.theirs()] == [told.summary]
    rows = hub.rows(
        "SELECT encode(body, 'escape') AS body FROM hub.statement s JOIN hub.namespace USING (ns_id) "
        "WHERE kind = 'team'"
    )
    assert len(rows) == 1
    # What a teammate said is nobody's to pass on, and no reader shares.
    with pytest.raises(BadRequest, match="teammate ada's"):
        sharing.preview(bob.store, bob.places, bob.team, told, bob.project, redact)
    with pytest.raises(BadRequest, match="teammate ada's"):
        make_pack("theirs", 1, [told], redact)
    with pytest.raises(BadRequest, match="requires the role of writer"):
        sharing.require_team(cyd.store, None, least="writer")
    with pytest.raises(BadRequest, match="your own words"):
        edit_memory(bob.store, told.episode_id, redact, content="changed", actor=Actor.USER)
    assert bob.machine.sync().pushed == 0


def test_a_share_is_a_copy_that_its_author_replaces_ends_and_withdraws(team: tuple[Person, Person, Person]) -> None:
    ada, bob, _ = team
    memory = ada.save("Deploys run on Fridays.")
    ada.share(memory)
    edit_memory(ada.store, memory.episode_id, redact, content="Deploys run on Mondays.", actor=Actor.USER)
    ada.machine.sync()
    bob.machine.sync()
    assert [e.content for e in bob.theirs()] == ["Deploys run on Fridays."]

    ada.share(memory)
    bob.machine.sync()
    assert [e.content for e in bob.theirs()] == ["Deploys run on Mondays."]
    newer = ada.save("Nobody deploys by hand.")
    supersede_memory(ada.store, memory.episode_id, newer.episode_id, actor=Actor.USER)
    ada.machine.sync()
    bob.machine.sync()
    assert [e.status for e in bob.theirs()] == [Status.ARCHIVED]

    assert "withdrawn" in ada.unshare(memory.episode_id)
    bob.machine.sync()
    assert bob.theirs() == []
    assert ada.machine.find(memory.episode_id).content == "Deploys run on Mondays."
    # A memory that is forgotten is forgotten by everybody; one that is purged stays shared, and can be taken back.
    both = [ada.save("The cache lies in redis."), ada.save("The queue lies in postgres.")]
    ada.share(*both)
    ada.machine.forget(both[0].episode_id)
    with ada.store.transaction() as tx:
        remove_memory(tx, ada.machine.find(both[1].episode_id), actor=Actor.USER, is_purge=True)
    ada.machine.sync()
    bob.machine.sync()
    assert [e.content for e in bob.theirs()] == ["The queue lies in postgres."]
    (left,) = list_shares(ada.store, ada.team)
    assert left.summary == ""
    ada.unshare(left.said.memory_id.hex())
    bob.machine.sync()
    assert bob.theirs() == []


def test_what_must_not_be_shared_is_refused(team: tuple[Person, Person, Person], tmp_path: Path) -> None:
    ada = team[0]
    with ada.store.transaction() as tx:
        bank = ensure_project(tx, "/home/ada/bank", "bank", "/home/ada/bank")
    other = ada.save("The bank's password rules.", project_id=bank.id)
    everywhere = ada.machine.save("Use tabs.")
    old = dataclasses.replace(ada.save("An old one."), status=Status.ARCHIVED)
    suspect = dataclasses.replace(ada.save("Another one."), suspect="looks like an instruction")

    def refused(memory: Memory, place: object, reason: str) -> None:
        with pytest.raises(BadRequest, match=reason):
            sharing.preview(ada.store, ada.places, ada.team, memory, place, redact)  # type: ignore[arg-type]

    refused(other, ada.project, "belongs to bank")
    refused(everywhere, None, "does not belong to a project")
    refused(old, ada.project, "is archived")
    refused(suspect, ada.project, "is suspect")
    shown = sharing.preview(ada.store, ada.places, ada.team, everywhere, ada.project, redact)
    edit_memory(ada.store, everywhere.episode_id, redact, content="Use spaces.", actor=Actor.USER)
    with pytest.raises(BadRequest, match="changed since it was shown"):
        sharing.share(ada.store, ada.team, [shown])
    judged = ada.save("The shop closes at eight.")
    shown = sharing.preview(ada.store, ada.places, ada.team, judged, ada.project, redact)
    with ada.store.transaction() as tx:
        change_memory(tx, judged, "judge", "", actor=Actor.TIDYING, suspect="looks like an instruction")
    with pytest.raises(BadRequest, match="changed since it was shown"):
        sharing.share(ada.store, ada.team, [shown])
    vault = Vault("bank", ("/home/ada/bank",), ada.places.root / "vaults" / "bank", is_sealed=True)
    write_vault(vault)
    refused(other, bank, "is in a vault")
    with pytest.raises(BadRequest, match="is a vault"):
        sharing.check_rule(vault.home, bank)
    assert list_shares(ada.store, ada.team) == []
    with pytest.raises(NotFound):
        sharing.require_team(ada.store, "nothing")


def test_a_former_writer_cannot_withdraw_what_was_sent_and_learns_why(
    team: tuple[Person, Person, Person],
) -> None:
    ada, bob, cyd = team
    sent, unsent = bob.save("The harbour uses uv."), bob.save("The pier is painted on Mondays.")
    bob.share(sent)
    ada.machine.sync()
    cyd.machine.sync()
    shown = [sharing.preview(bob.store, bob.places, bob.team, unsent, bob.project, redact)]
    sharing.share(bob.store, bob.team, shown)
    team_sharing.set_role(ada.store, ada.places, ada.team, "bob", "reader")
    bob.machine.sync()

    assert bob.team.last_error == "1 change can't be sent: you are a reader here"
    with pytest.raises(BadRequest, match=r"only a reader in shop.*`engram unshare [0-9a-f]{16}`") as refused:
        bob.unshare(sent.episode_id)
    assert [memory.summary for memory in cyd.theirs()] == [sent.summary]
    # What was never sent can be kept back, and the command that the message names works for a keeper.
    assert "was withdrawn" in bob.unshare(unsent.episode_id)
    ada.unshare(str(refused.value).split("`")[1].split()[-1])
    cyd.machine.sync()
    assert cyd.theirs() == []


def test_a_rule_shares_late_and_nothing_that_was_edited_forgotten_or_kept_back(
    hub: Hub, make_person: Callable[..., Person]
) -> None:
    clock = FixedClock(1_790_000_000_000)
    ada, bob = make_person("ada", clock=clock), make_person("bob")
    space = make_team(ada, (bob, "reader"))
    hub.service.clock = clock
    ada.save("Said before the rule.")
    clock.advance(1)
    with ada.store.transaction() as tx:
        add_rule(tx, space.id, ada.project.id, 3_600_000)
    kept = ada.save("Prices are in cents.")
    edited, gone, barred = ada.save("Edited later."), ada.save("Forgotten soon."), ada.save("Kept back.")
    with ada.store.transaction() as tx:
        other = ensure_project(tx, "/home/ada/bank", "bank", "/home/ada/bank")
    ada.save("Of another project.", project_id=other.id)
    ada.machine.save("Everywhere.")
    ada.machine.sync()
    assert list_shares(ada.store, space) == []
    clock.advance(1_800)
    edit_memory(ada.store, edited.episode_id, redact, content="Edited now.", actor=Actor.USER)
    ada.machine.forget(gone.episode_id)
    ada.unshare(barred.episode_id)
    clock.advance(1_900)
    ada.machine.sync()
    assert [share.said.episode_id for share in list_shares(ada.store, space)] == [kept.episode_id]
    assert [c.memory.episode_id for r in sharing.report_rules(ada.store) for c in r.waiting] == [edited.episode_id]
    clock.advance(1_900)
    ada.machine.sync()
    ada.unshare(kept.episode_id)
    ada.machine.sync()
    bob.machine.sync()

    assert {e.content for e in bob.theirs()} == {"Edited now."}
    with ada.store.transaction() as tx:
        assert drop_rule(tx, space.id, ada.project.id)
    assert list_rules(ada.store) == []


def test_a_rule_that_is_dropped_during_a_round_shares_nothing(
    hub: Hub, make_person: Callable[..., Person], monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = FixedClock(1_790_000_000_000)
    ada, bob = make_person("ada", clock=clock), make_person("bob")
    space = make_team(ada, (bob, "reader"))
    with ada.store.transaction() as tx:
        add_rule(tx, space.id, ada.project.id, 3_600_000)
    ada.save("Prices are in cents.")
    clock.advance(3_601)

    def drop() -> None:
        with ada.store.transaction() as tx:
            drop_rule(tx, space.id, ada.project.id)

    change_before_next_transaction(monkeypatch, drop)
    assert sharing.share_by_rules(ada.store, ada.places, server_of(ada.store, space), redact) == 0
    assert list_shares(ada.store, space) == []


def test_reports_of_two_members_who_imported_the_same_file_are_told_apart(
    hub: Hub, team: tuple[Person, Person, Person]
) -> None:
    ada, bob, cyd = team
    texts = {person: f"The shop of {person.places.root.name} opens at nine." for person in (ada, bob)}
    for person, text in texts.items():
        memory = person.save(text)
        with person.store.transaction() as tx:
            # An import keeps a memory's id, so the shares of two people who imported it have the same id.
            tx.run("UPDATE episode SET stable_id = 'from a file' WHERE episode_id = ?", [memory.episode_id])
        person.share(memory)
    cyd.machine.sync()
    for memory in cyd.theirs():
        team_sharing.report_memory(cyd.store, cyd.places, memory.episode_id, "wrong")
    ada.machine.sync()

    reported = team_sharing.list_reported(ada.store, ada.places, ada.team)
    assert {one.summary for one in reported} == set(texts.values())
    (of_bob,) = (one.episode_id for one in reported if one.summary == texts[bob])
    (left,) = team_sharing.list_reported(ada.store, ada.places, ada.team, settle=of_bob)
    assert left.summary == texts[ada]


def test_a_keeper_erases_mutes_and_expels_and_a_report_reaches_them(
    hub: Hub, team: tuple[Person, Person, Person], make_machine: Make
) -> None:
    ada, bob, cyd = team
    bob.share(*(bob.save(f"Fact number {number} about the shop.") for number in range(3)))
    cyd.machine.sync()
    ada.machine.sync()
    first, _, _ = cyd.theirs()
    with pytest.raises(BadRequest, match="someone else's"):
        cyd.unshare(first.episode_id)
    team_sharing.report_memory(cyd.store, cyd.places, first.episode_id, "wrong")
    ada.machine.sync()
    assert ada.team.reports == 1
    (reported,) = team_sharing.list_reported(ada.store, ada.places, ada.team)
    assert (reported.summary, reported.by, reported.reason) == (first.summary, "cyd", "wrong")
    assert "erased for everyone" in ada.unshare(reported.episode_id)
    assert team_sharing.list_reported(ada.store, ada.places, ada.team) == []
    for person in (bob, cyd):
        person.machine.sync()
    assert len(cyd.theirs()) == 2
    assert len(list_shares(bob.store, bob.team)) == 2
    assert len([e for e in all_memories(bob.store) if not e.origin]) == 3

    team_sharing.mute(cyd.store, "bob")
    bob.share(bob.save("Fact number four about the shop."))
    cyd.machine.sync()
    assert cyd.theirs() == []
    team_sharing.unmute(cyd.store, "bob")
    cyd.machine.sync()
    assert len(cyd.theirs()) == 3
    cyd.machine.forget(cyd.theirs()[0].episode_id)
    cyd.machine.sync()
    assert len(ada.theirs()) == 2

    team_sharing.mute(ada.store, "bob")
    ada.machine.sync()
    team_sharing.set_role(ada.store, ada.places, ada.team, "bob", "")
    assert sharing.erase_member(ada.store, ada.places, ada.team, list_servers(bob.store)[0].member_id) == 3
    ada.machine.sync()
    cyd.machine.sync()
    assert cyd.theirs() == []
    living = "SELECT 1 FROM hub.statement JOIN hub.namespace USING (ns_id) WHERE kind = 'team' AND NOT is_forgotten"
    assert hub.rows(living) == []
    bob.machine.sync()
    with pytest.raises(NotFound):
        _ = bob.team
    with pytest.raises(HubRefused, match="needs a keeper"):
        team_sharing.set_role(ada.store, ada.places, ada.team, "ada", "reader")
    assert team_sharing.leave(cyd.store, cyd.places, cyd.team, is_erased=True) == 0


def test_the_last_member_dissolves_a_team_and_nothing_of_it_stays_on_the_hub(
    hub: Hub, team: tuple[Person, Person, Person]
) -> None:
    ada, bob, cyd = team
    other = make_team(bob, (cyd, "reader"))
    bob_only = next(space for space in sharing.team_spaces(bob.store) if space.ns_id == other.ns_id)
    shop = next(space for space in sharing.team_spaces(bob.store) if space.ns_id != other.ns_id)
    memory = bob.save("The till is counted at six.")
    shown = [sharing.preview(bob.store, bob.places, shop, memory, bob.project, redact)]
    sharing.share(bob.store, shop, shown)
    sharing.share(bob.store, bob_only, shown)
    bob.machine.sync()
    cyd.machine.sync()
    ada.machine.sync()
    (theirs,) = ada.theirs()
    team_sharing.report_memory(ada.store, ada.places, theirs.episode_id, "wrong")
    team_sharing.invite(ada.store, ada.places, ada.team, "reader")
    space = ada.team

    # While others are members, nobody dissolves it, and the only keeper can't leave.
    with pytest.raises(BadRequest, match="only keeper of shop: first make another member"):
        team_sharing.is_last_member(ada.store, ada.places, space)
    with pytest.raises(HubRefused, match="only the last one can dissolve it"):
        team_sharing.leave(ada.store, ada.places, space, is_erased=False, dissolves=True)
    assert not team_sharing.is_last_member(bob.store, bob.places, shop)
    team_sharing.leave(bob.store, bob.places, shop, is_erased=False)
    # A member whom the operator has removed does not count.
    remove_member(hub.database, "cyd", is_erased=False)
    assert team_sharing.is_last_member(ada.store, ada.places, space)
    team_sharing.leave(ada.store, ada.places, space, is_erased=False, dissolves=True)

    for table in ("namespace", "seat", "mark", "statement", "code", "report"):
        ids = [row.ns_id for row in hub.rows(f"SELECT ns_id FROM hub.{table}")]
        assert shop.ns_id not in ids, table
    assert other.ns_id in [row.ns_id for row in hub.rows("SELECT ns_id FROM hub.statement")]
    ada.machine.sync()
    bob.machine.sync()
    assert sharing.team_spaces(ada.store) == []
    assert [space.ns_id for space in sharing.team_spaces(bob.store)] == [other.ns_id]
    assert [found.summary for found in ada.theirs()] == [theirs.summary]


def test_a_sealed_team_needs_its_key_and_the_hub_reads_nothing(
    hub: Hub, make_person: Callable[..., Person], make_machine: Make
) -> None:
    ada, bob = make_person("ada"), make_person("bob")
    space = make_team(ada, (bob, "writer"), is_sealed=True)
    memory = ada.save("quixotic canary of a sealed team")
    ada.share(memory)
    bob.machine.sync()
    assert [e.content for e in bob.theirs()] == [memory.content]
    assert all(b"canary" not in bytes(row.body) for row in hub.rows("SELECT body FROM hub.statement"))
    code = team_sharing.invite(ada.store, ada.places, space, "reader")
    with pytest.raises(BadRequest, match="mistyped"):
        team_sharing.join_team(
            bob.store, bob.places, list_servers(bob.store)[0], code[:-1] + ("A" if code[-1] != "A" else "B")
        )

    # Her other machine learns of the team from the hub, of the key from her.
    desktop = make_machine("desktop")
    desktop.join(hub, ada.machine.code())
    desktop.sync()
    team_sharing.accept_team(desktop.store, desktop.places, "shop")
    desktop.sync()
    theirs = sharing.require_team(desktop.store, "shop")
    assert [share.said.episode_id for share in list_shares(desktop.store, theirs)] == [memory.episode_id]
    assert sharing.unshare(desktop.store, desktop.places, theirs, memory.episode_id)
    desktop.sync()
    ada.machine.sync()
    bob.machine.sync()
    assert bob.theirs() == []
    assert ada.machine.find(memory.episode_id).content == memory.content


def test_a_share_that_ended_holds_again_for_whoever_missed_that_in_between(team: tuple[Person, Person, Person]) -> None:
    ada, bob, _ = team
    memory = ada.save("Deploys run on Fridays.")
    ada.share(memory)

    def set_status(status: Status) -> None:
        with ada.store.transaction() as tx:
            change_memory(tx, ada.machine.find(memory.episode_id), "end", actor=Actor.USER, status=status)

    set_status(Status.ARCHIVED)
    ada.machine.sync()
    bob.machine.sync()
    assert [told.is_current for told in bob.theirs()] == [False]
    set_status(Status.ACTIVE)
    edit_memory(ada.store, memory.episode_id, redact, content="Deploys run on Mondays.", actor=Actor.USER)
    ada.share(memory)
    bob.machine.sync()

    assert [(told.content, told.is_current) for told in bob.theirs()] == [("Deploys run on Mondays.", True)]


def test_a_keeper_erases_for_everyone_what_they_have_forgotten_themselves(team: tuple[Person, Person, Person]) -> None:
    ada, bob, cyd = team
    bob.share(bob.save("Deploys run on Fridays."))
    ada.machine.sync()
    cyd.machine.sync()
    (told,) = ada.theirs()
    ada.machine.forget(told.episode_id)
    assert "erased for everyone" in ada.unshare(told.episode_id)
    cyd.machine.sync()

    assert cyd.theirs() == []
    with pytest.raises(NotFound):
        ada.unshare(told.episode_id)


def test_a_share_ends_with_its_memory_on_a_machine_that_is_not_in_the_team(
    hub: Hub, team: tuple[Person, Person, Person], make_machine: Make
) -> None:
    ada, bob, _ = team
    memory = ada.save("Deploys run on Fridays.")
    ada.share(memory)
    desktop = make_machine("desktop")
    desktop.join(hub, ada.machine.code())
    desktop.sync()
    with desktop.store.transaction() as tx:
        change_memory(tx, desktop.find(memory.episode_id), "end", actor=Actor.USER, status=Status.ARCHIVED)
    for machine in (desktop, ada.machine, bob.machine):
        machine.sync()

    assert [told.is_current for told in bob.theirs()] == [False]
