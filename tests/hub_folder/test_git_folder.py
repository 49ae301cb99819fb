"""A git checkout as the folder: two machines that both commit, and what git must not do."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from engram.errors import HubUnreachable
from engram.hub.client.join_folder import begins_git, look_into
from engram.hub.client.rounds import Round, sync_all
from engram.hub.protocol.frames import WrongKey, new_key
from engram.hub.protocol.requests import phrase_of
from engram.models.hub.spaces import list_servers
from engram.redaction import redact
from tests.hub.machines import Machine

Make = Callable[..., Machine]


def git(folder: Path, *arguments: str) -> str:
    """Run git as a person does."""
    identity = ["-c", "user.name=Ada", "-c", "user.email=ada@example.org"]
    done = subprocess.run(["git", *identity, *arguments], cwd=folder, capture_output=True, text=True, check=True)
    return done.stdout


def commit(folder: Path, name: str) -> str:
    """Commit a file of the person's own; returns the commit."""
    (folder / name).write_text("a file of the person's own")
    git(folder, "add", "--", name)
    git(folder, "commit", "-qm", f"add {name}", "--", name)
    return git(folder, "rev-parse", "HEAD").strip()


def everything(folder: Path) -> tuple[str, str, str, set[Path]]:
    """What a checkout knows and holds: its branch and refs, its changes and files."""
    refs = git(folder, "for-each-ref", "--format=%(refname) %(objectname)")
    paths = {path for path in folder.rglob("*") if ".git" not in path.parts}
    return git(folder, "symbolic-ref", "HEAD"), refs, git(folder, "status", "--porcelain"), paths


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


@pytest.mark.parametrize("rounds", [4, pytest.param(12, marks=pytest.mark.soak)])
def test_two_machines_that_both_commit_stay_in_step(
    pair: tuple[Machine, Machine], clones: tuple[Path, Path], rounds: int
) -> None:
    laptop, desktop = pair
    gone = ""
    for number in range(rounds):
        laptop.save(f"laptop {number}")
        made = desktop.save(f"desktop {number}")
        # Neither has fetched what the other one commits in this round.
        commit(clones[0], f"note {number}")
        git(clones[0], "pull", "-q", "--rebase")
        git(clones[0], "push", "-q")
        if number == rounds // 4 - 1:
            gone = made.episode_id
        if number == rounds // 2:
            laptop.forget(gone)
        laptop.sync()
        desktop.sync()
    laptop.sync()
    desktop.sync()

    assert laptop.said() == desktop.said()
    assert len(laptop.texts()) == 2 * rounds
    assert {git(clone, "status", "--porcelain") for clone in clones} == {""}
    assert (clones[1] / f"note {rounds - 1}").exists()
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


# -- commits of a person


@pytest.mark.parametrize("is_behind", [False, True])
def test_a_commit_of_a_person_is_neither_pushed_nor_rewritten(
    pair: tuple[Machine, Machine], clones: tuple[Path, Path], tmp_path: Path, is_behind: bool
) -> None:
    laptop, desktop = pair
    if is_behind:
        desktop.save("Pushed meanwhile.")
        desktop.sync()
    mine = commit(clones[0], "private draft")
    laptop.save("It waits.")
    error = attempt(laptop).error

    assert "a commit by you that origin lacks" in error
    assert "add private draft" in error
    assert "`git push`" in error
    assert git(clones[0], "rev-parse", "HEAD").strip() == mine
    assert "private draft" not in git(tmp_path / "remote.git", "log", "--format=%s", "--all")

    git(clones[0], "branch", "-q", "drafts")
    git(clones[0], "reset", "-q", "--hard", "origin/main")
    laptop.sync()
    desktop.sync()
    assert "It waits." in desktop.texts()
    assert laptop.said() == desktop.said()
    assert git(clones[0], "rev-parse", "drafts").strip() == mine
    assert "private draft" not in git(tmp_path / "remote.git", "log", "--format=%s", "--all")


