"""``engram hub serve`` and the texts about codes: what they say is so."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest
from click.testing import CliRunner

from engram.cli.main import engram
from engram.errors import HubError
from engram.hub.client import team_sharing
from engram.hub.client.membership import require_server
from engram.hub.server.serve import serve
from tests.hub.machines import Hub, Machine
from tests.hub.postgres import Postgres, free_port

REPO = Path(__file__).resolve().parents[2]
#: What pages and commands say → how long that is, in seconds.
SPANS = {"half an hour": 1_800, "30 minutes": 1_800, "a day": 86_400, "a week": 604_800}


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_serve_says_that_it_serves_and_ends_quietly_at_a_signal(postgres: Postgres, number: signal.Signals) -> None:
    port = free_port()
    command = [sys.executable, "-m", "engram.cli.main", "hub", "serve", "--port", str(port)]
    environment = {**os.environ, "ENGRAM_HUB_DATABASE": postgres.make_database()}
    with subprocess.Popen(
        command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd="/"
    ) as process:
        assert process.stderr is not None
        said = process.stderr.readline()
        assert said == f"Serving a hub at http://127.0.0.1:{port}. Ctrl-C stops it.\n", said + process.stderr.read()
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=60) as answer:
            assert answer.read() == b"ok\n"
        process.send_signal(number)
        output, errors = process.communicate(timeout=120)
    assert (process.returncode, errors) == (0, "The hub has stopped.\n")
    assert "Traceback" not in output


def test_an_address_that_is_taken_is_an_error_in_one_line(postgres: Postgres) -> None:
    with contextlib.closing(socket.create_server(("127.0.0.1", 0))) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(HubError, match=f"can't serve at 127.0.0.1:{port}: .*another port with --port"):
            serve(postgres.make_database(), "127.0.0.1", port)
    for host in ("no.such.host.invalid", "host with spaces"):
        with pytest.raises(HubError, match=r"can't serve.*another host with --host"):
            serve(postgres.make_database(), host, port)


def seconds_left(hub: Hub) -> int:
    """How long the newest code can be used, rounded to minutes."""
    (row,) = hub.rows(
        "SELECT extract(epoch FROM expires_at - now()) AS seconds FROM hub.code WHERE used_at IS NULL "
        "ORDER BY expires_at DESC LIMIT 1"
    )
    with hub.database.service() as connection:
        connection.execute("DELETE FROM hub.code")
    return round(float(row.seconds) / 60) * 60


def test_codes_live_as_long_as_pages_and_commands_say(
    hub: Hub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ENGRAM_HUB_DATABASE", hub.database.dsn)

    def say(*words: str) -> str:
        done = CliRunner().invoke(engram, ["--home", str(tmp_path / "home"), *words])
        assert done.exit_code == 0, done.output
        return done.output

    def span_in(text: str) -> int:
        (found,) = {seconds for words, seconds in SPANS.items() if words in text}
        return found

    page = " ".join((REPO / "docs" / "hub.md").read_text(encoding="utf-8").split())
    told = page[page.index("Codes for your own machines") :].split(";")[0]
    machine, team, invitation = told.split(",")

    said = say("hub", "invite", "ada")
    assert seconds_left(hub) == span_in(said) == span_in(invitation)
    code = say("hub", "invite", "ada", "--json").split('"')
    say("hub", "join", hub.url, next(word for word in code if word.count("-") == 2))
    said = say("hub", "devices", "--add")
    assert seconds_left(hub) == span_in(said) == span_in(machine)
    say("team", "make", "shop")
    said = say("team", "invite")
    assert seconds_left(hub) == span_in(said) == span_in(team)
    with Machine.open(tmp_path / "home") as here:
        assert require_server(here.store).url == hub.url
        assert team_sharing.team_spaces(here.store)[0].name == "shop"
