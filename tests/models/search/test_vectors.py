"""Vectors stand for rows that are there, of one model at a time, and say who may see them."""

from __future__ import annotations

from collections.abc import Callable

from bench.storing import load_vectors
from engram.enums import Scope
from engram.models.engine.transaction import Store
from engram.models.memories.memory_records import Memory
from engram.models.projects.notes import NoteChunk, NoteRow, Owner, put_note
from engram.models.search import vector_rows
from tests.models.conversations import make_turn, store_project, store_turn

DATA = b"\0\0"


def put(store: Store, *owners: tuple[str, int], model: str = "m") -> None:
    with store.transaction() as tx:
        vector_rows.put_vectors(tx, model, [(owner, owner_id, 0, DATA) for owner, owner_id in owners])


def store_note(store: Store, *owners: Owner) -> None:
    chunks = [
        NoteChunk(heading="Head", text="a note", start_line=1, stop_line=1, owner=owner)
        for owner in owners or [Owner()]
    ]
    with store.transaction() as tx:
        put_note(tx, NoteRow(id=0, source="N.md", path="/n", size=1, changed_at_ns=1, digest=b"d"), chunks)


def test_memories_get_their_vectors_first_then_notes_then_the_newest_passages(
    store: Store, keep: Callable[..., Memory]
) -> None:
    store_turn(store, make_turn("t1", "why?", "because"))
    store_note(store)
    keep("a memory")

    missing = vector_rows.missing_vectors(store, "m", 9)

    assert [(row.owner, row.text, row.prompt) for row in missing] == [
        ("e", "a memory", ""),
        ("n", "Head: a note", ""),
        ("p", "assistant: because", "why?"),
        ("p", "user: why?", ""),
    ]
    assert [row.owner for row in vector_rows.missing_vectors(store, "m", 2)] == ["e", "n"]


def test_a_vector_of_another_model_is_missing_and_is_replaced(store: Store, keep: Callable[..., Memory]) -> None:
    made = keep("a memory")
    put(store, ("e", made.id), model="old")
    assert [len(vector_rows.missing_vectors(store, model, 9)) for model in ("old", "new")] == [0, 1]

    put(store, ("e", made.id), model="new")

    assert vector_rows.missing_vectors(store, "new", 9) == []
    assert load_vectors(store, "e", "old") == []
    assert load_vectors(store, "e", "new") == [(made.id, 0, DATA)]
    assert vector_rows.count_vectors(store, "e") == 1


def test_a_vector_of_a_row_that_is_gone_is_left_out(store: Store, keep: Callable[..., Memory]) -> None:
    made = keep("a memory")

    put(store, ("e", made.id), ("e", 99), ("p", 99), ("n", 99))

    assert [vector_rows.vector_owner_ids(store, owner) for owner in "epn"] == [[made.id], [], []]
    assert vector_rows.vectors_of(store, "e", "m", [99, made.id]) == [(made.id, 0, DATA)]


def test_each_vector_names_the_project_that_may_see_it(store: Store, keep: Callable[..., Memory]) -> None:
    project_id = store_project(store, "a").id
    own = keep("own", project_id=project_id, scope=Scope.PROJECT)
    everyones = keep("everyone's", project_id=project_id)
    store_turn(store, make_turn("t1", "why?"))
    store_note(store, Owner(), Owner("project", "a"))
    put(store, ("e", own.id), ("e", everyones.id), ("p", 1), ("n", 1), ("n", 2))

    def projects(owner: str) -> list[int | None]:
        return [project_id for _, _, project_id, *_ in vector_rows.vectors_since(store, owner, "m", 0, 9)]

    assert projects("e") == [project_id, None]
    assert projects("p") == [project_id]
    assert projects("n") == [None, project_id]


def test_only_what_is_new_is_read_in_order_and_in_parts(store: Store, keep: Callable[..., Memory]) -> None:
    ids = [keep(f"memory {number}").id for number in range(3)]
    put(store, *(("e", row_id) for row_id in ids))
    first = vector_rows.vectors_since(store, "e", "m", 0, 2)

    put(store, ("e", ids[0]))
    rest = vector_rows.vectors_since(store, "e", "m", first[-1][0], 9)

    assert [row_id for _, row_id, *_ in first] == ids[:2]
    assert [row_id for _, row_id, *_ in rest] == [ids[2], ids[0]], "one that is written again is new"
    assert vector_rows.last_vector_seq(store) == rest[-1][0]


def test_the_watermark_moves_with_each_thing_to_embed(store: Store, keep: Callable[..., Memory]) -> None:
    marks = [vector_rows.embeddable_watermark(store)]
    store_turn(store, make_turn("t1", "why?"))
    marks.append(vector_rows.embeddable_watermark(store))
    keep("a memory")
    marks.append(vector_rows.embeddable_watermark(store))
    store_note(store)
    marks.append(vector_rows.embeddable_watermark(store))

    assert len(set(marks)) == 4


def test_all_vectors_of_an_owner_come_in_batches_with_the_pieces_of_a_row_together(
    store: Store, keep: Callable[..., Memory]
) -> None:
    made = [keep(f"memory {number}").id for number in range(5)]
    put(store, *(("e", row_id) for row_id in made))
    with store.transaction() as tx:
        vector_rows.put_vectors(tx, "m", [("e", made[1], 1, DATA)])

    batches = list(vector_rows.vector_batches(store, "e", "m", 2))

    assert [[(row_id, piece) for row_id, piece, _ in batch] for batch in batches] == [
        [(made[0], 0), (made[1], 0), (made[1], 1)],
        [(made[2], 0)],
        [(made[3], 0), (made[4], 0)],
    ]
    assert list(vector_rows.vector_batches(store, "e", "another", 2)) == []
    assert list(vector_rows.vector_batches(store, "n", "m", 2)) == []
