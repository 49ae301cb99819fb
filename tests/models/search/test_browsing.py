"""Lists of memories: found while a word is typed, narrowed by kind, project and state, with numbers that match the
lists.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable

import pytest

from engram.enums import Actor, Kind, Status
from engram.models.engine.transaction import Store
from engram.models.memories.memory_changes import change_memory
from engram.models.memories.memory_records import Memory
from engram.models.projects import projects
from engram.models.search import memory_lists
from engram.models.search.memory_lists import Selection, State, browse

Keep = Callable[..., Memory]


def found(store: Store, text: str) -> list[str]:
    return [memory.summary for memory in browse(store, Selection(text)).memories]


def test_a_word_is_found_while_it_is_typed(store: Store, keep: Keep) -> None:
    keep("the deploy is running", content="")
    keep("memories of the harbor", content="")

    for typed in ("ru", "run", "runn", "runni", "runnin", "running", "the run", "deploy runni", "RUNNING"):
        assert found(store, typed) == ["the deploy is running"], typed
    for typed in ("memo", "memorie", "memories", "harb"):
        assert found(store, typed) == ["memories of the harbor"], typed
    assert found(store, "deploy h") == ["the deploy is running"]  # one letter narrows nothing yet
    assert len(found(store, "")) == len(found(store, "r")) == 2


@pytest.mark.parametrize("typed", ["xylophone", "deploy xylo", '" OR 1', "walrus NEAR(", "ninth zz"])
def test_what_fits_nothing_shows_nothing(store: Store, keep: Keep, typed: str) -> None:
    keep("the deploy is running", content="")

    listing = browse(store, Selection(typed))

    assert (listing.memories, listing.facets and listing.facets.total) == ((), 0)


def test_every_number_is_that_of_the_list_it_leads_to(store: Store, keep: Keep) -> None:
    with store.transaction() as tx:
        homes = [projects.ensure_project(tx, name, name).id for name in ("a", "b")]
    kinds = (Kind.FIX, Kind.DECISION)
    changes = ({}, {"status": Status.ARCHIVED}, {"is_pinned": True}, {"is_lowered": True}, {"suspect": "order"})
    for number, (home, kind, change) in enumerate(itertools.product(homes, kinds, changes)):
        memory = keep(f"walrus {number}", kind=kind, project_id=home)
        if change:
            with store.transaction() as tx:
                change_memory(tx, memory, "edit", actor=Actor.USER, **change)  # type: ignore[arg-type]

    states = (None, *State)
    for text, home, kind, state in itertools.product(("", "walr"), (None, *homes), ("", *kinds), states):
        selection = Selection(text, home, kind, state)
        listing = browse(store, selection, limit=100)
        assert listing.facets is not None
        assert listing.facets.total == len(listing.memories)
        for other, number in listing.facets.kinds.items():
            assert number == len(browse(store, Selection(text, home, other, state), limit=100).memories)
        for owner, number in listing.facets.projects.items():
            assert number == len(browse(store, Selection(text, owner, kind, state), limit=100).memories)
        for one, number in listing.facets.states.items():
            assert number == len(browse(store, Selection(text, home, kind, one), limit=100).memories)


def test_the_latest_come_first_where_too_many_match(store: Store, keep: Keep, monkeypatch: pytest.MonkeyPatch) -> None:
    kept = [keep(f"walrus {number}", created_at_ms=number + 1) for number in range(5)]
    monkeypatch.setattr(memory_lists, "MAX_COUNTED", 3)

    listing = browse(store, Selection("walrus"), limit=2, offset=1)

    assert listing.facets is None
    assert [memory.id for memory in listing.memories] == [kept[3].id, kept[2].id]


def test_words_without_spaces_are_found_from_any_letter(store: Store, keep: Keep) -> None:
    keep("导入程序的唯一索引冲突", content="")
    keep("보관 고유인덱스", content="")
    keep("ตัวนำเข้าเก็บข้อมูล", content="")

    for typed in ("导", "索引", "唯一索", "程序 冲", "突"):
        assert found(store, typed) == ["导入程序的唯一索引冲突"], typed
    for typed in ("덱", "인덱스", "보관 고"):
        assert found(store, typed) == ["보관 고유인덱스"], typed
    assert found(store, "เก็บ") == ["ตัวนำเข้าเก็บข้อมูล"]
    for typed in ("引索", "索引 덱", "็"):
        assert found(store, typed) == [], typed
