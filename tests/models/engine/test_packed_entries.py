"""A turn's entries as they are stored."""

from __future__ import annotations

import uuid

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engram.errors import BrokenDatabase
from engram.models.engine.statement import entry_key, in_order, pack_entries, pack_text, unpack_entries, unpack_text
from engram.transcripts.turns import EntryRef

ENTRIES = st.lists(
    st.builds(
        EntryRef,
        st.one_of(
            st.uuids().map(str), st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1, max_size=40)
        ),
        st.integers(0, 2**40),
        st.integers(0, 2**31),
        st.integers(0, 2**31),
    ),
    max_size=30,
)


@given(ENTRIES)
@settings(deadline=None, max_examples=80)
def test_entries_come_back_in_the_order_of_the_file(entries: list[EntryRef]) -> None:
    ordered = in_order(entries)

    found = unpack_entries(pack_entries(ordered))

    assert [(e.offset, e.length, e.line) for e in found] == [(e.offset, e.length, e.line) for e in ordered]
    assert [entry_key(e.uuid) for e in found] == [entry_key(e.uuid) for e in ordered]


def test_an_entry_of_a_usual_turn_takes_little_more_than_its_uuid() -> None:
    entries, offset = [], 0
    for number in range(40):
        length = 700 + 137 * number % 900
        entries.append(EntryRef(str(uuid.UUID(int=number * 7919 << 64 | number)), offset, length, number + 1))
        offset += length + 1

    assert len(pack_entries(entries)) < 40 * 22
    assert unpack_entries(pack_entries(entries)) == tuple(entries)


def test_no_entries_are_none() -> None:
    assert unpack_entries(b"") == ()
    assert unpack_entries(pack_entries([])) == ()


def test_damaged_entries_are_told_as_such() -> None:
    with pytest.raises(BrokenDatabase, match="damaged"):
        unpack_entries(b"\xff\xff\xff")


@given(st.text(st.characters(exclude_categories=["Cs"]), max_size=2000))
@settings(deadline=None, max_examples=60)
def test_a_text_comes_back_as_it_was(text: str) -> None:
    assert unpack_text(pack_text(text)) == text


def test_a_long_text_takes_less_room_and_a_damaged_one_is_told_as_such() -> None:
    packed = pack_text("the queue is a doorbell, nothing more; " * 40)

    assert isinstance(packed, bytes)
    assert len(packed) < 200
    with pytest.raises(BrokenDatabase, match="damaged"):
        unpack_text(packed[:-9])
