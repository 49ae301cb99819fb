"""``engram team`` and ``engram share``: the walk of their page, typed by two people; and what they show and refuse."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
from pathlib import Path
from typing import Any

from click.testing import CliRunner, Result

from engram.cli.main import engram
from tests.cli.walks import walk
from tests.hub.machines import Hub


class Desk:
    """Somebody's terminal, in a clone of the repository."""

    def __init__(self, folder: Path, hub: Hub) -> None:
        self.home, self.clone = folder / "home", folder / "clone"
        self.clone.mkdir(parents=True)
        environment = {
            **os.environ,
            "GIT_AUTHOR_DATE": "2026-01-01T00:00:00Z",
            "GIT_COMMITTER_DATE": "2026-01-01T00:00:00Z",
        }
        for command in (
            "init -q",
            "remote add origin https://git.example.org/acme/shop.git",
            "-c user.name=a -c user.email=a@example.org commit -q --allow-empty -m first",
        ):
            subprocess.run(["git", *command.split()], cwd=self.clone, check=True, env=environment, timeout=30)
        self.type(f"engram hub join {hub.url} {hub.invite(folder.name)}")

    def type(self, line: str, *, code: int = 0, **options: Any) -> str:
        """Type a command; returns what it printed."""
        before = Path.cwd()
        os.chdir(self.clone)
        try:
            arguments = ["--home", str(self.home), *shlex.split(line)[1:]]
            done: Result = CliRunner().invoke(engram, arguments, **options)
        finally:
            os.chdir(before)
        assert done.exit_code == code, f"{line}: {done.output}"
        return done.output

    def json(self, line: str, *, code: int = 0) -> Any:
        return json.loads(self.type(f"{line} --json", code=code))


def test_the_walk_of_the_page_leads_from_nothing_to_a_shared_memory(hub: Hub, tmp_path: Path) -> None:
    desks = {name: Desk(tmp_path / name, hub) for name in ("ada", "bob")}
    ada, bob = desks["ada"], desks["bob"]
    code = memory = told = ""
    for place in ("ada", "bob", "ada shares", "bob reads"):
        for line in walk("teams.md", place):
            typed = line.replace("CODE", code).replace("MEMORY", memory)
            told = desks[place.split()[0]].type(typed, input="y\n")
            if found := re.search(r"\b(?:[2-9A-Z]{4}-){2,6}[2-9A-Z]{2,4}\b", told):
                code = found[0]
            if found := re.search(r"ep_[0-9a-f]{12}", told):
                memory = memory or found[0]
            if line.startswith("engram share"):
                assert "open: the hub's operator can read it" in told
                assert "git.example.org/acme/shop" in told
                assert "Prices are in cents, and never floats." in told
    assert "Prices are in cents, and never floats." in told
    assert "teammate ada" in told

    # What teams, members, shares and reports look like; what is asked and refused.
    theirs = bob.json('engram recall "prices"')["hits"][0]
    assert theirs["told_by"] == "teammate ada"
    assert "teammate ada" in bob.type(f"engram expand {theirs['id']}")
    assert "is teammate ada's" in bob.type(f"engram share {theirs['id']} --yes", code=1)
    assert "name the memories" in ada.type("engram share", code=2)
    assert [row["role"] for row in ada.json("engram team members")["members"]] == ["keeper", "writer"]
    assert "shop" in bob.type("engram team list")
    assert "bob" in ada.type("engram team members")
    (shared,) = ada.json("engram share --list")["shares"]
    assert (shared["memory"], shared["waiting"]) == (memory, False)
    assert "requires the role of keeper" in bob.type("engram team invite", code=1)
    assert "keepers of shop" in bob.type(f"engram team report {theirs['id']} --reason wrong")
    ada.type("engram hub sync")
    assert "1 reported" in ada.type("engram status")
    assert "wrong" in ada.type("engram team reports")
    assert "there is no memory 'ep_1'; recall and timeline" in bob.type("engram team report ep_1", code=1)
    unknown = ada.type("engram team reports --settle abc", code=1)
    assert "no memory 'abc' is shared with shop" in unknown
    assert "team reports` lists what members reported" in unknown
    assert ada.json("engram team reports --settle " + shared["share"])["reports"] == []

    ada.type("engram share --rule --after 30m --yes", code=1)
    assert "6 hours" in ada.type("engram share --rule --after 6h --yes")
    waiting = ada.json('engram save "Invoices are numbered without gaps."')["id"]
    ada.type("engram hub sync")
    assert [row["memory"] for row in ada.json("engram share --list")["waiting"]] == [waiting]
    assert "Invoices" in ada.type("engram share --list")
    assert "no rule will share it" in ada.type(f"engram unshare {waiting} --yes")
    assert ada.json("engram share --list")["waiting"] == []
    assert "no longer shared" in ada.type("engram share --rule --stop --yes")
    assert "There was no such rule" in ada.type("engram share --rule --stop --yes")

    assert "1 memory deleted" in bob.type("engram team mute ada")
    assert "muted" in bob.type("engram team members")
    assert "is unmuted" in bob.type("engram team mute ada --off")
    bob.type("engram hub sync")
    assert "is now a reader" in ada.type("engram team role bob reader")
    bob.type("engram hub sync")
    assert "requires the role of writer" in bob.type("engram share --rule --yes", code=1)
    # What can't be done is said without asking, which nobody could answer here.
    assert "is not shared with shop" in ada.type("engram unshare ep_ffffffffffff", code=1)
    for more in ("", " --erase"):
        assert "mallory is not in shop" in ada.type(f"engram team expel mallory{more}", code=1)
    assert "nobody to answer" in ada.type("engram team expel bob", code=1)
    assert "withdrawn" in ada.type(f"engram unshare {memory} --yes")
    ada.type("engram hub sync")
    bob.type("engram hub sync")
    assert bob.json('engram recall "prices"', code=1)["hits"] == []
    assert "0 memories erased" in ada.type("engram team expel bob --erase --yes")
    bob.type("engram hub sync")
    assert "You aren't in any team" in bob.type("engram team list")


