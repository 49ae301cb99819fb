"""``engram hub``: the walk of its page, typed; and what it says where no hub was joined or one is down."""

from __future__ import annotations

import json
import re
import socket
from pathlib import Path

import pytest

from tests.cli.walks import type_command, walk
from tests.hub.machines import Hub


def test_the_walk_of_the_page_leads_from_nothing_to_two_machines(
    hub: Hub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ENGRAM_HUB_DATABASE", hub.database.dsn)
    code, told = "", ""
    for place in ("server", "laptop", "desktop"):
        for line in walk("hub.md", place):
            typed = line.replace("https://hub.example.org", hub.url).replace("CODE", code)
            done = type_command(tmp_path / place, typed)
            assert done.exit_code == 0, f"{typed}: {done.output}"
            told = done.output
            if found := re.search(r"\b(?:[2-9A-Z]{4}-){2,6}[2-9A-Z]{2,4}\b", told):
                code = found[0]
            if "hub join" in line and place == "laptop":
                assert re.search(r"(?:[a-z]{5} ){16}[a-z]{5}", told)

    assert "The staging database is called heron." in told


@pytest.mark.parametrize("line", ["engram hub invite ada", "engram hub members"])
def test_an_operator_without_a_database_is_told_how_to_name_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, line: str
) -> None:
    monkeypatch.delenv("ENGRAM_HUB_DATABASE", raising=False)
    monkeypatch.setenv("PGHOST", str(tmp_path))
    wrong = type_command(tmp_path, line)
    assert wrong.exit_code == 1
    assert "give its address with --database or ENGRAM_HUB_DATABASE, such as" in wrong.output
    monkeypatch.setenv("ENGRAM_HUB_DATABASE", f"host={tmp_path} dbname=nosuch")
    assert "correct its address with --database or ENGRAM_HUB_DATABASE\n" in type_command(tmp_path, line).output


