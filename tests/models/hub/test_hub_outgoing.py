"""The dirty set: what waits, what was said before joining, and stamps that are given anew."""

from __future__ import annotations

from collections.abc import Callable

from engram.enums import Actor, Status
from engram.hub.protocol.statements import MAX_AHEAD_MS, clock_of
from engram.memories.save import edit_memory, pin_memory
from engram.models.engine.transaction import Store
from engram.models.hub.outgoing_statements import (
    become_device,
    begin_enqueuing,
    build_statements,
    count_statements,
    enqueue_all,
    give_versions,
    load_outgoing,
    mark_pushed,
    restamp_future,
    say_all_again,
    say_with_new_key,
)
from engram.models.hub.spaces import count_outgoing, raise_clock, space_by_id
from engram.models.memories.memory_changes import change_memory
from engram.models.memories.memory_records import Memory
from engram.redaction import redact
from engram.system.clock import FixedClock
from tests.models.hub_spaces_made import DEVICE, MEMBER, join_made_up

Keep = Callable[..., Memory]


def test_what_was_there_before_is_said_as_it_was_said_and_not_as_tidying_left_it(store: Store, keep: Keep) -> None:
    pinned, merged, old = keep("pinned"), keep("merged"), keep("old")
    pin_memory(store, pinned.episode_id, actor=Actor.USER)
    with store.transaction() as tx:
        change_memory(tx, merged, "merge", "alike", actor=Actor.TIDYING, content="other words")
        change_memory(tx, old, "age", "unused", actor=Actor.TIDYING, status=Status.ARCHIVED)
    space = join_made_up(store)
    with store.transaction() as tx:
        begin_enqueuing(tx, space.id)

    assert enqueue_all(store, space) == 3
    assert enqueue_all(store, space) == 0

    with store.snapshot() as reader:
        statements = build_statements(reader, load_outgoing(reader, space.id, 10))
    by_id = {statement.birth["id"]: statement.fields for statement in statements.values()}
    assert by_id[pinned.episode_id]["pinned"][2] is True
    assert by_id[merged.episode_id]["extracted"][2]["c"] == "content of merged"
    assert set(by_id[old.episode_id]) == {"extracted", "scope"}


def test_what_is_said_while_a_page_is_on_its_way_still_waits(store: Store, keep: Keep) -> None:
    space = join_made_up(store)
    kept = keep("we deploy on Fridays")
    (memory,) = load_outgoing(store, space.id, 10)
    pin_memory(store, kept.episode_id, actor=Actor.USER)
    with store.transaction() as tx:
        mark_pushed(tx, space.id, [(memory.author, memory.memory_id, memory.version)])
    assert count_outgoing(store, space.id) == 1

    (memory,) = load_outgoing(store, space.id, 10)
    with store.transaction() as tx:
        mark_pushed(tx, space.id, [(memory.author, memory.memory_id, memory.version)])
    assert count_outgoing(store, space.id) == 0
    assert count_statements(store, space.id) == {"memories": 1, "forgotten": 0}


def test_a_clock_that_ran_ahead_is_corrected_but_never_below_what_the_hub_has_seen(
    store: Store, keep: Keep, clock: FixedClock
) -> None:
    space = join_made_up(store)
    true_ms = clock.now_ms()
    clock.advance(86_400 * 365)
    keep("said next year")
    published = clock_of(true_ms + 3_600_000)
    with store.transaction() as tx:
        raise_clock(tx, space.id, published)
        now = space_by_id(tx, space.id)
        assert now is not None
        assert restamp_future(tx, now, DEVICE, true_ms, MAX_AHEAD_MS) == 1

    (memory,) = load_outgoing(store, space.id, 10)
    assert published < memory.said["text"][0] < clock_of(true_ms + MAX_AHEAD_MS)
    after = space_by_id(store, space.id)
    assert after is not None
    assert after.clock == memory.said["text"][0]


def test_a_copy_says_what_was_not_pushed_as_another_device(store: Store, keep: Keep) -> None:
    space = join_made_up(store)
    pushed, waiting = keep("pushed"), keep("waiting")
    first = load_outgoing(store, space.id, 10)
    with store.transaction() as tx:
        sent = [memory for memory in first if memory.episode_id == pushed.episode_id]
        mark_pushed(tx, space.id, [(memory.author, memory.memory_id, memory.version) for memory in sent])
        raise_clock(tx, space.id, sent[0].said["text"][0])
        now = space_by_id(tx, space.id)
        assert now is not None
        assert become_device(tx, now, DEVICE, 8) == 1

    (memory,) = load_outgoing(store, space.id, 10)
    assert (memory.episode_id, memory.said["text"][1], memory.version) == (waiting.episode_id, 8, 1)


def test_after_a_loss_everything_is_said_again_with_a_version(store: Store, keep: Keep) -> None:
    space = join_made_up(store)
    kept = keep("we deploy on Fridays")
    (memory,) = load_outgoing(store, space.id, 10)
    key = (memory.author, memory.memory_id, memory.version)
    with store.transaction() as tx:
        mark_pushed(tx, space.id, [key])
        say_all_again(tx, space.id, MEMBER)
        give_versions(tx, space.id)
    (again,) = load_outgoing(store, space.id, 10)
    # A newer one: a hub that still has the former must not take it for known.
    assert again.version == memory.version + 1
    with store.transaction() as tx:
        mark_pushed(tx, space.id, [(again.author, again.memory_id, again.version)])
        say_with_new_key(tx, space.id, MEMBER)
    assert count_outgoing(store, space.id) == 1
    edit_memory(store, kept.episode_id, redact, actor=Actor.USER, content="by hand")
    assert load_outgoing(store, space.id, 10)[0].version == 4
