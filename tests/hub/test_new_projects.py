"""A project that is new on two machines is one project on both, whichever says its first memory first."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from engram.enums import Scope
from engram.ingest.session_project import named_project, scope_of_folder
from engram.models.projects.projects import ProjectRow, ensure_project, find_or_await, list_projects
from engram.models.work.work import pause
from engram.settings import Settings
from tests.hub.machines import Machine

REMOTE = "https://git.example.org/acme/shop.git"


class Checkout:
    """A repository on a machine, as a session's folder names it."""

    def __init__(self, machine: Machine, folder: Path, *, with_remote: bool = True) -> None:
        self.machine, self.folder = machine, folder
        self.git("init", "-q", "-b", "main")
        if with_remote:
            self.add_remote()
        with machine.store.transaction() as tx:
            self.project: ProjectRow = ensure_project(tx, str(folder), "shop", str(folder))

    def git(self, *words: str) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        subprocess.run(["git", "-C", str(self.folder), *words], check=True, capture_output=True)

    def add_remote(self) -> None:
        self.git("remote", "add", "origin", REMOTE)

    def learn_remote(self) -> None:
        """Let the next round read the hints again, as if a day had passed."""
        with self.machine.store.transaction() as tx:
            tx.run("UPDATE project SET hints_at_ms = 0", [])

    def save(self, text: str) -> str:
        return self.machine.save(text, scope=Scope.PROJECT, project_id=self.project.id).episode_id

    def names(self) -> list[str]:
        """The identities of the projects here that have a memory."""
        rows = self.machine.store.rows(
            "SELECT DISTINCT p.identity FROM episode e JOIN project p ON p.id = e.project_id ORDER BY p.identity"
        )
        return [identity for (identity,) in rows]


@pytest.mark.parametrize("order", ["laptop first", "desktop first", "both before a pull"])
def test_the_first_memories_of_a_new_project_are_in_one_project_on_both(
    pair: tuple[Machine, Machine], tmp_path: Path, order: str
) -> None:
    laptop, desktop = (Checkout(machine, tmp_path / f"src{number}" / "shop") for number, machine in enumerate(pair))
    laptop.save("We deploy with blue-green switches.")
    desktop.save("The staging database is called heron.")
    first, second = (desktop, laptop) if order == "desktop first" else (laptop, desktop)

    first.machine.sync()
    if order != "both before a pull":
        second.machine.sync()
    for _ in range(2):
        second.machine.sync()
        first.machine.sync()

    assert laptop.names() == [str(laptop.folder)]
    assert desktop.names() == [str(desktop.folder)]
    assert laptop.machine.texts() == desktop.machine.texts()
    assert len(laptop.machine.texts()) == 2


@pytest.mark.parametrize("knows_first", ["laptop", "desktop", "both"])
def test_what_was_said_before_the_remote_was_known_moves_with_what_is_said_later(
    pair: tuple[Machine, Machine], tmp_path: Path, knows_first: str
) -> None:
    laptop, desktop = (
        Checkout(machine, tmp_path / f"src{number}" / "shop", with_remote=False) for number, machine in enumerate(pair)
    )
    laptop.save("We deploy with blue-green switches.")
    desktop.save("The staging database is called heron.")
    for checkout in (laptop, desktop, laptop):
        checkout.machine.sync()
    assert len(laptop.names()) == len(desktop.names()) == 2

    for checkout in (laptop, desktop):
        checkout.add_remote()
    knowing = {"laptop": [laptop, desktop], "desktop": [desktop, laptop], "both": [laptop, desktop]}[knows_first]
    if knows_first == "both":
        for checkout in knowing:
            checkout.learn_remote()
    for checkout in knowing:
        checkout.learn_remote()
        checkout.save(f"The pipeline runs on runner {checkout.folder.parent.name}.")
        checkout.machine.sync()
    for checkout in (*knowing, *knowing):
        checkout.machine.sync()

    assert laptop.names() == [str(laptop.folder)]
    assert desktop.names() == [str(desktop.folder)]
    assert laptop.machine.texts() == desktop.machine.texts()
    assert not [one for one in list_projects(laptop.machine.store) if one.identity.startswith("hub:")]