def test_a_hub_is_shown_left_and_its_keys_are_gone(hub: Hub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = tmp_path / "laptop"
    code = hub.invite("grace")
    joined = json.loads(type_command(home, f"engram hub join {hub.url} {code} --json").output)
    assert joined["spaces"] == ["private"]
    type_command(home, 'engram save --global "Use tabs."')
    before = json.loads(type_command(home, "engram hub status --json").output)["hubs"][0]
    assert json.loads(type_command(home, "engram hub sync --json").output)["rounds"][0]["pushed"] == 1
    after = json.loads(type_command(home, "engram status --json").output)["hubs"][0]
    assert (before["waiting"], after["waiting"], after["spaces"][0]["memories"]) == (1, 0, 1)
    assert "private" in type_command(home, "engram hub").output
    assert "in step" in type_command(home, "engram status").output
    assert "private" in type_command(home, "engram hub spaces").output
    assert type_command(home, "engram hub key --show").output.strip() == joined["phrase"]
    assert "(this machine)" in type_command(home, "engram hub devices").output

    new = json.loads(type_command(home, "engram hub key --rotate --yes --json").output)["phrase"]
    assert new != joined["phrase"]
    assert type_command(home, "engram hub sync").exit_code == 0
    other = tmp_path / "desktop"
    wrong = type_command(
        other, f"engram hub join {hub.url} {hub.invite('grace')} --phrase", input=joined["phrase"] + "\n"
    )
    assert wrong.exit_code == 1
    right = type_command(other, f"engram hub join {hub.url} {hub.invite('grace')} --phrase", input=new + "\n")
    assert right.exit_code == 0, right.output
    assert type_command(other, "engram hub sync").exit_code == 0
    assert "Use tabs." in type_command(other, 'engram recall "tabs"').output

    keys = (home / "hub-keys.json").read_text()
    assert (home / "hub-keys.json").stat().st_mode & 0o777 == 0o600
    assert type_command(home, "engram hub leave --yes").exit_code == 0
    assert hub.url in keys
    assert not (home / "hub-keys.json").exists()
    assert "No hub has been joined" in type_command(home, "engram hub status").output
    assert "Use tabs." in type_command(home, 'engram recall "tabs"').output
    monkeypatch.setenv("ENGRAM_HUB_DATABASE", hub.database.dsn)
    assert "grace" in type_command(home, "engram hub members").output
    for words, answer in (
        ("members --remove mallory", "no member called 'mallory'"),
        ("members --remove mallory --erase", "no member called 'mallory'"),
        ("members --remove grace", "nobody to answer"),
        ("teams --team 4711 --keeper grace", "there is no team 4711"),
        ("key nosuch", "there is no space 'nosuch'"),
        ("key nosuch --rotate", "there is no space 'nosuch'"),
    ):
        done = type_command(home, f"engram hub {words}")
        assert (done.exit_code, answer in done.output) == (1, True), done.output
    assert "can no longer connect" in type_command(home, "engram hub members --remove grace --erase --yes").output


def test_a_new_key_keeps_what_a_machine_had_sent_before_it_was_shut_out(hub: Hub, tmp_path: Path) -> None:
    laptop, stolen, third = (tmp_path / name for name in ("laptop", "stolen", "third"))
    type_command(laptop, f"engram hub join {hub.url} {hub.invite('hopper')}")
    type_command(laptop, "engram hub sync")
    code = json.loads(type_command(laptop, "engram hub devices --add --json").output)["code"]
    type_command(stolen, f"engram hub join {hub.url} {code} --name stolen")
    type_command(stolen, 'engram save --global "Moths cause bugs."')
    type_command(stolen, "engram hub sync")
    devices = json.loads(type_command(laptop, "engram hub devices --json").output)["devices"]
    (number,) = (device["device"] for device in devices if device["name"] == "stolen")
    assert type_command(laptop, f"engram hub devices --remove {number} --yes").exit_code == 0
    phrase = json.loads(type_command(laptop, "engram hub key --rotate --yes --json").output)["phrase"]
    assert type_command(laptop, "engram hub sync").exit_code == 0
    joining = f"engram hub join {hub.url} {hub.invite('hopper')} --phrase"
    assert type_command(third, joining, input=phrase + "\n").exit_code == 0
    assert type_command(third, "engram hub sync").exit_code == 0

    assert "Moths cause bugs." in type_command(third, 'engram recall "moths"').output


def test_a_join_that_failed_leaves_no_file_with_keys(hub: Hub, tmp_path: Path) -> None:
    home = tmp_path / "laptop"

    for url, reason in ((hub.url, "code"), ("http://127.0.0.1:9", "nothing is listening there")):
        failed = type_command(home, f"engram hub join {url} K7QM-2XHD-RT")
        assert (failed.exit_code, reason in failed.output) == (1, True), failed.output
        assert not (home / "hub-keys.json").exists()
    assert type_command(home, f"engram hub join {hub.url} {hub.invite('hedy')}").exit_code == 0
    assert (home / "hub-keys.json").exists()


def test_a_hub_that_is_down_is_named_and_nothing_else_changes(
    hub: Hub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = tmp_path / "laptop"
    type_command(home, f"engram hub join {hub.url} {hub.invite('joan')}")
    type_command(home, "engram hub sync")
    # Another port, where nobody listens.
    from engram.models.hub.spaces import change_server, list_servers
    from engram.models.open_memory import open_store

    keys = (home / "hub-keys.json").read_text()
    (home / "hub-keys.json").write_text(keys.replace(hub.url, "http://127.0.0.1:9"))
    with open_store(home / "memory.db") as store, store.transaction() as tx:
        change_server(tx, list_servers(store)[0].id, url="http://127.0.0.1:9")

    assert type_command(home, 'engram save --global "Use tabs."').exit_code == 0
    failed = type_command(home, "engram hub sync")
    assert failed.exit_code == 1
    assert "can't be reached: nothing is listening there" in failed.output
    assert "Errno" not in failed.output
    assert "failing: http://127.0.0.1:9 can't be reached" in type_command(home, "engram status").output
    assert json.loads(type_command(home, "engram hub status --json").output)["hubs"][0]["waiting"] == 1
    asked: list[object] = []
    monkeypatch.setattr(socket.socket, "connect", lambda _, address: asked.append(address))
    # Whatever the hub does, who saves and recalls never asks it: the worker alone does.
    for line in ('engram save --global "Use spaces."', 'engram recall "spaces"', "engram status", "engram hub status"):
        done = type_command(home, line)
        assert done.exit_code == 0, done.output
        if "recall" in line:
            assert "Use spaces." in done.output
    assert not [address for address in asked if isinstance(address, tuple)]


def test_a_link_by_hand_needs_a_project_that_only_another_machine_knows(tmp_path: Path) -> None:
    from engram.models.hub.outgoing_statements import place_of
    from engram.models.open_memory import open_store
    from engram.models.projects.projects import ensure_project

    home = tmp_path / "laptop"
    type_command(home, "engram status")
    with open_store(home / "memory.db") as store, store.transaction() as tx:
        ensure_project(tx, "/home/ada/notes", "notes", "/home/ada/notes")
        ensure_project(tx, "/home/ada/boat", "boat", "/home/ada/boat")
        place_of(tx, ["id:0123456789abcdef", "", "jottings"])

    refused = type_command(home, "engram hub link notes boat --yes")
    assert (refused.exit_code, "folder on this machine" in refused.output) == (1, True)
    for words in ("hub link jottings jottings", "projects merge notes notes", "hub link nosuch jottings"):
        assert "nobody to answer" not in type_command(home, f"engram {words}").output
        assert type_command(home, f"engram {words}").exit_code == 1
    assert "is notes on this machine" in type_command(home, "engram hub link notes jottings --yes").output
    assert type_command(home, "engram hub leave").exit_code == 1


@pytest.mark.parametrize(
    ("line", "reason"), [("ftp://x.example K7QM-2XHD-RT", "https"), ("https://x.example K7", "code")]
)
def test_what_fails_anyway_is_refused_before_the_phrase_is_asked_for(tmp_path: Path, line: str, reason: str) -> None:
    result = type_command(tmp_path / "home", f"engram hub join {line} --phrase", input="never read\n")

    assert result.exit_code == 1
    assert "Recovery phrase" not in result.output
    assert reason in result.output
