"""``engram sync``: the walk of its page, typed; and what it says where something is wrong."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from engram.cli.main import engram

REPO = Path(__file__).resolve().parents[2]
PAGE = (REPO / "docs" / "sync.md").read_text(encoding="utf-8")


def type_command(home: Path, line: str, **options: Any) -> Result:
    """Type a command on the machine of a home."""
    program, *arguments = shlex.split(line)
    assert program == "engram"
    return CliRunner().invoke(engram, ["--home", str(home), *arguments], **options)


def walk(place: str) -> list[str]:
    """The commands that the page gives for a machine."""
    match = re.search(rf"<!-- walk: {place} -->\n```sh\n(.*?)```", PAGE, re.DOTALL)
    assert match is not None, f"the page has no walk for {place}"
    return match[1].splitlines()


def test_the_walk_of_the_page_leads_to_two_machines(tmp_path: Path) -> None:
    synced = tmp_path / "Sync" / "engram"
    synced.parent.mkdir()
    type_command(tmp_path / "laptop", 'engram save --global "The staging database is called heron."')
    phrase, told = "", ""
    for place in ("laptop", "desktop"):
        for line in walk(place):
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


def test_a_folder_is_shown_and_left_and_its_keys_are_gone(tmp_path: Path) -> None:
    home, synced = tmp_path / "laptop", tmp_path / "synced"
    synced.mkdir()
    type_command(home, 'engram save --global "Use tabs."')
    joined = json.loads(type_command(home, f"engram sync {synced} --name Ada --yes --json").output)
    assert joined["folder"] == str(synced)
    assert joined["git"] is False
    assert joined["rounds"] == [{"pulled": 0, "pushed": 1, "refused": 0, "error": ""}]
    assert f"{synced} as Ada: last round" in type_command(home, "engram hub status").output
    assert f"{synced} (in step)" in type_command(home, "engram status").output
    assert "Ada (this machine)" in type_command(home, "engram hub devices").output
    again = type_command(home, f"engram sync {synced}")
    assert "No change received, none sent." in again.output
    assert joined["phrase"] not in again.output

    assert type_command(home, "engram hub leave --yes").exit_code == 0
    assert (home / "hub-keys.json").read_text() == "{}"
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
    removed = type_command(desktop, f"engram hub devices --remove {device}")

    assert "this machine sends now" in removed.output
    (left,) = (path for path in synced.glob("spaces/*/*") if path.is_dir())
    assert list(left.glob("*.seg"))
    tablet = tmp_path / "tablet"
    type_command(tablet, f"engram sync {synced} --phrase", input=phrase + "\n")
    assert "Use tabs." in type_command(tablet, 'engram recall "tabs"').output


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
    assert done.stderr.splitlines() == ["Recovery phrase of your first machine: "]


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("engram sync", "engram sync DIR"),
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
    assert "No folder or hub was joined".lower() in type_command(home, "engram sync").output.lower()


def test_git_says_what_stays_in_its_history_before_anything_is_written(tmp_path: Path) -> None:
    subprocess.run(["git", "init", "-q", "--bare", "-b", "main", tmp_path / "remote.git"], check=True)
    subprocess.run(["git", "clone", "-q", tmp_path / "remote.git", tmp_path / "clone"], check=True, capture_output=True)
    refused = type_command(tmp_path / "home", f"engram sync {tmp_path / 'clone'} --git", input="n\n")
    assert "stays, encrypted, in the history" in refused.output
    assert {path.name for path in (tmp_path / "clone").iterdir()} == {".git"}
    agreed = type_command(tmp_path / "home", f"engram sync {tmp_path / 'clone'} --git", input="y\n")
    assert agreed.exit_code == 0, agreed.output
    assert (tmp_path / "clone" / "spaces").is_dir()
