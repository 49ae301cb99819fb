"""Tombstones: which question each kind answers, and that they hold ids and never words."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import pytest

from engram.models.engine.statement import pack_uuid
from engram.models.engine.transaction import Store
from engram.models.memories import tombstones
from engram.models.memories.tombstones import Forgotten, TombstoneKind
from engram.system.clock import FixedClock

ENTRY = "11111111-2222-3333-4444-555555555555"
KEY = "ep_0123456789ab"


def bury(store: Store, kind: TombstoneKind, key: bytes) -> None:
    with store.transaction() as tx:
        tombstones.add_tombstones(tx, kind, [key])


@pytest.mark.parametrize(
    ("question", "answered_by"),
    [
        (partial(tombstones.is_memory_gone, with_purged=False), {TombstoneKind.MEMORY}),
        (tombstones.is_memory_gone, {TombstoneKind.MEMORY, TombstoneKind.PURGED}),
        (partial(tombstones.is_slot_gone, with_purged=False), {TombstoneKind.SLOT}),
        (tombstones.is_slot_gone, {TombstoneKind.SLOT, TombstoneKind.PURGED_SLOT}),
    ],
)
@pytest.mark.parametrize("kind", list(TombstoneKind))
def test_a_question_is_answered_by_its_kinds_alone(
    store: Store,
    question: Callable[[Store, str], bool],
    answered_by: set[TombstoneKind],
    kind: TombstoneKind,
) -> None:
    assert not question(store, KEY)

    bury(store, kind, KEY.encode())

    assert question(store, KEY) == (kind in answered_by)
    assert not question(store, "another")


@pytest.mark.parametrize(
    ("question", "answered_by"),
    [
        (tombstones.forgotten_entries, {TombstoneKind.ENTRY}),
        (tombstones.erased_entries, {TombstoneKind.ENTRY, TombstoneKind.WORDS}),
        (tombstones.barred_entries, {TombstoneKind.ENTRY, TombstoneKind.WORDS, TombstoneKind.EVIDENCE}),
    ],
)
@pytest.mark.parametrize("kind", list(TombstoneKind))
def test_entries_are_named_by_their_kinds_alone(
    store: Store,
    question: Callable[[Store, list[str]], set[str]],
    answered_by: set[TombstoneKind],
    kind: TombstoneKind,
) -> None:
    bury(store, kind, pack_uuid(ENTRY))

    assert question(store, ["another", "", ENTRY]) == ({ENTRY} if kind in answered_by else set())


def test_any_number_of_entries_can_be_asked_for(store: Store) -> None:
    bury(store, TombstoneKind.WORDS, pack_uuid(ENTRY))

    assert tombstones.erased_entries(store, [*(f"{number:032x}" for number in range(5_000)), ENTRY]) == {ENTRY}


def test_a_second_tombstone_leaves_the_time_of_the_first(store: Store, clock: FixedClock) -> None:
    bury(store, TombstoneKind.MEMORY, KEY.encode())
    at_ms = store.now_ms()
    clock.advance(100)

    bury(store, TombstoneKind.MEMORY, KEY.encode())

    assert store.rows("SELECT at_ms FROM tombstone") == [(at_ms,)]


def test_a_forget_bars_erased_words_and_evidence_apart(store: Store) -> None:
    other = ENTRY.replace("1", "9")

    with store.transaction() as tx:
        tombstones.add_entry_tombstones(tx, Forgotten(erased=(ENTRY,), barred=(other,)))

    assert tombstones.erased_entries(store, [ENTRY, other]) == {ENTRY}
    assert tombstones.barred_entries(store, [ENTRY, other]) == {ENTRY, other}
