"""The text index of memories holds no text itself: whatever changes, it must follow, and leave nothing behind."""

from __future__ import annotations

from collections.abc import Callable

from engram.enums import Actor
from engram.models.engine.transaction import Store
from engram.models.memories import memory_changes
from engram.models.memories.memory_index import index_memory, rebuild_memory_index, unindex_memory
from engram.models.memories.memory_records import Memory


def found(store: Store, word: str) -> list[int]:
    return [int(row_id) for (row_id,) in store.rows("SELECT rowid FROM episode_fts WHERE episode_fts MATCH ?", (word,))]


def words_in_index(store: Store) -> set[str]:
    store.rows("CREATE VIRTUAL TABLE IF NOT EXISTS temp.words USING fts5vocab('main', 'episode_fts', 'row')")
    return {str(word) for (word,) in store.rows("SELECT term FROM temp.words")}


def test_summary_content_entities_and_questions_are_found(store: Store, keep: Callable[..., Memory]) -> None:
    memory = keep("zebra", content="walrus", entities=("ocelot",), questions=("Which animal barks?",))

    assert [found(store, word) for word in ("zebra", "walrus", "ocelot", "bark")] == [[memory.id]] * 4


def test_questions_leave_the_index_with_the_words_they_were_asked_about(
    store: Store, keep: Callable[..., Memory]
) -> None:
    memory = keep("zebra", content="", questions=("Which animal barks?",))

    with store.transaction() as tx:
        memory = memory_changes.change_memory(tx, memory, "edit", actor=Actor.USER, summary="heron")

    assert (memory.questions, found(store, "bark"), words_in_index(store)) == ((), [], {"heron"})
    assert store.find_damage() == ""


def test_a_memory_that_leaves_the_index_leaves_no_word(store: Store, keep: Callable[..., Memory]) -> None:
    memory, other = keep("zebra", content="walrus"), keep("heron", content="walrus")

    with store.transaction() as tx:
        unindex_memory(tx, memory.id)

    assert found(store, "walrus") == [other.id]
    assert "zebra" not in words_in_index(store)
    with store.transaction() as tx:
        index_memory(tx, memory.id)
    assert found(store, "walrus") == [memory.id, other.id]
    assert store.find_damage() == ""


def test_packed_content_is_in_no_index_and_summary_stays(store: Store, keep: Callable[..., Memory]) -> None:
    memory = keep("zebra", content="walrus " * 50)

    with store.transaction() as tx:
        memory_changes.pack_old_content(tx, memory, "old", actor=Actor.TIDYING)

    assert (found(store, "zebra"), found(store, "walrus")) == ([memory.id], [])


def test_a_rebuilt_index_is_the_same(store: Store, keep: Callable[..., Memory]) -> None:
    first, packed = keep("zebra", content="walrus"), keep("heron", content="ibis " * 50)
    with store.transaction() as tx:
        memory_changes.pack_old_content(tx, packed, "old", actor=Actor.TIDYING)
    before = words_in_index(store)

    with store.transaction() as tx:
        rebuild_memory_index(tx)

    assert words_in_index(store) == before
    assert (found(store, "walrus"), found(store, "heron")) == ([first.id], [packed.id])
    assert store.find_damage() == ""
