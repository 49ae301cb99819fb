"""``engram sync``: the walk of its page, typed; and what it says where something is wrong."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from engram.cli import sync_commands
from engram.hub.client import push_and_pull
from engram.hub.protocol.requests import phrase_of
from engram.models.open_memory import open_store
from engram.models.work.work import release_lease, take_lease
from engram.paths import Home
from engram.system.process_lock import ProcessLock
from tests.cli.walks import type_command, walk

PHRASE = re.compile(r"(?:[a-z]{5} ){16}[a-z]{5}")


def test_the_walk_of_the_page_leads_to_two_machines(tmp_path: Path) -> None:
    synced = tmp_path / "Sync" / "engram"
    synced.parent.mkdir()
    type_command(tmp_path / "laptop", 'engram save --global "The staging database is called heron."')
    phrase, told = "", ""
    for place in ("laptop", "desktop"):
        for line in walk("sync.md", place):
            typed = line.replace("~/Sync/engram", str(synced))
            if typed.startswith("mkdir"):
                synced.mkdir()
                continue
            done = type_command(tmp_path / place, typed, input=(phrase or "y") + "\n")
            assert done.exit_code == 0, f"{typed}: {done.output}"
            told = done.output
            if found := re.search(r"(?:[a-z]{5} ){16}[a-z]{5}", told):
                phrase = found[0]

    assert "The staging database is called heron." in told
    assert type_command(tmp_path / "laptop", "engram hub key --show").output.strip() == phrase


def test_a_file_is_not_a_folder_and_an_unknown_number_not_a_machine(tmp_path: Path) -> None:
    home, file = tmp_path / "laptop", tmp_path / "file"
    file.write_text("")
    synced = tmp_path / "synced"
    synced.mkdir()
    type_command(home, 'engram save --global "Use tabs."')
    assert f"{file} is not a folder" in type_command(home, f"engram sync {file} --yes").output
    missing = tmp_path / "my notes"
    plain = type_command(home, f"engram sync '{missing}' --yes").output
    assert f"{missing} does not exist: create the folder first, where your sync program sees it" in plain
    cloned = type_command(home, f"engram sync '{missing}' --git --yes").output
    assert f"{missing} does not exist: clone the repository first: git clone URL '{missing}'" in cloned
    assert "the folder of your git checkout" in type_command(home, f"engram sync {file} --git --yes").output
    assert "no code has I or O" in type_command(home, "engram hub join http://127.0.0.1:1 IOOO-IOOO-22").output
    type_command(home, f"engram sync {synced} --yes")
    assert "none of your machines has the id 99" in type_command(home, "engram hub devices --remove 99 --yes").output
    both = type_command(home, "engram hub devices --add --remove 99 --yes")
    assert both.exit_code == 2
    assert both.output.endswith("Error: --add and --remove can't be combined\n")


def test_a_folder_is_shown_and_left_and_its_keys_are_gone(tmp_path: Path) -> None:
    home, synced = tmp_path / "laptop", tmp_path / "synced"
    synced.mkdir()
    type_command(home, 'engram save --global "Use tabs."')
    joined = json.loads(type_command(home, f"engram sync {synced} --name Ada --yes --json").output)
    assert joined["folder"] == str(synced)
    assert joined["git"] is False
    assert joined["rounds"] == [{"pulled": 0, "pushed": 1, "refused": 0, "error": ""}]
    assert f"{synced} as Ada: last sync" in type_command(home, "engram hub status").output
    assert f"{synced} (in step)" in type_command(home, "engram status").output
    assert "Ada (this machine)" in type_command(home, "engram hub devices").output
    again = type_command(home, f"engram sync {synced}")
    assert "No change received, none sent." in again.output
    assert joined["phrase"] not in again.output

    for words in ("uninstall --purge --dry-run", "uninstall --purge"):
        assert f"Will be kept: the sealed copy in {synced}".replace("Will", "Would" if "dry" in words else "Will") in (
            type_command(home, f"engram {words}", input="n\n").output
        )
    assert type_command(home, "engram hub leave --yes").exit_code == 0
    assert not (home / "hub-keys.json").exists()
    assert list(synced.rglob("*.seg"))
    assert "Use tabs." in type_command(home, 'engram recall "tabs"').output


def test_a_machine_is_removed_and_this_one_says_what_only_that_one_had_said(tmp_path: Path) -> None:
    laptop, desktop, synced = tmp_path / "laptop", tmp_path / "desktop", tmp_path / "synced"
    synced.mkdir()
    type_command(laptop, 'engram save --global "Use tabs."')
    phrase = json.loads(type_command(laptop, f"engram sync {synced} --name laptop --yes --json").output)["phrase"]
    type_command(desktop, f"engram sync {synced} --name desktop --phrase", input=phrase + "\n")
    listed = json.loads(type_command(desktop, "engram hub devices --json").output)["devices"]
    (device,) = [item["device"] for item in listed if item["name"] == "laptop"]
    removed = type_command(desktop, f"engram hub devices --remove {device} --yes")

    assert "this machine now sends" in removed.output
    (left,) = (path for path in synced.glob("spaces/*/*") if path.is_dir())
    assert list(left.glob("*.seg"))
    tablet = tmp_path / "tablet"
    type_command(tablet, f"engram sync {synced} --phrase", input=phrase + "\n")
    assert "Use tabs." in type_command(tablet, 'engram recall "tabs"').output


def test_a_machine_that_has_sent_nothing_has_been_seen_by_itself_only(tmp_path: Path) -> None:
    laptop, desktop, synced = tmp_path / "laptop", tmp_path / "desktop", tmp_path / "synced"
    synced.mkdir()
    type_command(laptop, 'engram save --global "Use tabs."')
    phrase = json.loads(type_command(laptop, f"engram sync {synced} --name laptop --yes --json").output)["phrase"]
    type_command(desktop, f"engram sync {synced} --name desktop --phrase", input=phrase + "\n")

    on_desktop = json.loads(type_command(desktop, "engram hub devices --json").output)["devices"]
    on_laptop = type_command(laptop, "engram hub devices").output

    assert [(item["name"], item["self"], item["seen_ms"] > 0) for item in on_desktop] == [
        ("laptop", False, True),
        ("desktop", True, True),
    ]
    assert "desktop" not in on_laptop
    assert on_laptop.endswith("A machine that has sent nothing yet is not listed.\n")


def test_a_mistyped_phrase_is_asked_for_again_at_a_terminal(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    phrase = phrase_of(bytes(32))
    typed = iter(["word by word", phrase])
    monkeypatch.setattr("sys.stdin.isatty", lambda: True)
    monkeypatch.setattr("click.prompt", lambda question, **options: next(typed))

    assert sync_commands.ask_phrase("Recovery phrase") == phrase
    assert capsys.readouterr().err.startswith("the recovery phrase is mistyped: ")


def test_a_phrase_from_a_pipe_is_read_without_a_word_of_python(tmp_path: Path) -> None:
    synced = tmp_path / "synced"
    synced.mkdir()
    first = type_command(tmp_path / "laptop", f"engram sync {synced} --name laptop --yes --json")
    phrase = json.loads(first.output)["phrase"]

    done = subprocess.run(
        [sys.executable, "-m", "engram.cli.main", "--home", tmp_path / "desktop", "sync", synced, "--phrase", "--json"],
        input=f"{phrase}\n",
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )

    assert json.loads(done.stdout)
    assert done.stderr == ""


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("engram sync", "sync DIR"),
        ("engram sync MISSING", "create the folder first"),
        ("engram sync SYNCED --git --yes", "not a git checkout"),
        ("engram --vault acme sync SYNCED", "acme"),
        ("engram sync SYNCED --json", "add --yes"),
    ],
)
def test_what_can_be_no_folder_is_refused_with_the_way_to_go(tmp_path: Path, line: str, reason: str) -> None:
    (tmp_path / "synced").mkdir()
    typed = line.replace("MISSING", str(tmp_path / "missing")).replace("SYNCED", str(tmp_path / "synced"))
    done = type_command(tmp_path / "home", typed)
    assert done.exit_code != 0
    assert reason in done.output
    assert list((tmp_path / "synced").iterdir()) == []


@pytest.mark.parametrize("answer", ["", "\n", "n\n"], ids=["nobody answers", "Enter", "no"])
def test_nothing_leaves_the_machine_before_somebody_agrees(tmp_path: Path, answer: str) -> None:
    home, synced = tmp_path / "laptop", tmp_path / "synced"
    synced.mkdir()
    type_command(home, 'engram save --global "Use tabs."')

    refused = type_command(home, f"engram sync {synced}", input=answer)

    assert refused.exit_code != 0
    assert "(1 memory, and later ones)" in refused.output
    assert list(synced.iterdir()) == []
    assert "add --yes" in refused.output or answer
    assert "No folder or hub has been joined".lower() in type_command(home, "engram sync").output.lower()


def test_git_says_what_stays_in_its_history_before_anything_is_written(tmp_path: Path) -> None:
    subprocess.run(["git", "init", "-q", "--bare", "-b", "main", tmp_path / "remote.git"], check=True)
    subprocess.run(["git", "clone", "-q", tmp_path / "remote.git", tmp_path / "clone"], check=True, capture_output=True)
    refused = type_command(tmp_path / "home", f"engram sync {tmp_path / 'clone'} --git", input="n\n")
    assert "remains, encrypted, in the history" in refused.output
    assert {path.name for path in (tmp_path / "clone").iterdir()} == {".git"}
    agreed = type_command(tmp_path / "home", f"engram sync {tmp_path / 'clone'} --git", input="y\n")
    assert agreed.exit_code == 0, agreed.output
    assert (tmp_path / "clone" / "spaces").is_dir()


def git(folder: Path, *arguments: str) -> str:
    """Run git as a person does."""
    identity = ["-c", "user.name=Ada", "-c", "user.email=ada@example.org"]
    done = subprocess.run(["git", *identity, *arguments], cwd=folder, capture_output=True, text=True, check=True)
    return done.stdout


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """A checkout with a commit, whose remote has one more."""
    git(tmp_path, "init", "-q", "--bare", "-b", "main", "remote.git")
    for name in ("other", "clone"):
        git(tmp_path, "clone", "-q", "remote.git", name)
        if name == "other":
            git(tmp_path / name, "commit", "-q", "--allow-empty", "-m", "begin")
            git(tmp_path / name, "push", "-q")
    git(tmp_path / "other", "commit", "-q", "--allow-empty", "-m", "go on")
    git(tmp_path / "other", "push", "-q")
    return tmp_path / "clone"


def refs(folder: Path) -> str:
    return git(folder, "for-each-ref") + git(folder, "status", "--porcelain")


# -- the phrase, and what is said of a round


@pytest.mark.parametrize("fault", ["stopped", "held"])
@pytest.mark.parametrize("as_json", [False, True])
def test_the_phrase_is_shown_whatever_becomes_of_the_first_round(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fault: str, as_json: bool
) -> None:
    home, synced = tmp_path / "laptop", tmp_path / "synced"
    synced.mkdir()
    type_command(home, 'engram save --global "Use tabs."')

    def stopped(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    with open_store(Home(home).memory_db) as store, monkeypatch.context() as patch:
        if fault == "stopped":
            patch.setattr(sync_commands, "sync_all", stopped)
        else:
            assert take_lease(store, "sync", f"{os.getpid()}-1", 60)
        first = type_command(home, f"engram sync {synced} --yes{' --json' if as_json else ''}")
        assert first.exit_code != 0
        if fault == "held":
            release_lease(store, "sync", f"{os.getpid()}-1")
    shown = json.loads(first.stdout)["phrase"] if as_json else PHRASE.search(first.stdout)[0]  # type: ignore[index]

    again = type_command(home, f"engram sync {synced}")
    assert "1 sent" in again.output or "1 change" in again.output
    assert f"`engram --home {home} hub key --show` prints the recovery phrase" in again.output
    assert type_command(home, "engram hub key --show").output.strip() == shown


def test_a_long_round_says_how_far_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sync_commands, "LINE_SECONDS", 0.0)
    monkeypatch.setattr(push_and_pull, "PAGE_ROWS", 2)
    monkeypatch.setattr(push_and_pull, "MIN_PAGE_ROWS", 2)
    laptop, desktop, synced = tmp_path / "laptop", tmp_path / "desktop", tmp_path / "synced"
    synced.mkdir()
    for number in range(5):
        type_command(laptop, f'engram save --global "Rule {number}."')
    first = type_command(laptop, f"engram sync {synced} --yes")
    phrase = PHRASE.search(first.stdout)[0]  # type: ignore[index]
    second = type_command(desktop, f"engram sync {synced} --phrase", input=phrase + "\n")

    assert first.output.index(phrase) < first.output.index("0 of 5 sent …") < first.output.index("4 of 5 sent …")
    assert "4 changes received …" in second.stderr
    assert type_command(laptop, f"engram sync {synced} --json").stderr == ""


@pytest.mark.parametrize("is_worker", [True, False])
def test_a_round_that_is_under_way_is_named_by_what_makes_it(tmp_path: Path, is_worker: bool) -> None:
    home, synced = tmp_path / "laptop", tmp_path / "synced"
    synced.mkdir()
    type_command(home, f"engram sync {synced} --yes")
    places = Home(home)
    lock = ProcessLock(places.worker_lock if is_worker else places.watcher_lock)
    with open_store(places.memory_db) as store:
        assert take_lease(store, "sync", f"{os.getpid()}-1", 60)
        told = type_command(home, "engram sync").output
        lock.release()

    who = "the worker" if is_worker else f"another command (process {os.getpid()})"
    assert f"{who} is syncing right now: run `engram --home {home} sync` again when it has finished" in told


def test_a_failed_round_says_why_once_and_logs_the_rest(tmp_path: Path) -> None:
    home, synced = tmp_path / "laptop", tmp_path / "synced"
    synced.mkdir()
    type_command(home, f"engram sync {synced} --yes")
    synced.rename(tmp_path / "away")
    command = [sys.executable, "-m", "engram.cli.main", "--home", home, "sync"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)

    assert done.returncode == 1
    assert done.stdout == ""
    (line,) = done.stderr.splitlines()
    assert line.startswith(f"Error: {synced} is missing")
    assert "action=sync" in (home / "logs" / "cli.log").read_text()


# -- git: what is asked, and when


@pytest.mark.parametrize("answer", ["", "n\n"], ids=["nobody answers", "no"])
def test_a_checkout_is_left_as_it_is_before_somebody_agrees(tmp_path: Path, clone: Path, answer: str) -> None:
    before = refs(clone)
    refused = type_command(tmp_path / "laptop", f"engram sync {clone} --git", input=answer)
    assert refused.exit_code != 0
    assert f"{clone}, branch main" in refused.output
    assert refs(clone) == before
    assert not (clone / ".git" / "FETCH_HEAD").exists()

    agreed = type_command(tmp_path / "laptop", f"engram sync {clone} --git", input="y\n")
    assert agreed.exit_code == 0, agreed.output


def test_git_is_kept_when_the_folder_is_named_again_and_ended_by_a_word(tmp_path: Path, clone: Path) -> None:
    home = tmp_path / "laptop"
    type_command(home, f"engram sync {clone} --git --yes")
    for line, is_pushed in ((f"engram sync {clone}", True), (f"engram sync {clone} --no-git", False)):
        type_command(home, f'engram save --global "Said before {line}."')
        done = type_command(home, line)
        assert done.exit_code == 0, done.output
        assert ("with git" in done.output) is is_pushed
        assert ("(git)" in type_command(home, "engram hub status").output) is is_pushed
        assert ("spaces" not in git(clone, "status", "--porcelain")) is is_pushed
        assert (git(clone, "rev-parse", "main") == git(tmp_path / "remote.git", "rev-parse", "main")) is True

    refused = type_command(home, f"engram sync {clone} --git", input="n\n")
    assert "remains, encrypted, in the history" in refused.output
    assert "spaces" in git(clone, "status", "--porcelain")
    assert type_command(home, f"engram sync {clone} --git --yes").exit_code == 0
    assert git(clone, "status", "--porcelain") == ""


def test_another_branch_is_used_only_when_that_is_agreed(tmp_path: Path, clone: Path) -> None:
    home = tmp_path / "laptop"
    type_command(home, f"engram sync {clone} --git --yes")
    git(clone, "checkout", "-q", "-b", "other")
    failed = type_command(home, "engram sync")
    assert failed.exit_code == 1
    assert "is on branch other, but Engram uses branch main" in failed.output
    asked = type_command(home, f"engram sync {clone}", input="n\n")
    assert "branch other" in asked.output
    assert "other" not in git(tmp_path / "remote.git", "for-each-ref")
    assert type_command(home, f"engram sync {clone}", input="y\n").exit_code == 0
    assert type_command(home, "engram sync").exit_code == 0


def test_the_space_of_a_machine_that_is_to_leave_is_deleted_and_that_is_said(tmp_path: Path) -> None:
    synced = tmp_path / "synced"
    for name in ("laptop", "desktop"):
        (tmp_path / name).mkdir()
        (synced / "spaces").mkdir(parents=True, exist_ok=True)
        type_command(tmp_path / name, f'engram save --global "Said on {name}."')
        (synced / "spaces").rename(tmp_path / f"spaces of {name}")
        type_command(tmp_path / name, f"engram sync {synced} --yes")
        (synced / "spaces").rename(tmp_path / f"spaces by {name}")
    (synced / "spaces").mkdir()
    for name in ("laptop", "desktop"):
        for space in (tmp_path / f"spaces by {name}").iterdir():
            space.rename(synced / "spaces" / space.name)
    told = {name: type_command(tmp_path / name, "engram sync").exit_code for name in ("laptop", "desktop")}
    assert set(told.values()) == {0}
    (leaver,) = [n for n in told if "to leave its own" in type_command(tmp_path / n, "engram hub status").output]

    left = type_command(tmp_path / leaver, "engram hub leave --yes").output
    assert f"Left {synced}. Its files there were deleted" in left
    assert len(list((synced / "spaces").iterdir())) == 1
