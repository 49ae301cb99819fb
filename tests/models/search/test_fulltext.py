"""Full-text search: no word of a user is syntax, no project sees another one's words, and figures are by stem."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from planting import plant

from engram.enums import Scope
from engram.models.engine.transaction import Store
from engram.models.memories.memory_records import Memory
from engram.models.search import fulltext
from tests.models.conversations import make_turn, store_project, store_turn


@pytest.mark.parametrize(
    "term", ['"', 'a" OR "b', "NEAR(x y)", "own:banana", "^banana*", "AND", "-banana", "(", "it's"]
)
def test_no_text_of_a_user_is_syntax(store: Store, term: str) -> None:
    store_turn(store, make_turn("t1", "the banana leaks"))

    assert isinstance(fulltext.search_passages(store, [term], 5), list)
    assert isinstance(fulltext.search_memories(store, [term, ("two", term)], 5, project_id=1), list)
    assert isinstance(fulltext.search_notes(store, [term], 5), list)


def test_a_term_of_several_words_matches_only_what_holds_all_of_them(store: Store) -> None:
    store_turn(store, make_turn("t1", "the banana leaks", session_id="s1"))
    store_turn(store, make_turn("t2", "the cherry leaks", session_id="s2"))

    assert len(fulltext.search_passages(store, ["leaks"], 5)) == 2
    assert len(fulltext.search_passages(store, [("leaks", "cherry")], 5)) == 1
    assert len(fulltext.search_passages(store, ["leaks"], 1)) == 1


def test_a_project_sees_its_own_words_and_global_memories_alone(store: Store, keep: Callable[..., Memory]) -> None:
    mine, theirs = store_project(store, "a"), store_project(store, "b")
    store_turn(store, make_turn("t1", "a banana here", session_id="s1"), "a")
    store_turn(store, make_turn("t2", "a banana there", session_id="s2"), "b")
    own = keep("banana of a", project_id=mine.id, scope=Scope.PROJECT)
    keep("banana of b", project_id=theirs.id, scope=Scope.PROJECT)
    everyones = keep("banana of all", project_id=theirs.id)

    assert len(fulltext.search_passages(store, ["banana"], 9)) == 2
    assert len(fulltext.search_passages(store, ["banana"], 9, project_id=mine.id)) == 1
    seen = fulltext.search_memories(store, ["banana"], 9, project_id=mine.id)
    assert {row_id for row_id, _ in seen} == {own.id, everyones.id}


def test_the_better_match_comes_first(store: Store, keep: Callable[..., Memory]) -> None:
    aside = keep("about the build", content="somewhere in a long text there is a lock among many other words " * 3)
    about = keep("the lock")

    scores = fulltext.search_memories(store, ["lock"], 9)

    assert [row_id for row_id, _ in scores] == [about.id, aside.id]
    assert scores[0][1] > scores[1][1]


def test_documents_are_counted_by_stem_and_words_without_letters_not_at_all(
    store: Store, keep: Callable[..., Memory]
) -> None:
    for number in range(3):
        keep(f"lock number {number}", content="")
    keep("locks and locking", content="")

    counts = fulltext.document_counts(store, "episode_fts", ["lock", "zebra", "!?"], 4)

    assert counts == {"lock": 4, "zebra": 0}


def test_indexes_that_lost_their_rows_are_created_again(store: Store, keep: Callable[..., Memory]) -> None:
    keep("the lock")
    store_turn(store, make_turn("t1", "the banana leaks"))
    for table in ("episode_fts", "passage_fts"):
        plant(store, f"INSERT INTO {table}({table}) VALUES ('delete-all')")
    assert fulltext.search_passages(store, ["banana"], 5) == []

    fulltext.rebuild_indexes(store)

    assert len(fulltext.search_passages(store, ["banana"], 5)) == 1
    assert len(fulltext.search_memories(store, ["lock"], 5)) == 1
    assert store.find_damage() == ""
