"""A hub that is slow, trickles, truncates or answers something else ends a round in time, and holds up nothing else."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest

from engram.errors import HubError, HubRefused, HubUnreachable
from engram.hub.client.connection import Connection, Limits
from engram.hub.client.membership import Keyring
from engram.hub.client.rounds import sync_all
from engram.models.work.work import lease_owners, take_lease
from engram.redaction import redact
from engram.tasks import upkeep_tasks as sync_module
from engram.tasks.upkeep_tasks import run_sync, sync_under_lease, take_sync_lease
from tests.hub.machines import Hub, Machine
from tests.hub.proxy import FAULTS, IMPATIENT, Proxy
from tests.hub.test_sync_task import runtime_of

Make = Callable[..., Machine]


@pytest.fixture
def laptop(hub: Hub, proxy: Proxy, make_machine: Make) -> Machine:
    """A machine that joined through the proxy."""
    laptop = make_machine("laptop")
    laptop.join(hub, hub.invite("Ada"), url=proxy.url)
    laptop.sync()
    return laptop


def errors_of(machine: Machine, limits: Limits = IMPATIENT) -> list[str]:
    done = sync_all(machine.store, machine.places, redact, is_forced=True, limits=limits)
    return [one.error for one in done if one.error]


@pytest.mark.parametrize("what", ["hello", "pull", "push"])
def test_whatever_the_line_does_the_round_ends_and_the_next_one_is_right(
    hub: Hub, proxy: Proxy, laptop: Machine, make_machine: Make, what: str
) -> None:
    desktop = make_machine("desktop")
    desktop.join(hub, laptop.code())
    for fault in FAULTS:
        said = desktop.save(f"Said on the desktop before {fault}.")
        desktop.sync()
        own = laptop.save(f"Said on the laptop before {fault}.")
        proxy.fault = lambda asked, fault=fault: fault if asked == what else ""

        for _ in range(20):
            errors_of(laptop)
            if proxy.counts[fault]:
                break  # on a busy machine, an earlier request may have taken too long

        assert proxy.counts[fault], fault
        proxy.fault = lambda asked: ""
        laptop.sync()
        desktop.sync()
        assert laptop.find(said.episode_id).content == said.content, fault
        assert desktop.find(own.episode_id).content == own.content, fault
        assert laptop.said() == desktop.said(), fault


@pytest.mark.parametrize("what", ["hello", "pull", "push", "wait"])
def test_a_hub_that_drips_is_given_up_although_bytes_keep_coming(proxy: Proxy, laptop: Machine, what: str) -> None:
    proxy.fault = lambda asked: "drip"
    # Bytes come within the silence that is allowed, again and again: only the whole request has an end.
    limits = Limits(silence=60, message=0.2, page=0.2, round=60)
    token = Keyring(laptop.places.hub_keys).token(proxy.url)
    asking = pytest.raises(HubUnreachable, match="took too long")
    with Connection(proxy.url, token, limits=limits) as connection, asking:
        connection.send(what, b"{}")


def test_all_requests_of_a_round_have_one_end(proxy: Proxy, laptop: Machine) -> None:
    with Connection(proxy.url, "token", limits=Limits(round=0.0)) as connection:
        assert connection.is_over
        with pytest.raises(HubUnreachable, match="took too long"):
            connection.ask("hello", {})


def test_a_round_whose_time_is_over_keeps_what_came_and_continues_later(
    hub: Hub, laptop: Machine, make_machine: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    from engram.hub.client import push_and_pull

    monkeypatch.setattr(push_and_pull, "PAGE_ROWS", 2)
    monkeypatch.setattr(push_and_pull, "MIN_PAGE_ROWS", 1)
    desktop = make_machine("desktop")
    desktop.join(hub, laptop.code())
    for number in range(5):
        desktop.save(f"Said on the desktop, {number}.")
    desktop.sync()
    steps = iter([True, True, True, False])
    (done,) = sync_all(laptop.store, laptop.places, redact, is_forced=True, goes_on=lambda: next(steps, False))

    assert (done.error, done.is_unfinished) == ("", True)
    assert 0 < done.pulled < 5
    assert done.pulled + laptop.sync().pulled == 5


@pytest.mark.parametrize("answer", [b"HTTP/1.1 200 OK\r\nContent-Length: 9999999999\r\n\r\n", b"\r\n\r\n", b""])
def test_an_answer_that_is_none_is_an_error_of_the_hub(
    proxy: Proxy, monkeypatch: pytest.MonkeyPatch, answer: bytes
) -> None:
    monkeypatch.setattr(Proxy, "_answer", lambda self, client, *rest: bool(client.sendall(answer)))
    with Connection(proxy.url, "token", limits=IMPATIENT) as connection, pytest.raises(HubError):
        connection.ask("hello", {})


def test_an_answer_to_another_request_is_refused(proxy: Proxy, laptop: Machine) -> None:
    proxy.fault = lambda what: "replay"
    token = Keyring(laptop.places.hub_keys).token(proxy.url)
    with Connection(proxy.url, token) as connection, pytest.raises(HubRefused, match="a request other than"):
        connection.ask("hello", {"push_ids": [], "marks": []})


def test_a_round_that_hangs_takes_no_thread_of_the_worker_and_is_queued_once(
    proxy: Proxy, laptop: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    runtime = runtime_of(laptop)
    begun, released = threading.Event(), threading.Event()
    rounds: list[int] = []

    def hanging(*_: Any, **__: Any) -> tuple[str, bool]:
        rounds.append(threading.get_ident())
        begun.set()
        assert released.wait(60)
        return "", False

    monkeypatch.setattr(sync_module, "sync_under_lease", hanging)
    for _ in range(8):
        run_sync(runtime)  # returns at once, whatever the round does
    assert begun.wait(60)
    for _ in range(8):
        run_sync(runtime)
    assert len(rounds) == 1
    released.set()
    assert runtime.hub_executor.wait(60)
    assert len(rounds) == 2
    assert threading.get_ident() not in rounds


def test_two_threads_of_one_process_make_one_round(proxy: Proxy, laptop: Machine) -> None:
    runtime = runtime_of(laptop)
    lease = take_sync_lease(laptop.store)
    assert lease is not None
    with lease:
        assert take_sync_lease(laptop.store) is None
        assert sync_under_lease(runtime) == ("", False)
    assert sync_under_lease(runtime)[0] == ""
    assert lease_owners(laptop.store) == {}


def test_the_lease_of_a_killed_process_is_free_at_once(proxy: Proxy, laptop: Machine) -> None:
    assert take_lease(laptop.store, "sync", "4194304999-1", 600)
    lease = take_sync_lease(laptop.store)
    assert lease is not None
    with lease:
        assert lease.goes_on()


def test_what_stops_the_worker_stops_a_round_at_its_next_step(proxy: Proxy, laptop: Machine) -> None:
    runtime = runtime_of(laptop)
    laptop.save("Said just before the end.")
    runtime.hub_executor.close()
    before = proxy.counts.total()
    assert sync_under_lease(runtime, is_forced=True) == ("", False)
    assert proxy.counts.total() == before
