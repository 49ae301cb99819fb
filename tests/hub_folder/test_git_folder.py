"""A git checkout as the folder: two machines that both commit, and what git must not do."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from engram.errors import HubUnreachable
from engram.hub.client.join_folder import look_into
from engram.hub.client.rounds import Round, sync_all
from engram.redaction import redact
from tests.hub.machines import Machine

Make = Callable[..., Machine]
ROUNDS = 10


def git(folder: Path, *arguments: str) -> str:
    """Run git as a person does."""
    identity = ["-c", "user.name=Ada", "-c", "user.email=ada@example.org"]
    done = subprocess.run(["git", *identity, *arguments], cwd=folder, capture_output=True, text=True, check=True)
    return done.stdout


@pytest.fixture
def clones(tmp_path: Path) -> tuple[Path, Path]:
    """Two checkouts of an empty repository."""
    git(tmp_path, "init", "-q", "--bare", "-b", "main", "remote.git")
    for name in ("one", "two"):
        git(tmp_path, "clone", "-q", "remote.git", name)
    return tmp_path / "one", tmp_path / "two"


@pytest.fixture
def pair(make_machine: Make, clones: tuple[Path, Path]) -> tuple[Machine, Machine]:
    laptop, desktop = make_machine("laptop"), make_machine("desktop")
    laptop.save("Said before.")
    laptop.use_folder(clones[0], with_git=True)
    laptop.sync()
    desktop.use_folder(clones[1], laptop.phrase, with_git=True)
    desktop.sync()
    return laptop, desktop


def attempt(machine: Machine) -> Round:
    """Make a round that may fail."""
    (done,) = sync_all(machine.store, machine.places, redact, is_forced=True)
    return done


def test_two_machines_that_both_commit_stay_in_step_for_ten_rounds(
    pair: tuple[Machine, Machine], clones: tuple[Path, Path]
) -> None:
    laptop, desktop = pair
    gone = ""
    for number in range(ROUNDS):
        laptop.save(f"laptop {number}")
        made = desktop.save(f"desktop {number}")
        # Neither has fetched what the other one commits in this round.
        (clones[0] / f"note {number}").write_text("a file of the person's own")
        git(clones[0], "add", f"note {number}")
        git(clones[0], "commit", "-qm", f"note {number}")
        if number == 4:
            gone = made.episode_id
        if number == 6:
            laptop.forget(gone)
        laptop.sync()
        desktop.sync()
    laptop.sync()
    desktop.sync()

    assert laptop.said() == desktop.said()
    assert len(laptop.texts()) == 2 * ROUNDS
    assert {git(clone, "status", "--porcelain") for clone in clones} == {""}
    assert (clones[1] / "note 9").exists()
    assert git(clones[0], "log", "--merges", "--oneline") == ""
    authors = set(git(clones[1], "log", "--format=%an %s", "--", "spaces").splitlines())
    assert authors == {"Engram engram: sync"}


def test_a_push_that_another_machine_was_faster_than_is_put_on_top(
    pair: tuple[Machine, Machine], clones: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    from engram.hub.client.git_folder import GitFolder

    laptop, desktop = pair
    real, raced = GitFolder.finish, []

    def finish(self: GitFolder, own_folder: Path) -> None:
        if not raced:
            raced.append(True)
            desktop.save("The other one was faster.")
            desktop.sync()
        real(self, own_folder)

    monkeypatch.setattr(GitFolder, "finish", finish)
    laptop.save("This one was slower.")
    laptop.sync()
    laptop.sync()
    desktop.sync()

    assert laptop.texts() == desktop.texts() == {"Said before.", "The other one was faster.", "This one was slower."}
    assert git(clones[0], "rev-parse", "HEAD") == git(clones[1], "rev-parse", "HEAD")


def test_a_remote_that_is_away_fails_the_round_and_loses_nothing(pair: tuple[Machine, Machine], tmp_path: Path) -> None:
    laptop, desktop = pair
    (tmp_path / "remote.git").rename(tmp_path / "away.git")
    laptop.save("Said offline.")
    assert "git could not fetch" in attempt(laptop).error
    (tmp_path / "away.git").rename(tmp_path / "remote.git")
    laptop.sync()
    desktop.sync()

    assert "Said offline." in desktop.texts()


@pytest.mark.parametrize("what", ["merge", "detached", "dirty"])
def test_a_checkout_with_another_operation_in_progress_is_left_alone(
    pair: tuple[Machine, Machine], clones: tuple[Path, Path], what: str
) -> None:
    laptop, desktop = pair
    (clones[0] / "own").write_text("one\n")
    git(clones[0], "add", "own")
    git(clones[0], "commit", "-qm", "own")
    git(clones[0], "push", "-q")
    desktop.sync()
    (clones[1] / "own").write_text("two\n")
    git(clones[1], "commit", "-qam", "other")
    git(clones[1], "push", "-q")
    if what == "merge":
        (clones[0] / ".git" / "MERGE_HEAD").write_text(git(clones[0], "rev-parse", "HEAD"))
    elif what == "detached":
        git(clones[0], "checkout", "-q", "--detach")
    else:
        (clones[0] / "own").write_text("not committed\n")
    before = (clones[0] / "own").read_text()
    laptop.save("It waits.")
    error = attempt(laptop).error

    assert error
    assert (clones[0] / "own").read_text() == before
    if what == "merge":
        (clones[0] / ".git" / "MERGE_HEAD").unlink()
    elif what == "detached":
        git(clones[0], "checkout", "-q", "main")
    else:
        git(clones[0], "checkout", "-q", "own")
    laptop.sync()
    desktop.sync()
    assert "It waits." in desktop.texts()


@pytest.mark.parametrize("setting", ["core.hooksPath", "core.fsmonitor", "filter.x.clean", "core.sshCommand", "hook"])
def test_nothing_that_the_checkout_configures_is_run(
    pair: tuple[Machine, Machine], clones: tuple[Path, Path], tmp_path: Path, setting: str
) -> None:
    laptop, _ = pair
    program = tmp_path / "program"
    program.write_text(f"#!/bin/sh\ntouch {tmp_path}/ran\ncat\n")
    program.chmod(0o755)
    hooks = clones[0] / ".git" / "hooks"
    if setting in ("core.hooksPath", "hook"):
        hooks = tmp_path / "hooks" if setting == "core.hooksPath" else hooks
        hooks.mkdir(exist_ok=True)
        for name in ("pre-commit", "post-commit", "pre-push", "post-merge", "post-checkout", "reference-transaction"):
            (hooks / name).write_bytes(program.read_bytes())
            (hooks / name).chmod(0o755)
        program = hooks
    if setting != "hook":
        git(clones[0], "config", setting, str(program))
    (clones[0] / ".git" / "info").mkdir(exist_ok=True)
    (clones[0] / ".git" / "info" / "attributes").write_text("* filter=x\n")
    laptop.save("Nothing runs.")
    laptop.sync()

    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize("setting", ["credential.helper", "credential.https://example.org.helper", "merge.x.driver"])
def test_a_checkout_that_names_a_program_for_remotes_is_refused(
    pair: tuple[Machine, Machine], clones: tuple[Path, Path], setting: str
) -> None:
    git(clones[0], "config", setting, "!touch ran")
    assert setting in attempt(pair[0]).error


def test_a_folder_outside_any_checkout_is_refused(tmp_path: Path) -> None:
    (tmp_path / "plain").mkdir()
    with pytest.raises(HubUnreachable, match="not a git checkout"):
        look_into(tmp_path / "plain", with_git=True)


def test_a_repository_that_takes_files_for_text_changes_none_of_ours(
    make_machine: Make, clones: tuple[Path, Path]
) -> None:
    (clones[0] / ".gitattributes").write_text("* text eol=crlf\n*.seg filter=lfs\n")
    (clones[0] / ".gitignore").write_text("*.seg\n")
    git(clones[0], "add", ".")
    git(clones[0], "commit", "-qm", "attributes")
    git(clones[0], "push", "-q")
    laptop, desktop = make_machine("laptop"), make_machine("desktop")
    laptop.use_folder(clones[0], with_git=True)
    for number in range(12):
        laptop.save(f"note {number}")
        laptop.sync()
    desktop.use_folder(clones[1], laptop.phrase, with_git=True)
    desktop.sync()

    assert desktop.said() == laptop.said()
