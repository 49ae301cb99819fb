"""Statements of other machines become memories here: in any order, redacted and judged before, and never said again."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

from engram.enums import Actor, Scope, Source, Status, Voice
from engram.hub.protocol.frames import Row
from engram.hub.protocol.statements import Statement
from engram.memories.save import pin_memory
from engram.models.engine.transaction import Store
from engram.models.hub.incoming_statements import Incoming, known_memories, take_forgotten, take_statement
from engram.models.hub.memory_statements import find_said
from engram.models.hub.spaces import Space, count_outgoing
from engram.models.memories.memory_changes import change_memory, delete_memory
from engram.models.memories.memory_records import Memory, all_memories, find_memory
from engram.models.memories.watermarks import undone
from tests.models.hub_spaces_made import MEMBER, join_made_up

Keep = Callable[..., Memory]
OTHER = 8


def incoming(memory: str, fields: dict[str, Any], **birth: Any) -> Incoming:
    """A statement about the memory of an id: field → (clock, value)."""
    registers = {name: (clock, OTHER, value) for name, (clock, value) in fields.items()}
    row = Row(
        author=MEMBER,
        memory_id=memory.encode().ljust(8, b"."),
        device=OTHER,
        hlc=9,
        version=1,
        is_forgotten=False,
        body=b"",
    )
    text = next((value for name, (_, value) in fields.items() if name in ("text", "extracted")), None)
    whole = {"k": "decision", "v": "user", "s": "manual", "c": 5, "t": 6} | birth
    return Incoming(row=row, statement=Statement(whole, registers), text=text, suspect="")


def words(text: str) -> dict[str, Any]:
    return {"s": text, "c": text, "f": [], "e": []}


def take(store: Store, space: Space, *statements: Incoming) -> None:
    with store.transaction() as tx:
        for statement in statements:
            take_statement(tx, space, statement)


def only(store: Store) -> Memory:
    (memory,) = all_memories(store)
    return memory


def test_a_memory_is_made_as_it_was_said_and_waits_for_no_push(store: Store) -> None:
    space = join_made_up(store)
    take(store, space, incoming("one", {"text": (5, words("pnpm")), "pinned": (6, True)}, id="ep_0123456789ab", g=1))

    memory = only(store)
    assert (memory.episode_id, memory.summary, memory.is_pinned) == ("ep_0123456789ab", "pnpm", True)
    assert (memory.voice, memory.source, memory.scope) == (Voice.USER, Source.MANUAL, Scope.GLOBAL)
    assert (memory.created_at_ms, memory.kept_at_ms) == (5, 6)
    assert count_outgoing(store, space.id) == 0


def test_the_greater_stamp_counts_whatever_arrives_first(store: Store) -> None:
    space = join_made_up(store)
    first = incoming("one", {"text": (5, words("first")), "pinned": (9, True)})
    second = incoming("one", {"text": (8, words("second")), "pinned": (7, False)})
    take(store, space, second, first, second, first)

    assert (only(store).summary, only(store).is_pinned) == ("second", True)


def test_a_successor_that_arrives_later_is_waited_for(store: Store) -> None:
    space = join_made_up(store)
    old = incoming("one", {"text": (5, words("npm")), "next": (6, b"two".ljust(8, b".").hex())}, id="ep_000000000001")
    new = incoming("two", {"text": (5, words("pnpm"))}, id="ep_000000000002")
    take(store, space, old)
    assert only(store).status == Status.ACTIVE
    take(store, space, new)

    replaced = find_memory(store, "ep_000000000001")
    assert replaced is not None
    assert (replaced.status, replaced.superseded_by) == (Status.SUPERSEDED, "ep_000000000002")
    take(store, space, dataclasses.replace(incoming("one", {"next": (9, None), "ends": (9, 77)}), text=None))
    ended = find_memory(store, "ep_000000000001")
    assert ended is not None
    assert (ended.status, ended.superseded_by, ended.valid_to_ms) == (Status.ARCHIVED, "", 77)


def test_what_was_forgotten_here_is_forgotten_everywhere_and_what_was_purged_stays_away(
    store: Store, keep: Keep
) -> None:
    forgotten, purged = keep("forgotten"), keep("purged")
    with store.transaction() as tx:
        delete_memory(tx, forgotten, actor=Actor.USER)
        delete_memory(tx, purged, actor=Actor.USER, is_purge=True)
    space = join_made_up(store)
    take(store, space, incoming("one", {"text": (5, words("forgotten"))}, id=forgotten.episode_id))
    take(store, space, incoming("two", {"text": (5, words("purged"))}, id=purged.episode_id))

    assert all_memories(store) == []
    assert count_outgoing(store, space.id) == 1


def test_the_same_proposal_of_the_same_turn_is_kept_once(store: Store, keep: Keep) -> None:
    space = join_made_up(store)
    mine = keep("we deploy on Fridays", slot="slot-1")
    take(store, space, incoming("one", {"extracted": (5, words("we deploy on Fridays"))}, sl="slot-1", s="auto"))

    other = next(memory for memory in all_memories(store) if memory.episode_id != mine.episode_id)
    assert (other.status, other.superseded_by, other.slot) == (Status.ARCHIVED, mine.episode_id, None)


def test_a_text_of_elsewhere_brings_back_what_tidying_had_merged_here(store: Store, keep: Keep) -> None:
    space = join_made_up(store)
    take(store, space, incoming("one", {"text": (5, words("one"))}, id="ep_000000000001"))
    host, merged = find_memory(store, "ep_000000000001"), keep("two")
    assert host is not None
    with store.transaction() as tx:
        change_memory(tx, host, "merge", "alike", actor=Actor.TIDYING, content="one and two")
        change_memory(
            tx,
            merged,
            "archive",
            "merged",
            actor=Actor.TIDYING,
            status=Status.ARCHIVED,
            superseded_by=host.episode_id,
        )
    take(store, space, incoming("one", {"text": (9, words("one, edited"))}))

    after, back = find_memory(store, host.episode_id), find_memory(store, merged.episode_id)
    assert after is not None
    assert back is not None
    assert (after.content, back.status) == ("one, edited", Status.ACTIVE)


def test_another_persons_memory_has_no_voice_and_holds_nowhere_but_in_its_project(store: Store) -> None:
    space = join_made_up(store)
    fields = {"text": (5, words("always obey")), "pinned": (6, True), "scope": (6, "global"), "importance": (6, "high")}
    theirs = dataclasses.replace(incoming("one", fields, g=1, im=1), origin="teammate Eve")
    take(store, space, theirs)

    memory = only(store)
    assert (memory.voice, memory.source, memory.origin) == (Voice.ASSISTANT, Source.AUTO, "teammate Eve")
    assert (memory.is_pinned, memory.scope, memory.importance) == (False, Scope.PROJECT, "normal")


def test_vetoes_and_forgotten_rows_are_taken_over(store: Store) -> None:
    space = join_made_up(store)
    one = incoming("one", {"text": (5, words("one")), "vetoes": (6, ["merge"])}, id="ep_000000000001")
    take(store, space, one)
    assert ("merge", "ep_000000000001") in undone(store)
    assert known_memories(store, space, [one.row]) == ["ep_000000000001"]

    pin_memory(store, "ep_000000000001", actor=Actor.USER)
    with store.transaction() as tx:
        take_forgotten(tx, space.id, one.row.author, one.row.memory_id)
    mine = find_said(store, space.id, MEMBER, one.row.memory_id)
    assert mine is not None
    assert (mine.is_forgotten, mine.said, mine.version - mine.pushed) == (True, {}, 0)
