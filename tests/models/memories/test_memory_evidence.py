"""What a memory rests on: no entry counts twice, every change is logged, and an undo drops only what it added."""

from __future__ import annotations

from collections.abc import Callable

from engram.enums import Actor
from engram.models import tables
from engram.models.engine.statement import pack_uuid
from engram.models.engine.transaction import Store
from engram.models.forgetting.erase_project import contents_of_project, release_memories
from engram.models.memories import memory_changes
from engram.models.memories.memory_history import history_of
from engram.models.memories.memory_records import Evidence, Memory, evidence_by_row, evidence_of
from engram.models.sessions import turn_changes
from tests.models.conversations import make_turn, store_project, store_turn

FIRST, SECOND, THIRD = (Evidence(letter * 32, "s1") for letter in "abc")


def steps(store: Store, memory: Memory) -> list[tuple[str, str, Actor]]:
    """(action, reason, actor) of each step after the first."""
    return [(step.action, step.reason, step.actor) for step in history_of(store, memory.episode_id)[1:]]


def test_only_new_entries_are_added_and_logged(store: Store, keep: Callable[..., Memory]) -> None:
    memory = keep("it rests", evidence=[FIRST])

    with store.transaction() as tx:
        was_added = memory_changes.add_evidence(tx, memory, [FIRST, SECOND], "said again", actor=Actor.MODEL)
        was_repeated = memory_changes.add_evidence(tx, memory, [SECOND], "said again", actor=Actor.MODEL)

    assert (was_added, was_repeated) == (True, False)
    assert evidence_of(store, memory.id) == [FIRST, SECOND]
    assert steps(store, memory) == [("evidence", "said again", Actor.MODEL)]
    (step,) = history_of(store, memory.episode_id)[1:]
    assert (step.before, step.after) == ({"count": 1}, {"count": 2})


def test_an_entry_without_uuid_supports_nothing(store: Store, keep: Callable[..., Memory]) -> None:
    memory = keep("it rests", evidence=[FIRST])

    with store.transaction() as tx:
        assert not memory_changes.add_evidence(tx, memory, [Evidence("", "s1")], "queued", actor=Actor.MODEL)

    assert evidence_of(store, memory.id) == [FIRST]


def test_a_merge_gives_the_kept_memory_what_the_other_rests_on(store: Store, keep: Callable[..., Memory]) -> None:
    kept, merged = keep("kept", evidence=[FIRST]), keep("merged", evidence=[FIRST, SECOND])

    with store.transaction() as tx:
        memory_changes.merge_evidence(tx, kept, merged, actor=Actor.TIDYING)

    assert evidence_of(store, kept.id) == [FIRST, SECOND]
    assert evidence_of(store, merged.id) == [FIRST, SECOND]
    assert steps(store, kept) == [("evidence", f"from {merged.episode_id}", Actor.TIDYING)]


def test_replaced_evidence_is_logged_once_and_only_if_it_differs(store: Store, keep: Callable[..., Memory]) -> None:
    memory = keep("it rests", evidence=[FIRST, SECOND])

    with store.transaction() as tx:
        for _ in range(2):
            memory_changes.replace_evidence(tx, memory, [THIRD], "its turn grew", actor=Actor.MODEL)

    assert evidence_of(store, memory.id) == [THIRD]
    assert steps(store, memory) == [("replace evidence", "its turn grew", Actor.MODEL)]


def test_forgotten_entries_leave_no_count_that_an_undo_could_go_by(store: Store, keep: Callable[..., Memory]) -> None:
    memory = keep("it rests", evidence=[FIRST])
    with store.transaction() as tx:
        memory_changes.add_evidence(tx, memory, [SECOND], "said again", actor=Actor.MODEL)
        is_first = tables.Evidence.uuid == pack_uuid(FIRST.uuid)
        memory_changes.forget_evidence(tx, memory, is_first, "forgotten", actor=Actor.USER)

    assert evidence_of(store, memory.id) == [SECOND]
    assert steps(store, memory) == [("erase", "forgotten", Actor.USER)]


def test_a_forgotten_projects_entries_go_and_others_stay(store: Store, keep: Callable[..., Memory]) -> None:
    turn_id = store_turn(store, make_turn("t1", "said in a", session_id="s7"), "a")
    of_turn = Evidence("d" * 32, "unknown session", turn_id)
    memory = keep("it rests", evidence=[FIRST, Evidence("e" * 32, "s7"), of_turn])

    with store.transaction() as tx:
        contents = contents_of_project(tx, store_project(store, "a"))
        release_memories(tx, contents, actor=Actor.USER)

    assert evidence_of(store, memory.id) == [FIRST]


def test_the_evidence_of_several_memories_is_read_at_once_in_the_order_of_each(
    store: Store, keep: Callable[..., Memory]
) -> None:
    one, other = keep("rests on two entries", evidence=[SECOND, FIRST]), keep("rests on one", evidence=[THIRD])

    evidence = evidence_by_row(store, [99, other.id, one.id])

    assert evidence == {one.id: [SECOND, FIRST], other.id: [THIRD]}
    assert evidence[one.id] == evidence_of(store, one.id)


def test_evidence_finds_its_turn_whichever_comes_first(store: Store, keep: Callable[..., Memory]) -> None:
    before = keep("recovered before its transcript is read", evidence=[Evidence("t1", "s1"), Evidence("gone", "s1")])
    synced = keep("from another machine", evidence=[Evidence("t1")])
    elsewhere = keep("of another session", evidence=[Evidence("t2", "s2")])

    turn_id = store_turn(store, make_turn("t1", "use tabs"))
    after = keep("recovered after it", evidence=[Evidence("t1", "s1")])

    turns = [[entry.turn_id for entry in evidence_of(store, one.id)] for one in (before, synced, elsewhere, after)]
    assert turns == [[turn_id, None], [None], [None], [turn_id]]


def test_evidence_does_not_go_over_to_the_turn_that_gets_the_id_of_a_deleted_one(
    store: Store, keep: Callable[..., Memory]
) -> None:
    turn_id = store_turn(store, make_turn("t1", "use tabs"))
    memory = keep("saved", evidence=[Evidence("t1", "s1", turn_id)])

    with store.transaction() as tx:
        turn_changes.withdraw_turn(tx, "t1")
    other = store_turn(store, make_turn("t2", "use spaces"))
    assert (other, evidence_of(store, memory.id)) == (turn_id, [Evidence("t1", "s1")])

    again = store_turn(store, make_turn("t1", "use tabs"))
    assert evidence_of(store, memory.id) == [Evidence("t1", "s1", again)]


def test_evidence_that_is_put_back_finds_its_turn_by_the_entry(store: Store, keep: Callable[..., Memory]) -> None:
    wrong = store_turn(store, make_turn("t0", "before a rebuild, this was another turn's id"))
    turn_id = store_turn(store, make_turn("t1", "use tabs"))
    memory = keep("it rests", evidence=[FIRST])

    with store.transaction() as tx:
        memory_changes.put_back_evidence(tx, memory.id, [["t1", "s1", wrong]])

    assert evidence_of(store, memory.id) == [FIRST, Evidence("t1", "s1", turn_id)]
