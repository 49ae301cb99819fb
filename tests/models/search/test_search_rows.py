"""What a search gets of memories and notes: those that exist and that the project may see."""

from __future__ import annotations

from collections.abc import Callable

from engram.enums import Importance, Scope, Status
from engram.models.engine.transaction import Store
from engram.models.memories.memory_records import Memory
from engram.models.projects.notes import NoteChunk, NoteRow, Owner, put_note
from engram.models.search import fulltext
from tests.models.conversations import make_turn, store_project, store_session, store_turn


def test_a_memory_comes_with_what_ranking_needs_and_a_missing_one_not_at_all(
    store: Store, keep: Callable[..., Memory]
) -> None:
    session = store_session(store, "s1")
    project_id = store_project(store, "a").id
    own = keep(
        "own", project_id=project_id, scope=Scope.PROJECT, session_id="s1", importance=Importance.HIGH, is_pinned=True
    )
    everyones = keep("everyone's", status=Status.ARCHIVED)

    rows = fulltext.search_rows(store, [everyones.id, 99, own.id])

    assert set(rows) == {own.id, everyones.id}
    assert (rows[own.id].is_global, rows[own.id].session_ref, rows[own.id].importance, rows[own.id].is_pinned) == (
        False,
        session.id,
        Importance.HIGH,
        True,
    )
    assert (rows[everyones.id].is_global, rows[everyones.id].session_ref, rows[everyones.id].status) == (
        True,
        0,
        Status.ARCHIVED,
    )


def test_a_chunk_of_a_note_is_seen_by_its_owners_project_alone(store: Store) -> None:
    own, other = store_project(store, "a"), store_project(store, "b")
    chunks = [
        NoteChunk(heading="All", text="for all", start_line=1, stop_line=1),
        NoteChunk(heading="A", text="for a", start_line=2, stop_line=2, owner=Owner("project", "a")),
    ]
    with store.transaction() as tx:
        put_note(tx, NoteRow(id=0, source="N.md", path="/n/N.md", size=9, changed_at_ns=1, digest=b"d"), chunks)

    def seen(project_id: int | None) -> list[tuple[str, str]]:
        return [(row.text, row.project) for row in fulltext.note_rows(store, [1, 2], project_id).values()]

    assert seen(None) == seen(own.id) == [("for all", ""), ("for a", "a")]
    assert seen(other.id) == [("for all", "")]


def test_each_index_tells_its_own_size(store: Store, keep: Callable[..., Memory]) -> None:
    store_turn(store, make_turn("t1", "said", "answered"))
    keep("kept")

    sizes = [fulltext.count_documents(store, table) for table in ("passage_fts", "episode_fts", "note_fts")]

    assert sizes == [2, 1, 0]
