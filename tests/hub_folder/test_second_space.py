"""Two machines that both began alone: one is told to leave, and nothing is left of its space."""

from __future__ import annotations

import shlex
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from engram.hub.client.membership import leave_hub
from engram.models.hub.spaces import folder_notes, list_servers
from tests.hub.machines import Machine
from tests.hub_folder.test_git_folder import git

Make = Callable[..., Machine]
HERE, THERE = "this machine has to leave its own: run `engram hub leave`", "on the machine that began it"


def notes(machine: Machine) -> tuple[str, ...]:
    machine.sync()
    return folder_notes(machine.store, list_servers(machine.store)[0].id)


def leave(machine: Machine) -> bool:
    return leave_hub(machine.store, machine.places, list_servers(machine.store)[0])


def apart(
    make_machine: Make, tmp_path: Path, *, texts: tuple[str, str] = ("Said first.", "Said second.")
) -> list[Machine]:
    """Two machines that began alone; then the sync program brought the files of both into one folder."""
    machines = [make_machine(name) for name in ("one", "other")]
    for machine, text in zip(machines, texts, strict=True):
        machine.use_folder(tmp_path / f"synced by {machine.places.root.name}")
        if text:
            machine.save(text)
        machine.sync()
        shutil.copytree(tmp_path / f"synced by {machine.places.root.name}", tmp_path / "synced", dirs_exist_ok=True)
    for machine in machines:
        machine.use_folder(tmp_path / "synced")
    return machines


def in_order(machines: list[Machine]) -> tuple[Machine, Machine]:
    """The machine that is told to leave, and the other one."""
    told = [notes(machine) for machine in machines]
    assert [len(lines) for lines in told] == [1, 1]
    leaves = [HERE in line for (line,) in told]
    assert sorted(leaves) == [False, True]
    assert THERE in told[leaves.index(False)][0]
    return machines[leaves.index(True)], machines[leaves.index(False)]


@pytest.mark.parametrize("texts", [("Said first.", "Said second."), ("Said first.", ""), ("", "Said second.")])
def test_one_machine_is_told_to_leave_and_the_warning_ends_when_it_has(
    make_machine: Make, tmp_path: Path, texts: tuple[str, str]
) -> None:
    machines = apart(make_machine, tmp_path, texts=texts)
    leaver, stayer = in_order(machines)
    if not all(texts):
        assert leaver is machines[texts.index("")]
    (note,) = notes(leaver)
    assert f"engram sync {shlex.quote(str(tmp_path / 'synced'))} --phrase" in note

    assert leave(leaver)
    leaver.use_folder(tmp_path / "synced", stayer.phrase)
    for machine in (leaver, stayer, leaver):
        assert notes(machine) == ()
    assert leaver.texts() == stayer.texts() == {text for text in texts if text}
    assert len(list((tmp_path / "synced" / "spaces").iterdir())) == 1


def test_the_space_of_more_machines_stays_and_a_machine_that_leaves_it_deletes_nothing(
    make_machine: Make, tmp_path: Path
) -> None:
    leaver, stayer = in_order(apart(make_machine, tmp_path))
    third = make_machine("third")
    third.use_folder(tmp_path / "synced", leaver.phrase)
    third.save("Said by a third one.")
    third.sync()
    assert HERE in notes(stayer)[0]
    assert THERE in notes(leaver)[0]
    assert THERE in notes(third)[0]

    before = sorted((tmp_path / "synced").rglob("*.seg"))
    assert not leave(third)
    assert sorted((tmp_path / "synced").rglob("*.seg")) == before


def test_the_last_machine_of_the_only_space_leaves_its_files_for_the_phrase(make_machine: Make, tmp_path: Path) -> None:
    laptop, tablet = make_machine("laptop"), make_machine("tablet")
    laptop.use_folder(tmp_path / "synced")
    laptop.save("It can be had again.")
    laptop.sync()
    assert not leave(laptop)
    tablet.use_folder(tmp_path / "synced", laptop.phrase)
    tablet.sync()

    assert tablet.texts() == {"It can be had again."}


def test_a_space_that_nobody_uses_is_named_with_the_folder_to_delete(make_machine: Make, tmp_path: Path) -> None:
    leaver, stayer = in_order(apart(make_machine, tmp_path))
    (note,) = notes(stayer)
    path = Path(note.rpartition("delete ")[2])
    assert path.parent == tmp_path / "synced" / "spaces"
    shutil.rmtree(path)
    assert notes(stayer) == ()
    assert leaver.texts() != stayer.texts()


def test_in_git_the_space_of_the_machine_that_leaves_is_deleted_and_pushed(make_machine: Make, tmp_path: Path) -> None:
    git(tmp_path, "init", "-q", "--bare", "-b", "main", "remote.git")
    machines = [make_machine(name) for name in ("one", "other")]
    clones = {machine.places.root: tmp_path / f"clone of {machine.places.root.name}" for machine in machines}
    for machine in machines:
        git(tmp_path, "clone", "-q", "remote.git", str(clones[machine.places.root]))
        machine.save(f"Said on {machine.places.root.name}.")
        machine.use_folder(clones[machine.places.root], with_git=True)
    for machine in machines:
        machine.sync()
    leaver, stayer = in_order(machines)
    assert "--git --phrase" in notes(leaver)[0]

    assert leave(leaver)
    leaver.use_folder(clones[leaver.places.root], stayer.phrase, with_git=True)
    for machine in (leaver, stayer, leaver):
        assert notes(machine) == ()
    assert leaver.texts() == stayer.texts() == {"Said on one.", "Said on other."}
    assert len(git(tmp_path / "remote.git", "ls-tree", "--name-only", "main", "spaces/").split()) == 1
    assert {git(clone, "status", "--porcelain") for clone in clones.values()} == {""}