def test_a_commit_made_during_a_round_is_not_pushed_either(
    pair: tuple[Machine, Machine], clones: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from engram.hub.client.git_folder import GitFolder

    laptop, desktop = pair
    real, made = GitFolder.finish, []

    def finish(self: GitFolder, own_folder: Path) -> None:
        made.append(commit(clones[0], "private draft"))
        real(self, own_folder)

    monkeypatch.setattr(GitFolder, "finish", finish)
    laptop.save("Said meanwhile.")
    error = attempt(laptop).error
    monkeypatch.undo()

    assert "add private draft" in error
    assert "private draft" not in git(tmp_path / "remote.git", "log", "--format=%s", "--all")
    assert made[0] in git(clones[0], "log", "--format=%H").split()
    git(clones[0], "push", "-q")
    laptop.sync()
    desktop.sync()
    assert "Said meanwhile." in desktop.texts()


def test_a_commit_of_engrams_with_a_file_of_a_persons_is_not_pushed(
    pair: tuple[Machine, Machine], clones: tuple[Path, Path], tmp_path: Path
) -> None:
    laptop, _ = pair
    (tmp_path / "remote.git").rename(tmp_path / "away.git")
    git(clones[0], "commit", "-q", "--allow-empty", "--author=Engram <engram@localhost>", "-m", "engram: sync")
    (clones[0] / "private draft").write_text("mine")
    git(clones[0], "add", "private draft")
    git(clones[0], "commit", "-q", "--amend", "--no-edit")
    (tmp_path / "away.git").rename(tmp_path / "remote.git")

    assert "a commit by you" in attempt(laptop).error
    assert "private draft" not in git(tmp_path / "remote.git", "ls-tree", "-r", "--name-only", "main")


def test_a_repository_with_commits_that_were_never_pushed_is_not_joined(
    make_machine: Make, clones: tuple[Path, Path], tmp_path: Path
) -> None:
    commit(clones[0], "private draft")
    before = everything(clones[0])
    laptop = make_machine("laptop")
    with pytest.raises(HubUnreachable, match="a commit by you that origin lacks"):
        laptop.use_folder(clones[0], with_git=True)

    assert everything(clones[0]) == before
    assert git(tmp_path / "remote.git", "for-each-ref") == ""
    assert list_servers(laptop.store) == []


def test_a_wrong_phrase_and_a_look_change_nothing_in_the_checkout(
    pair: tuple[Machine, Machine], clones: tuple[Path, Path], make_machine: Make, tmp_path: Path
) -> None:
    git(tmp_path, "clone", "-q", "remote.git", "three")
    three = tmp_path / "three"
    pair[0].save("Pushed since.")
    pair[0].sync()
    tablet = make_machine("tablet")
    before = everything(three)
    look_into(three, with_git=True)
    assert everything(three) == before

    for phrase in ("", phrase_of(new_key())):
        with pytest.raises(WrongKey):
            tablet.use_folder(three, phrase, with_git=True)
    head, refs, changes, paths = everything(three)
    assert (head, changes, paths) == (before[0], before[2], before[3])
    assert git(three, "rev-parse", "HEAD") != git(three, "rev-parse", "origin/main")
    assert refs != before[1]


def test_a_space_that_only_the_remote_has_is_seen_before_another_one_is_begun(
    pair: tuple[Machine, Machine], make_machine: Make, tmp_path: Path
) -> None:
    git(tmp_path, "init", "-q", "-b", "main", "three")
    git(tmp_path / "three", "remote", "add", "origin", str(tmp_path / "remote.git"))
    tablet = make_machine("tablet")
    with pytest.raises(WrongKey, match="another machine already uses"):
        tablet.use_folder(tmp_path / "three", with_git=True)

    assert everything(tmp_path / "three")[3] == set()
    tablet.use_folder(tmp_path / "three", pair[0].phrase, with_git=True)
    tablet.sync()
    assert tablet.said() == pair[0].said()


def test_a_rebase_of_engrams_that_was_killed_is_undone(
    pair: tuple[Machine, Machine], clones: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    laptop, desktop = pair
    monkeypatch.setenv("GIT_SEQUENCE_EDITOR", "sed -i 1ibreak")
    git(clones[0], "rebase", "-q", "-i", "--root")
    (clones[0] / ".git" / "engram-rebase").write_bytes(b"")
    assert (clones[0] / ".git" / "rebase-merge").is_dir()
    laptop.save("Said after the kill.")
    laptop.sync()
    desktop.sync()

    assert git(clones[0], "symbolic-ref", "--short", "HEAD") == "main\n"
    assert "Said after the kill." in desktop.texts()


# -- the branch that is used, and whether git is


@pytest.mark.parametrize("is_asked", [True, False], ids=["by hand", "by the worker"])
def test_another_branch_fails_the_round_and_gets_no_commit(
    pair: tuple[Machine, Machine], clones: tuple[Path, Path], tmp_path: Path, is_asked: bool
) -> None:
    laptop, desktop = pair
    git(clones[0], "checkout", "-q", "-b", "other")
    laptop.save("It waits.")
    (done,) = sync_all(laptop.store, laptop.places, redact, is_forced=is_asked)

    assert "is on branch other, but Engram uses branch main" in done.error
    assert "`git checkout main`" in done.error
    assert git(tmp_path / "remote.git", "for-each-ref", "--format=%(refname)").split() == ["refs/heads/main"]
    assert git(clones[0], "rev-parse", "other") == git(clones[0], "rev-parse", "main")
    git(clones[0], "checkout", "-q", "main")
    laptop.sync()
    desktop.sync()
    assert "It waits." in desktop.texts()


def test_a_folder_named_again_takes_the_branch_that_is_checked_out(
    pair: tuple[Machine, Machine], clones: tuple[Path, Path], tmp_path: Path
) -> None:
    laptop, _ = pair
    assert not begins_git(laptop.store, clones[0])
    git(clones[0], "checkout", "-q", "-b", "other")
    assert begins_git(laptop.store, clones[0])
    laptop.use_folder(clones[0])
    laptop.save("On the other branch.")
    laptop.sync()

    heads = git(tmp_path / "remote.git", "for-each-ref", "--format=%(refname)").split()
    assert heads == ["refs/heads/main", "refs/heads/other"]
    git(clones[0], "checkout", "-q", "main")
    assert "is on branch main, but Engram uses branch other" in attempt(laptop).error


def test_git_stays_on_until_it_is_turned_off(
    pair: tuple[Machine, Machine], clones: tuple[Path, Path], tmp_path: Path
) -> None:
    laptop, desktop = pair
    laptop.use_folder(clones[0])
    laptop.save("Still pushed.")
    laptop.sync()
    desktop.sync()
    assert "Still pushed." in desktop.texts()

    pushed = git(tmp_path / "remote.git", "rev-parse", "main")
    laptop.use_folder(clones[0], with_git=False)
    laptop.save("Written only.")
    laptop.sync()
    assert git(tmp_path / "remote.git", "rev-parse", "main") == pushed
    assert "spaces/" in git(clones[0], "status", "--porcelain")
    assert begins_git(laptop.store, clones[0])


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