def test_projects_of_one_name_and_other_remotes_stay_apart(pair: tuple[Machine, Machine], tmp_path: Path) -> None:
    laptop = Checkout(pair[0], tmp_path / "src0" / "shop")
    desktop = Checkout(pair[1], tmp_path / "src1" / "shop", with_remote=False)
    desktop.git("remote", "add", "origin", "https://git.example.org/other/shop.git")
    laptop.save("We deploy with blue-green switches.")
    desktop.save("The staging database is called heron.")
    for checkout in (laptop, desktop, laptop, desktop):
        checkout.machine.sync()

    assert len(laptop.names()) == len(desktop.names()) == 2


@pytest.mark.parametrize("folder_name", ["shop", "shop-clone"])
def test_a_clone_is_the_project_that_came_before_its_first_session(
    pair: tuple[Machine, Machine], tmp_path: Path, folder_name: str
) -> None:
    laptop, desktop = Checkout(pair[0], tmp_path / "src0" / "shop"), pair[1]
    laptop.save("We deploy with blue-green switches.")
    laptop.machine.sync()
    desktop.sync()
    (arrived,) = [one for one in list_projects(desktop.store) if one.identity.startswith("hub:")]
    clone, settings = tmp_path / "src1" / folder_name, Settings(home=desktop.places.root)
    subprocess.run(["git", "init", "-q", str(clone)], check=True)
    subprocess.run(["git", "-C", str(clone), "remote", "add", "origin", REMOTE], check=True)

    # Before a session, and from the first one on.
    seen = scope_of_folder(desktop.store, settings, str(clone)).project
    assert seen is not None
    assert seen.id == arrived.id
    made = scope_of_folder(desktop.store, settings, str(clone), make=True).project

    assert made == ProjectRow(id=arrived.id, identity=str(clone), name=folder_name, root=str(clone))
    assert scope_of_folder(desktop.store, settings, str(clone)).project == made
    assert named_project(desktop.store, folder_name) == made
    desktop.save("The staging database is called heron.", scope=Scope.PROJECT, project_id=made.id)
    for machine in (desktop, laptop.machine, desktop):
        machine.sync()
    assert laptop.names() == [str(laptop.folder)]
    assert laptop.machine.texts() == desktop.texts()
    assert [one.name for one in list_projects(desktop.store)] == [folder_name]


def test_a_paused_project_waits_for_its_clone(pair: tuple[Machine, Machine], tmp_path: Path) -> None:
    laptop, desktop = Checkout(pair[0], tmp_path / "src0" / "shop"), pair[1]
    laptop.save("We deploy with blue-green switches.")
    laptop.machine.sync()
    desktop.sync()
    (arrived,) = [one for one in list_projects(desktop.store) if one.identity.startswith("hub:")]
    remote = arrived.identity.removeprefix("hub:")
    assert find_or_await(desktop.store, str(tmp_path / "src1"), remote) == arrived

    pause(desktop.store, arrived.identity, desktop.store.now_ms() + 60_000)

    assert find_or_await(desktop.store, str(tmp_path / "src1"), remote) is None


@pytest.mark.parametrize("has_memory_there", [True, False])
def test_what_was_said_before_the_remote_was_known_moves_even_if_nothing_else_is_said(
    pair: tuple[Machine, Machine], tmp_path: Path, has_memory_there: bool
) -> None:
    laptop, desktop = (
        Checkout(machine, tmp_path / f"src{number}" / "shop", with_remote=False) for number, machine in enumerate(pair)
    )
    laptop.save("We deploy with blue-green switches.")
    for checkout in (laptop, desktop):
        checkout.machine.sync()
        checkout.add_remote()
        checkout.learn_remote()
    if has_memory_there:
        desktop.save("The staging database is called heron.")
    for checkout in (laptop, desktop, laptop, desktop):
        checkout.machine.sync()

    assert laptop.names() == [str(laptop.folder)]
    assert desktop.names() == [str(desktop.folder)]
    assert [checkout.machine.sync().pushed for checkout in (laptop, desktop)] == [0, 0]
