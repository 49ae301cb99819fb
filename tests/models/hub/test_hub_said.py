"""What is said to other machines: decisions of people, with a stamp for each field, and nothing that tidying does."""

from __future__ import annotations

from collections.abc import Callable

from engram.enums import Actor, Importance, Judgement, Status
from engram.memories.correct import judge_memory
from engram.memories.save import edit_memory, pin_memory
from engram.models import tables
from engram.models.engine.transaction import Store
from engram.models.hub.memory_statements import SaidMemory, memory_id_of, said_of_memory
from engram.models.memories.memory_changes import change_memory, delete_memory, erase_fields, remove_memory, supersede
from engram.models.memories.memory_records import Memory
from engram.models.memories.watermarks import note_undone
from engram.redaction import redact
from engram.system.clock import FixedClock
from tests.models.hub_spaces_made import DEVICE, join_made_up

Keep = Callable[..., Memory]


def said(store: Store, kept: Memory) -> SaidMemory:
    (memory,) = said_of_memory(store, kept.episode_id)
    return memory


def test_nothing_is_written_where_no_hub_was_joined(store: Store, keep: Keep) -> None:
    memory = keep("we deploy on Fridays")
    pin_memory(store, memory.episode_id, actor=Actor.USER)

    assert not store.has_any(tables.HubMemory.select())


def test_each_decision_of_a_person_has_its_own_stamp(store: Store, keep: Keep, clock: FixedClock) -> None:
    join_made_up(store)
    memory = keep("we deploy on Fridays")
    first = said(store, memory)
    assert (first.memory_id.hex(), first.version, first.pushed) == (memory.stable_id, 1, 0)

    clock.advance(60)
    pin_memory(store, memory.episode_id, actor=Actor.USER)
    edit_memory(store, memory.episode_id, redact, actor=Actor.AGENT, importance=Importance.HIGH)
    judge_memory(store, memory.episode_id, Judgement.WRONG, "it is Thursdays", redact, actor=Actor.USER)

    now = said(store, memory)
    assert {name: register[2:] for name, register in now.said.items()} == {
        "text": [],
        "pinned": [True],
        "importance": ["high"],
        "lowered": [True],
    }
    stamps = [now.said[name][:2] for name in ("text", "pinned", "importance", "lowered")]
    assert stamps == sorted(stamps)
    assert {device for _, device in stamps} == {DEVICE}
    assert now.version == 4


def test_tidying_is_not_said_and_the_text_that_was_said_is_kept_beside_it(store: Store, keep: Keep) -> None:
    join_made_up(store)
    memory = keep("we deploy on Fridays")
    with store.transaction() as tx:
        merged = change_memory(tx, memory, "merge", "alike", actor=Actor.TIDYING, content="merged words")
        change_memory(tx, merged, "age", "old", actor=Actor.TIDYING, status=Status.ARCHIVED)

    now = said(store, memory)
    assert (now.version, set(now.said)) == (1, {"text"})
    assert now.own_text is not None
    assert now.own_text["c"] == "content of we deploy on Fridays"

    edit_memory(store, memory.episode_id, redact, actor=Actor.USER, content="by hand")
    assert (said(store, memory).version, said(store, memory).own_text) == (2, None)


def test_what_an_extractor_wrote_gives_way_to_what_a_hand_wrote(store: Store, keep: Keep) -> None:
    join_made_up(store)
    memory = keep("we deploy on Fridays")
    with store.transaction() as tx:
        tx.run(tables.HubMemory.update(said='{"extracted": [5, 7]}'))
        grown = change_memory(tx, memory, "extract", "it went on", actor=Actor.MODEL, content="grown")
    assert set(said(store, memory).said) == {"extracted"}

    edit_memory(store, grown.episode_id, redact, actor=Actor.USER, content="by hand")
    assert set(said(store, memory).said) == {"text"}


def test_a_memory_that_is_replaced_by_hand_names_its_successor(store: Store, keep: Keep) -> None:
    join_made_up(store)
    old, new = keep("npm"), keep("pnpm")
    with store.transaction() as tx:
        supersede(tx, old, new, "replaced by hand", actor=Actor.USER)
    assert said(store, old).said["next"][2] == memory_id_of(new.stable_id).hex()

    with store.transaction() as tx:
        delete_memory(tx, new, actor=Actor.USER)
    assert said(store, old).said["next"][2] is None
    (gone,) = store.fetch(tables.HubMemory.select().where(tables.HubMemory.episode_id == new.episode_id))
    assert (gone.is_forgotten, gone.said, gone.own_text, gone.version) == (1, "{}", None, 2)


def test_a_purge_stays_on_this_machine(store: Store, keep: Keep) -> None:
    join_made_up(store)
    memory = keep("we deploy on Fridays")
    with store.transaction() as tx:
        delete_memory(tx, memory, actor=Actor.USER, is_purge=True)

    assert not store.has_any(tables.HubMemory.select())


def test_forgotten_words_leave_what_was_said_too(store: Store, keep: Keep) -> None:
    join_made_up(store)
    memory = keep("we deploy on Fridays")
    with store.transaction() as tx:
        change_memory(tx, memory, "merge", "alike", actor=Actor.TIDYING, content="merged words")
        erase_fields(tx, memory, "forgotten", actor=Actor.USER, content="", facts=())

    now = said(store, memory)
    assert now.own_text is not None
    assert (now.own_text["c"], now.version) == ("", 2)


def test_a_change_that_was_undone_is_vetoed(store: Store, keep: Keep) -> None:
    join_made_up(store)
    memory = keep("we deploy on Fridays")
    with store.transaction() as tx:
        note_undone(tx, [("archive", memory.episode_id), ("merge", memory.episode_id)])

    assert said(store, memory).said["vetoes"][2] == ["archive", "merge"]


def test_an_import_that_was_undone_is_taken_away_elsewhere_and_may_come_again(store: Store, keep: Keep) -> None:
    join_made_up(store)
    kept = keep("imported")
    with store.transaction() as tx:
        remove_memory(tx, kept, actor=Actor.USER)
    again = keep("imported", episode_id=kept.episode_id, stable_id=kept.stable_id)

    first, second = sorted(said_of_memory(store, again.episode_id), key=lambda memory: not memory.is_forgotten)
    assert (first.is_forgotten, second.is_forgotten) == (True, False)
    assert first.memory_id != second.memory_id
