"""Shares: copies with a text of their own, which goes with the memory, its words, or a purge."""

from __future__ import annotations

from collections.abc import Callable

from engram.enums import Actor, Status
from engram.hub.protocol.frames import Row
from engram.hub.protocol.statements import TEXT, Statement
from engram.models import tables
from engram.models.engine.transaction import Store
from engram.models.hub.memory_statements import memory_id_of
from engram.models.hub.outgoing_statements import load_outgoing, mark_pushed
from engram.models.hub.shares import (
    add_share,
    bar_share,
    build_shares,
    copy_id,
    link_shares,
    list_shares,
    shares_of,
    take_share,
)
from engram.models.memories.memory_changes import change_memory, erase_fields, remove_memory
from engram.models.memories.memory_records import Memory
from tests.models.hub_spaces_made import MEMBER, join_made_up, join_team_made_up

Keep = Callable[..., Memory]
TEXT_OF_SHARE = {"s": "shared words", "c": "shared words", "f": [], "e": []}


def test_a_share_has_its_own_text_and_goes_with_the_words_of_its_memory(store: Store, keep: Keep) -> None:
    join_made_up(store)
    team = join_team_made_up(store)
    first, second, third = keep("first"), keep("second"), keep("third")
    with store.transaction() as tx:
        assert [add_share(tx, team, memory, TEXT_OF_SHARE, None) for memory in (first, second, third)] == [True] * 3
        assert not add_share(tx, team, first, TEXT_OF_SHARE, None)
        assert add_share(tx, team, first, TEXT_OF_SHARE | {"s": "newer"}, ["example.org/x", "", "x"])
        change_memory(tx, first, "edit", actor=Actor.USER, summary="other")
    statements = build_shares(load_outgoing(store, team.id, 10))
    statement = statements[copy_id(team.ns_id, first.stable_id)]
    assert statement.fields[TEXT][2] == TEXT_OF_SHARE | {"s": "newer"}
    assert set(statement.birth) == {"k", "c", "o", "p"}

    with store.transaction() as tx:
        change_memory(tx, second, "archive", actor=Actor.TIDYING, status=Status.ARCHIVED)
        change_memory(tx, third, "archive", actor=Actor.USER, status=Status.ARCHIVED, valid_to_ms=77)
    ends = [build_shares([shares_of(store, e.episode_id)[0].said]) for e in (second, third)]
    assert ["ends" in next(iter(built.values())).fields for built in ends] == [False, True]
    with store.transaction() as tx:
        erase_fields(tx, first, "forgotten", actor=Actor.USER, content="")
        remove_memory(tx, second, actor=Actor.USER)
        remove_memory(tx, third, actor=Actor.USER, is_purge=True)
    rows = store.fetch(tables.HubMemory.select().where(tables.HubMemory.space == team.id))
    assert [row.own_text for row in rows] == [None] * 3
    assert sorted(row.is_forgotten for row in rows) == [0, 1, 1]
    assert build_shares(load_outgoing(store, team.id, 10)) == {}
    (left,) = list_shares(store, team)
    assert (left.summary, left.said.episode_id) == ("", "")


def test_a_withdrawn_share_is_a_new_one_when_it_is_shared_again(store: Store, keep: Keep) -> None:
    join_made_up(store)
    team = join_team_made_up(store)
    memory = keep("kept back")
    with store.transaction() as tx:
        bar_share(tx, team, memory)
    assert (load_outgoing(store, team.id, 10), shares_of(store, memory.episode_id)) == ([], [])
    with store.transaction() as tx:
        add_share(tx, team, memory, TEXT_OF_SHARE, None)
    (share,) = shares_of(store, memory.episode_id)
    assert share.said.memory_id != copy_id(team.ns_id, memory.stable_id)
    assert share.is_waiting
    with store.transaction() as tx:
        mark_pushed(tx, team.id, [(MEMBER, share.said.memory_id, 1)])
    assert not shares_of(store, memory.episode_id)[0].is_waiting


def test_what_another_machine_shared_finds_its_memory_whichever_comes_first(store: Store, keep: Keep) -> None:
    join_made_up(store)
    team = join_team_made_up(store)
    here = keep("is here")

    def arrive(stable_id: str, words: str, hlc: int) -> bytes:
        memory_id = copy_id(team.ns_id, stable_id)
        row = Row(MEMBER, memory_id, 8, hlc, 1, False, b"")
        text = TEXT_OF_SHARE | {"s": words}
        with store.transaction() as tx:
            take_share(tx, team, row, Statement({"k": "fact", "o": stable_id}, {TEXT: (hlc, 8, text)}), text)
        return memory_id

    arrive(here.stable_id, "old", 5)
    arrive(here.stable_id, "new", 9)
    arrive(here.stable_id, "older", 3)
    (share,) = shares_of(store, here.episode_id)
    assert (share.summary, share.is_waiting) == ("new", False)
    late = arrive("00112233445566ff", "of a memory to come", 4)
    with store.transaction() as tx:
        link_shares(tx, [("00112233445566ff", "ep_0123456789ab")])
    (share,) = shares_of(store, "ep_0123456789ab")
    assert (share.said.memory_id, share.said.waits_for) == (late, None)
    assert memory_id_of("00112233445566ff").hex() == "00112233445566ff"
