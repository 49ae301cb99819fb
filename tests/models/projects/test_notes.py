"""Notes as they were indexed: one set of chunks for each note, and every chunk seen by its owner's project alone."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from engram.enums import Scope
from engram.models.engine.transaction import Store
from engram.models.memories.memory_records import Memory
from engram.models.projects import notes
from engram.models.projects.notes import EVERYONE, NOBODY, NoteChunk, NoteRow, Owner
from engram.models.search import fulltext, vector_rows
from tests.models.conversations import store_project, store_session


def put(store: Store, text: str, *, source: str = "NOTES.md", owner: Owner = EVERYONE) -> None:
    note = NoteRow(id=0, source=source, path=f"/n/{source}", size=9, changed_at_ns=1, digest=b"d")
    with store.transaction() as tx:
        notes.put_note(tx, note, [NoteChunk(heading="", text=text, start_line=1, stop_line=1, owner=owner)])


def test_a_note_that_is_put_again_has_its_new_words_alone(store: Store) -> None:
    put(store, "the banana")
    with store.transaction() as tx:
        vector_rows.put_vectors(tx, "m", [("n", 1, 0, b"\0\0")])

    put(store, "the cherry")

    assert fulltext.search_notes(store, ["banana"], 5) == []
    assert len(fulltext.search_notes(store, ["cherry"], 5)) == 1
    assert vector_rows.count_vectors(store, "n") == 0
    assert (notes.count_notes(store), store.find_damage()) == ((1, 1), "")


def test_a_note_is_dropped_with_every_trace_and_others_stay(store: Store) -> None:
    put(store, "the banana", source="A.md")
    put(store, "the cherry", source="B.md")

    with store.transaction() as tx:
        notes.drop_note(tx, "A.md")
        notes.drop_note(tx, "never seen.md")

    assert [note.source for note in notes.list_notes(store)] == ["B.md"]
    assert fulltext.search_notes(store, ["banana"], 5) == []
    assert store.find_damage() == ""


@pytest.mark.parametrize(
    ("owner", "is_seen_by_own", "is_seen_by_other"),
    [
        (EVERYONE, True, True),
        (NOBODY, False, False),
        (Owner("session", "s1"), True, False),
        (Owner("session", "never seen"), False, False),
        (Owner("project", "a"), True, False),
        (Owner("memory", "own"), True, False),
        (Owner("memory", "global"), True, True),
        (Owner("memory", "ep_000000000000"), False, False),
    ],
)
def test_the_owner_decides_who_sees_a_chunk_and_search_agrees(
    store: Store, keep: Callable[..., Memory], owner: Owner, is_seen_by_own: bool, is_seen_by_other: bool
) -> None:
    own, other = store_project(store, "a"), store_project(store, "b")
    store_session(store, "s1", "a")
    memories = {
        "own": keep("own", project_id=own.id, scope=Scope.PROJECT).episode_id,
        "global": keep("global", project_id=own.id).episode_id,
    }
    owner = Owner(owner.kind, memories.get(owner.key, owner.key))
    put(store, "the banana", owner=owner)

    for project, is_seen in ((own, is_seen_by_own), (other, is_seen_by_other)):
        assert notes.is_seen_by(store, owner, project.id) is is_seen
        assert bool(fulltext.search_notes(store, ["banana"], 5, project_id=project.id)) is is_seen
