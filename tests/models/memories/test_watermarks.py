"""A watermark shows what was added or changed since; undone changes are remembered."""

from __future__ import annotations

from engram.enums import Actor, Kind
from engram.models.engine.transaction import Store
from engram.models.memories.memory_changes import add_memory, change_memory
from engram.models.memories.memory_records import Memory, new_memory_id
from engram.models.memories.watermarks import (
    MAX_UNDONE,
    changed_since,
    current_watermark,
    load_heads,
    load_watermark,
    note_undone,
    save_heads,
    save_watermark,
    undone,
)
from engram.models.search.vector_rows import put_vectors


def keep(store: Store, summary: str) -> Memory:
    with store.transaction() as tx:
        memory = Memory(episode_id=new_memory_id(), kind=Kind.FACT, summary=summary, content=summary)
        return add_memory(tx, memory, [], actor=Actor.USER)


def test_only_what_came_changed_or_got_a_vector_is_new(store: Store) -> None:
    old, changed, embedded = (keep(store, name) for name in ("old", "changed", "embedded"))
    mark = current_watermark(store)
    assert changed_since(store, mark) == frozenset()

    with store.transaction() as tx:
        change_memory(tx, changed, "pin", actor=Actor.USER, is_pinned=True)
        put_vectors(tx, "m", [("e", embedded.id, 0, b"\0\0")])
    new = keep(store, "new")

    assert changed_since(store, mark) == {changed.id, embedded.id, new.id}
    assert old.id not in changed_since(store, mark)


def test_a_watermark_is_saved_and_loaded(store: Store) -> None:
    assert load_watermark(store) is None
    keep(store, "one")
    mark = current_watermark(store)

    with store.transaction() as tx:
        save_watermark(tx, mark)
        save_heads(tx, {"b": "2", "a": "1"})

    assert load_watermark(store) == mark
    assert load_heads(store) == {"a": "1", "b": "2"}


def test_the_oldest_changes_that_were_undone_go_first(store: Store) -> None:
    assert undone(store) == frozenset()
    with store.transaction() as tx:
        note_undone(tx, [("merge", f"ep_{number}") for number in range(MAX_UNDONE)])
        note_undone(tx, [("merge", "ep_5"), ("archive", "ep_new")])

    kept = undone(store)
    assert len(kept) == MAX_UNDONE
    assert ("merge", "ep_0") not in kept
    assert {("merge", "ep_5"), ("archive", "ep_new")} <= kept
