"""Failing commands are found by what their errors have in common, and go with their turns."""

from __future__ import annotations

import pytest

from engram.enums import Actor
from engram.models.engine.transaction import Store
from engram.models.forgetting.erase_entries import erase_words
from engram.models.sessions.failures_and_commits import earlier_failures, failed_programs, turns_from
from engram.models.sessions.turn_changes import delete_turn, withdraw_turn
from engram.transcripts.turns import Action, EntryRef
from tests.models.conversations import make_turn, store_project, store_turn

KEYS = (11, 22, 2**55)


def failing(command: str = "go test ./...", keys: tuple[int, ...] = KEYS, uuid: str = "c1") -> Action:
    return Action(tool_use_id="", tool="Bash", uuid=uuid, command=command, is_error=True, error_keys=keys)


def count_rows(store: Store) -> int:
    return int(store.value("SELECT count(*) FROM failed_call"))


def test_a_failure_is_found_by_each_of_its_keys_in_its_own_project(store: Store) -> None:
    ours = store_turn(store, make_turn("t1", "why?", actions=(Action("", "Read"), failing())))
    store_turn(store, make_turn("t2", "why?", session_id="s2", actions=(failing(),)), project="b")

    (found,) = earlier_failures(store, store_project(store, "a").id, [22, 2**55, 33])

    assert (found.turn_id, found.seq, found.session_id) == (ours, 1, "s1")
    assert (found.programs, found.shared_keys) == ({"go test"}, {22, 2**55})
    assert earlier_failures(store, store_project(store, "a").id, [33]) == []


def test_the_programs_that_failed_in_other_sessions_are_listed_once(store: Store) -> None:
    for number, command in enumerate(["go test ./...", "go test -v", "bun run lint && bun run test", "ls | wc -l"]):
        store_turn(store, make_turn(f"t{number}", "why?", session_id=f"s{number}", actions=(failing(command),)))
    project_id = store_project(store, "a").id

    assert failed_programs(store, project_id, "s2") == ["go test"]
    assert failed_programs(store, project_id, "new") == ["bun run lint", "bun run test", "go test"]


def test_a_turn_that_grows_has_each_failure_once(store: Store) -> None:
    store_turn(store, make_turn("t1", "why?", actions=(failing(),)))
    store_turn(store, make_turn("t1", "why?", "so", actions=(failing(), failing("make", (7,), "c2"))))

    assert count_rows(store) == len(KEYS) + 1
    assert failed_programs(store, store_project(store, "a").id, "") == ["go test", "make"]


@pytest.mark.parametrize("remove", ["withdraw", "delete"])
def test_a_turn_that_goes_takes_its_failures_along(store: Store, remove: str) -> None:
    row_id = store_turn(store, make_turn("t1", "why?", actions=(failing(),)))

    with store.transaction() as tx:
        if remove == "withdraw":
            withdraw_turn(tx, "t1")
        else:
            delete_turn(tx, row_id)

    assert count_rows(store) == 0
    assert store.find_damage() == ""


def test_a_forgotten_call_is_no_longer_a_failure_and_the_others_keep_their_places(store: Store) -> None:
    entries = (EntryRef("t1", 0, 5, 1), EntryRef("c1", 10, 5, 2), EntryRef("c2", 20, 5, 3))
    actions = (failing(), failing("make", (7,), "c2"))
    row_id = store_turn(store, make_turn("t1", "why?", actions=actions, entries=entries))

    with store.transaction() as tx:
        erase_words(tx, ["c1"], actor=Actor.USER)

    (left,) = earlier_failures(store, store_project(store, "a").id, [*KEYS, 7])
    assert (left.seq, left.shared_keys) == (0, {7})
    (turn,) = turns_from(store, row_id, 4)
    assert turn.turn.actions[left.seq].command == "make"


def test_the_turns_after_a_failure_are_those_of_its_transcript_in_order(store: Store) -> None:
    ids = [
        store_turn(store, make_turn(f"t{offset}", "why?", start_offset=offset, end_offset=offset + 9))
        for offset in (20, 0, 10, 30)
    ]
    store_turn(store, make_turn("other", "why?", session_id="s2", start_offset=25))

    assert [turn.id for turn in turns_from(store, ids[2], 2)] == [ids[2], ids[0]]
    assert [turn.id for turn in turns_from(store, ids[2], 9)] == [ids[2], ids[0], ids[3]]
