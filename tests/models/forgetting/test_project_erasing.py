"""A project that is erased: what is its own goes, what others rest on stays, and what was said before never returns."""

from __future__ import annotations

from collections.abc import Callable

from engram.enums import Actor, Scope
from engram.models.engine.transaction import Store
from engram.models.forgetting import erase_project
from engram.models.memories.memory_history import history_of
from engram.models.memories.memory_records import Evidence, Memory, evidence_of, find_memory
from engram.models.memories.tombstones import forgotten_span, is_turn_forgotten
from engram.models.search import fulltext
from engram.models.sessions.stored_turns import load_turn
from engram.models.shown.injections import injections_of_session
from engram.system.clock import FixedClock
from tests.models.conversations import make_turn, store_project, store_turn


def test_memories_are_sorted_by_whether_they_go_stay_or_only_lose_support(
    store: Store, keep: Callable[..., Memory]
) -> None:
    here, there = store_project(store, "a"), store_project(store, "b")
    turn_id = store_turn(store, make_turn("t1", "said here"), "a")
    of_turn = [Evidence("t1", "s1", turn_id)]
    own = keep("own", project_id=here.id, scope=Scope.PROJECT)
    released = keep("released", project_id=here.id)
    supported = keep("supported", project_id=there.id, scope=Scope.PROJECT, evidence=of_turn)
    keep("unrelated", project_id=there.id, scope=Scope.PROJECT, evidence=[Evidence("other", "s9")])

    contents = erase_project.contents_of_project(store, here)

    assert [memory.episode_id for memory in contents.memories] == [own.episode_id]
    assert [memory.episode_id for memory in contents.released] == [released.episode_id]
    assert [memory.episode_id for memory in contents.supported] == [supported.episode_id]
    assert (contents.turn_ids, contents.session_ids) == ((turn_id,), ("s1",))


def test_only_what_was_said_until_a_time_is_counted(store: Store) -> None:
    early = store_turn(store, make_turn("t1", "early", at_ms=100))
    store_turn(store, make_turn("t2", "late", at_ms=200))

    contents = erase_project.contents_of_project(store, store_project(store, "a"), until_ms=100)

    assert contents.turn_ids == (early,)


def test_what_others_hold_of_a_project_is_taken_out_of_them(store: Store, keep: Callable[..., Memory]) -> None:
    here, there = store_project(store, "a"), store_project(store, "b")
    turn_id = store_turn(store, make_turn("t1", "said here"), "a")
    released = keep("everyone's", project_id=here.id, entities=("zebra",), questions=("Is it here?",))
    elsewhere = Evidence("other", "s9")
    supported = keep(
        "supported", project_id=there.id, scope=Scope.PROJECT, evidence=[Evidence("t1", "s1", turn_id), elsewhere]
    )

    with store.transaction() as tx:
        contents = erase_project.contents_of_project(tx, here)
        erase_project.release_memories(tx, contents, actor=Actor.USER)

    left = find_memory(store, released.episode_id)
    assert left is not None
    assert (left.summary, left.content, left.entities, left.questions) == ("everyone's", "", (), ())
    assert left.project_id is None
    assert evidence_of(store, supported.id) == [elsewhere]


def test_erased_turns_and_memories_leave_no_word_and_do_not_come_back(
    store: Store, keep: Callable[..., Memory]
) -> None:
    turn_id = store_turn(store, make_turn("t1", "the banana"))
    memory = keep("the banana", project_id=store_project(store, "a").id, scope=Scope.PROJECT)

    with store.transaction() as tx:
        erase_project.erase_turns(tx, [turn_id])
        erase_project.erase_memories(tx, [memory], actor=Actor.USER)

    assert fulltext.search_passages(store, ["banana"], 5) == fulltext.search_memories(store, ["banana"], 5) == []
    assert load_turn(store, "t1") is None
    assert is_turn_forgotten(store, "t1")
    assert history_of(store, memory.episode_id) == []
    assert injections_of_session(store, "s1") == []


def test_a_forgotten_project_is_carried_into_a_copy_once(
    store: Store, clock: FixedClock, keep: Callable[..., Memory]
) -> None:
    project = store_project(store, "a")
    other = store_turn(store, make_turn("t9", "elsewhere", session_id="s9"), "b")
    store_turn(store, make_turn("t1", "before", at_ms=clock.now_ms() - 1000))
    with store.transaction() as tx:
        until_ms = erase_project.note_forgotten_project(tx, project)
    marks = erase_project.forgotten_marks(store, [project.identity, "git:/never"])
    later = [(kind, key, at_ms + 1) for kind, key, at_ms in marks]

    with store.transaction() as tx:
        first = erase_project.carry_forgotten_projects(tx, later, actor=Actor.TIDYING)
        again = erase_project.carry_forgotten_projects(tx, later, actor=Actor.TIDYING)

    assert (first, again) == (1, 0)
    assert load_turn(store, "t1") is None
    assert erase_project.contents_of_project(store, store_project(store, "b")).turn_ids == (other,)
    assert forgotten_span(store, project.identity) == [(0, until_ms + 2)]
    assert forgotten_span(store, "git:/b") == forgotten_span(store, None) == []
