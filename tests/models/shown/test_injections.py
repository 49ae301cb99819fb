"""The ledger of what a session was shown: nothing twice, nothing that was not, and anew once the context is cleared."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

from showing import show

from engram.models.engine.transaction import Store
from engram.models.shown import injections


def test_a_session_knows_what_it_was_shown_or_will_be_and_nothing_of_others(store: Store) -> None:
    show(store, "ep_1")
    show(store, "ep_2", state="pending")
    show(store, "ep_3", "s2")

    assert injections.injected_ids(store, "s1") == {"ep_1", "ep_2"}


def test_a_cleared_context_may_be_shown_everything_again_and_the_ledger_keeps_what_was(store: Store) -> None:
    show(store, "ep_1")
    show(store, "ep_2", "s2")
    injections.note_shown(store, "s1", "briefing", 40)

    injections.clear_ledger(store, "s1")

    assert injections.injected_ids(store, "s1") == set()
    assert injections.injected_ids(store, "s2") == {"ep_2"}
    assert [bite.episode_id for bite in injections.injections_of_session(store, "s1")] == ["ep_1"]
    assert injections.note_shown(store, "s1", "briefing", 40)


def test_what_came_too_late_for_its_prompt_is_dropped_and_what_was_given_later_stays(store: Store) -> None:
    show(store, "ep_1")
    show(store, "ep_2", prompt_key="p2")
    show(store, "ep_3", channel="tool")
    show(store, "ep_4", state="pending", channel="tool")

    with store.transaction() as tx:
        assert injections.drop_late(tx, "s1", "p1") == 2

    assert injections.injected_ids(store, "s1") == {"ep_2", "ep_3"}


def test_only_what_still_waits_is_shown_or_dropped(store: Store) -> None:
    show(store, "ep_1")
    show(store, "ep_2", state="pending")
    show(store, "ep_3", state="pending", prompt_key="p2")
    with store.transaction() as tx:
        assert injections.mark_shown(tx, "s1", "p2", store.now_ms() + 5000) == 1
        assert injections.drop_pending(tx, "s1") == 1

    assert [bite.episode_id for bite in injections.injections_of_session(store, "s1")] == ["ep_1", "ep_3"]


def test_of_briefings_that_race_one_is_shown(store: Store) -> None:
    barrier = Barrier(4)

    def shows(_: int) -> bool:
        barrier.wait()
        try:
            return injections.note_shown(store, "s1", "briefing", 40)
        finally:
            store.close()

    with ThreadPoolExecutor(4) as pool:
        won = list(pool.map(shows, range(4)))

    assert won.count(True) == 1
    assert [(what, tokens) for what, _, tokens in injections.shown_of_session(store, "s1")] == [("briefing", 40)]
