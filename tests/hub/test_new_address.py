"""A hub that has a new address goes on there, and what answers in the place of a hub gets nothing and is named."""

from __future__ import annotations

import contextlib
import http.server
import threading
from collections.abc import Callable, Iterator

import pytest

from engram.errors import BadRequest, HubError
from engram.hub.client.connection import Connection
from engram.hub.client.membership import Keyring, leave_hub, list_unknown, move_hub
from engram.models.hub.spaces import list_servers
from engram.reports.hub_report import report_hubs
from tests.hub.machines import Hub, Machine

Make = Callable[..., Machine]
HOTEL = b"<html><h1>Welcome to the hotel</h1></html>"


@pytest.fixture
def laptop(hub: Hub, make_machine: Make) -> Machine:
    laptop = make_machine("laptop")
    laptop.join(hub, hub.invite("Ada"))
    laptop.sync()
    return laptop


def new_address(hub: Hub) -> str:
    return hub.url.replace("127.0.0.1", "localhost")


def test_a_machine_follows_its_hub_to_a_new_address_as_the_same_device(hub: Hub, laptop: Machine) -> None:
    waiting, (server,) = laptop.save("Said while the hub moved."), list_servers(laptop.store)

    moved = move_hub(laptop.store, laptop.places, server, new_address(hub))
    laptop.sync()

    assert [known.url for known in list_servers(laptop.store)] == [moved.url] == [new_address(hub)]
    assert Keyring(laptop.places.hub_keys).joined() == [new_address(hub)]
    assert len(hub.rows("SELECT 1 FROM hub.device")) == 1
    rows = hub.rows("SELECT 1 FROM hub.statement WHERE memory_id = %s", bytes.fromhex(waiting.stable_id))
    assert len(rows) == 1


def test_a_hub_whose_move_was_interrupted_is_not_called_unknown(
    hub: Hub, laptop: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    (server,) = list_servers(laptop.store)

    def end(keyring: Keyring, url: str) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Keyring, "drop", end)
    with pytest.raises(KeyboardInterrupt):
        move_hub(laptop.store, laptop.places, server, new_address(hub))

    assert [known.url for known in list_servers(laptop.store)] == [new_address(hub)]
    assert list_unknown(laptop.store, laptop.places) == {}


def test_a_new_address_is_taken_of_the_same_hub_alone(hub: Hub, laptop: Machine, make_machine: Make) -> None:
    (server,) = list_servers(laptop.store)
    stranger = make_machine("stranger")
    stranger.join(hub, hub.invite("Eve"))
    (other,) = list_servers(stranger.store)
    before = Keyring(laptop.places.hub_keys)
    Keyring(laptop.places.hub_keys).become_device(server.url, Keyring(stranger.places.hub_keys).token(other.url))

    with pytest.raises(BadRequest, match="is not the hub at"):
        move_hub(laptop.store, laptop.places, server, new_address(hub))
    with pytest.raises(BadRequest, match="without encryption"):
        move_hub(laptop.store, laptop.places, server, "http://hub.example.org")
    with pytest.raises(BadRequest, match="already been joined"):
        move_hub(laptop.store, laptop.places, server, server.url)

    assert list_servers(laptop.store) == [server]
    assert Keyring(laptop.places.hub_keys).joined() == before.joined() == [server.url]


def test_a_hub_that_is_joined_again_at_a_new_address_is_recognised(hub: Hub, laptop: Machine) -> None:
    (server,) = list_servers(laptop.store)

    with pytest.raises(BadRequest, match=f"joined at {server.url}: `engram hub move {new_address(hub)}`"):
        laptop.join(hub, laptop.code(), url=new_address(hub))

    assert list_servers(laptop.store) == [server]
    assert len(hub.rows("SELECT 1 FROM hub.device WHERE gone_at IS NULL")) == 1


def test_a_hub_without_a_space_of_this_machine_is_not_in_step(
    hub: Hub, laptop: Machine, make_machine: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("engram.hub.client.membership._check_address", lambda *_: None)
    (first,) = list_servers(laptop.store)
    laptop.join(hub, laptop.code(), url=new_address(hub))
    leave_hub(laptop.store, laptop.places, first)

    (report,) = report_hubs(laptop.store)

    assert "none of its spaces is used" in report.line()


@contextlib.contextmanager
def answering(status: int, **headers: str) -> Iterator[tuple[str, list[str]]]:
    """A server that answers every request like this; yields its address, and what it was asked."""
    asked: list[str] = []

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            asked.append(self.path)
            self.rfile.read(int(self.headers["Content-Length"]))
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(HOTEL)))
            self.end_headers()
            self.wfile.write(HOTEL)

        do_GET = do_POST

        def log_message(self, *_: object) -> None:
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield f"http://127.0.0.1:{server.server_port}", asked
        finally:
            server.shutdown()


@pytest.mark.parametrize("status", [301, 302, 307, 308])
def test_a_redirect_is_named_and_not_followed(status: int) -> None:
    with answering(200) as (elsewhere, asked), answering(status, Location=f"{elsewhere}/v1/hello") as (url, _):
        with Connection(url, "token") as connection, pytest.raises(HubError, match=f"another address, {elsewhere}/"):
            connection.ask("hello", {})

        assert asked == []


def test_a_login_page_in_the_place_of_a_hub_is_named() -> None:
    is_named = pytest.raises(HubError, match="is not a hub; does this network ask for a login")
    with answering(200) as (url, _), Connection(url, "token") as connection, is_named:
        connection.ask("hello", {})