def test_a_sealed_team_shows_its_phrase_and_a_member_leaves(hub: Hub, tmp_path: Path) -> None:
    eve, joe = Desk(tmp_path / "eve", hub), Desk(tmp_path / "joe", hub)
    made = eve.json("engram team make bank --sealed")
    assert len(made["phrase"].split()) == 17
    code = eve.json("engram team invite --role reader")["code"]
    assert joe.json(f"engram team join {code}") == {"space": "bank", "role": "reader"}
    assert joe.json("engram team leave --erase --yes") == {"left": "bank", "dissolved": False, "memories": 0}
    assert "wrong, used up or too old" in joe.type(f"engram team join {code}", code=1)
    eve.type('engram save "The vault closes at six."')
    memory = eve.json('engram save "The safe has two locks."')["id"]
    eve.type(f"engram share {memory} --yes")
    eve.type("engram hub sync")

    # Whoever is left dissolves the team by leaving, which is said before; an open invitation ends with it.
    unused = eve.json("engram team invite --role reader")["code"]
    asked = eve.type("engram team leave", code=1)
    assert "You are its last member: the team is dissolved" in asked
    assert "Left bank, which is dissolved; 0 memories" in eve.type("engram team leave", input="y\n")
    assert "You aren't in any team" in eve.type("engram team list")
    assert "The safe has two locks." in eve.type('engram recall "the safe"')
    assert "wrong, used up or too old" in joe.type(f"engram team join {unused}", code=1)
    eve.type("engram hub sync")


def test_an_only_keeper_is_told_beforehand_that_another_must_become_one(hub: Hub, tmp_path: Path) -> None:
    gus, ida = Desk(tmp_path / "gus", hub), Desk(tmp_path / "ida", hub)
    gus.type("engram team make mill")
    ida.type(f"engram team join {gus.json('engram team invite')['code']}")
    refusal = gus.type("engram team leave --yes", code=1)
    assert "the only keeper of mill: first make another member (ida) one" in refusal
    assert "team role NAME keeper --space mill`" in refusal
    gus.type("engram team role ida keeper")
    assert gus.json("engram team leave --yes") == {"left": "mill", "dissolved": False, "memories": 0}
    ida.type("engram hub sync")
    assert ida.json("engram team leave --yes") == {"left": "mill", "dissolved": True, "memories": 0}


def test_of_several_teams_the_one_is_meant_that_has_it_or_lets_one(hub: Hub, tmp_path: Path) -> None:
    cora, dan = Desk(tmp_path / "cora", hub), Desk(tmp_path / "dan", hub)
    cora.type("engram team make quay")
    cora.type("engram team make dock")
    assert "team invite --space 'long pier'` prints" in dan.type("engram team make 'long pier'")
    invited = re.search(r"\b(?:[2-9A-Z]{4}-){2,6}[2-9A-Z]{2,4}\b", dan.type("engram team invite"))
    assert invited is not None
    cora.type(f"engram team join {invited[0]}")
    memory = cora.json('engram save "The winch needs oil."')["id"]
    cora.type(f"engram share {memory} --space dock --yes")
    cora.type("engram hub sync")

    assert "several teams (quay, dock): choose one with --space" in cora.type("engram team invite", code=1)
    assert "pier" in cora.type("engram team members", code=1)
    assert "withdrawn from dock" in cora.type(f"engram unshare {memory} --yes")
