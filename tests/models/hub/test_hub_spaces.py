"""Hubs and spaces as they are kept, and what was set aside."""

from __future__ import annotations

from engram.models.engine.statement import prepared
from engram.models.engine.transaction import Store
from engram.models.hub import incoming_statements, outgoing_statements, shares, spaces
from engram.models.hub.spaces import (
    change_server,
    drop_server,
    drop_set_aside,
    find_server,
    find_space,
    list_servers,
    list_set_aside,
    list_spaces,
    private_space,
    raise_clock,
    set_aside,
    space_by_id,
)
from tests.models.hub_spaces_made import join_made_up


def test_a_hub_that_is_left_takes_its_spaces_and_what_was_set_aside_along(store: Store) -> None:
    assert private_space(store) is None
    space = join_made_up(store)
    with store.transaction() as tx:
        set_aside(tx, space.id, "push", 41, b"12345678", reason="too large")
    assert find_space(store, "private") == private_space(store) == space
    assert [row.reason for row in list_set_aside(store, space.id)] == ["too large"]

    server = find_server(store, "https://hub.example.org")
    assert server is not None
    with store.transaction() as tx:
        change_server(tx, server.id, last_error="down")
        drop_server(tx, server.id)

    assert (list_servers(store), list_spaces(store), list_set_aside(store)) == ([], [], [])


def test_a_clock_never_goes_back_and_what_went_through_is_no_longer_set_aside(store: Store) -> None:
    space = join_made_up(store)
    with store.transaction() as tx:
        raise_clock(tx, space.id, 900)
        raise_clock(tx, space.id, 500)
        set_aside(tx, space.id, "pull", 41, b"12345678", seq=3, reason="malformed")
        set_aside(tx, space.id, "pull", 41, b"87654321", seq=4, reason="malformed")
        drop_set_aside(tx, space.id, "pull", [(41, b"12345678")])

    now = space_by_id(store, space.id)
    assert now is not None
    assert (now.clock, now.published) == (900, 900)
    assert [row.seq for row in list_set_aside(store)] == [4]


def test_what_waits_is_found_without_looking_at_every_memory_of_a_space(store: Store) -> None:
    space = join_made_up(store)
    for query, index in (
        (prepared(spaces.count_outgoing.__wrapped__)(space.id), "hub_memory_outgoing"),
        (prepared(outgoing_statements.load_outgoing.__wrapped__)(space.id, 10), "hub_memory_outgoing"),
        (incoming_statements._stop_waiting(space.id, b"12345678"), "hub_memory_waiting"),
        (shares._link(b"12345678", "ep_000000000001"), "hub_memory_waiting"),
    ):
        plan = store.rows(f"EXPLAIN QUERY PLAN {query.sql}", query.parameters)
        assert any(index in str(step[3]) for step in plan), (query.sql, plan)
        assert not any("hub_memory USING PRIMARY" in str(step[3]) for step in plan)
