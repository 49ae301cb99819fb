"""Frames, statements, seals and phrases: what is read is what was written, and nothing else is read."""

from __future__ import annotations

import dataclasses
import json
import zlib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engram.errors import BadRequest
from engram.hub.client.connection import check_url
from engram.hub.protocol.frames import (
    NO_PUSH,
    Answers,
    Page,
    Push,
    Row,
    WrongKey,
    key_id_of,
    new_key,
    open_body,
    pack_answers,
    pack_page,
    pack_push,
    read_body,
    seal_body,
    unpack_answers,
    unpack_page,
    unpack_push,
    unwrap_keys,
    wrap_keys,
)
from engram.hub.protocol.requests import Membership, code_text, key_of, new_code, phrase_of, split_code
from engram.hub.protocol.statements import FIELDS, NewerFormat, Stamp, Statement, decode, encode, join, next_clock

ROW = Row(author=3, memory_id=b"12345678", device=4, hlc=5 << 16, version=6, is_forgotten=False, body=b"body", seq=9)
REGISTERS = st.dictionaries(
    st.sampled_from(FIELDS), st.tuples(st.integers(0, 20), st.integers(0, 2), st.integers(0, 3)), max_size=6
)


def test_frames_carry_rows_there_and_back() -> None:
    page = Page((ROW, dataclasses.replace(ROW, is_forgotten=True, body=b"")), 9, 8, b"m" * 16)
    push = Push(7, b"p" * 16, NO_PUSH, (dataclasses.replace(ROW, seq=0),))
    answers = Answers((0, 1, 2), 9, b"m" * 16)

    assert unpack_page(pack_page(page)) == page
    assert unpack_push(pack_push(push)) == push
    assert unpack_answers(pack_answers(answers)) == answers


@given(st.binary(max_size=200), st.integers(0, 200))
def test_a_damaged_frame_is_refused_and_never_read_halfway(data: bytes, cut: int) -> None:
    whole = pack_page(Page((ROW,), 9, 8, b"m" * 16))
    for damaged in (data, whole[: min(cut, len(whole) - 1)], whole + data[:cut] + b"!"):
        with pytest.raises(BadRequest):
            unpack_page(damaged)


@given(REGISTERS, REGISTERS, REGISTERS)
def test_joining_gives_the_same_in_any_order_and_any_number_of_times(a: Any, b: Any, c: Any) -> None:
    def joined(*states: Any) -> dict[str, Any]:
        fields: dict[str, Any] = {}
        for state in states:
            fields |= join(fields, state)
            if "text" in fields:
                fields.pop("extracted", None)
        # Of equal stamps either value counts: a device gives each stamp once.
        return {name: register[:2] for name, register in fields.items()}

    assert joined(a, b, c) == joined(c, b, a) == joined(b, a, c, a, b)


#: What no machine writes: such a row is set aside, where it would stop every pull of its page.
STRANGE_BIRTHS = ({"cf": "high"}, {"c": None}, {"e": [1]}, {"p": ["one"]}, {"id": 5}, {"sl": []})


def test_a_statement_is_read_as_it_was_written_and_a_newer_format_is_distinguished() -> None:
    statement = Statement({"id": "ep_1"}, {"text": (5, 7, {"s": "ü"}), "mood": (6, 7, "new")})

    assert decode(encode(statement)) == statement
    assert decode(encode(statement)).unknown_fields == {"mood"}
    with pytest.raises(NewerFormat):
        decode(zlib.compress(json.dumps({"v": 2, "b": {}, "f": {}}).encode()))
    for bad in (
        b"",
        b"x",
        zlib.compress(b"{}"),
        zlib.compress(b" " * 2_000_000),
        zlib.compress(b'{"v":1,"b":[],"f":{}}'),
        *(zlib.compress(json.dumps({"v": 1, "b": birth, "f": {}}).encode()) for birth in STRANGE_BIRTHS),
        *(zlib.compress(json.dumps({"v": 1, "b": {}, "f": {name: [1, 1, 5.5]}}).encode()) for name in ("ends", "next")),
        zlib.compress(b'{"v":1,"b":{},"f":{"next":[1,1,"no id"]}}'),
    ):
        with pytest.raises(BadRequest):
            decode(bad)


def test_a_sealed_body_opens_in_its_own_place_alone() -> None:
    key = new_key()
    keys = {key_id_of(key): key}
    row = dataclasses.replace(ROW, body=seal_body(key, 7, ROW, b"words"))

    assert read_body(keys, 7, row, is_sealed=True) == b"words"
    assert b"words" not in row.body
    moved = [
        dataclasses.replace(row, **change)  # type: ignore[arg-type]
        for change in (
            {"author": 9},
            {"memory_id": b"87654321"},
            {"device": 9},
            {"hlc": 9},
            {"version": 9},
            {"is_forgotten": True},
            {"body": row.body[:-1] + bytes([row.body[-1] ^ 1])},
            {"body": open_body(b"forged")},
        )
    ]
    for other in moved:
        with pytest.raises(BadRequest):
            read_body(keys, 7, other, is_sealed=True)
    with pytest.raises(BadRequest):
        read_body(keys, 8, row, is_sealed=True)
    with pytest.raises(WrongKey):
        read_body({}, 7, row, is_sealed=True)
    assert len(seal_body(key, 7, ROW, b"a")) == len(seal_body(key, 7, ROW, b"a" * 100))


def test_phrases_and_codes_survive_how_people_type_them_and_a_slip_is_noticed() -> None:
    key = new_key()
    phrase = phrase_of(key)
    assert key_of(phrase.upper().replace(" ", "  ")) == key
    words = phrase.split()
    with pytest.raises(BadRequest, match="mistyped"):
        key_of(" ".join([words[1], words[0], *words[2:]]) if words[0] != words[1] else phrase[:-5])
    with pytest.raises(BadRequest, match="mistyped"):
        key_of("hello world")

    hub_half, key_half = new_code()
    text = code_text(hub_half, key_half)
    assert split_code(text.lower().replace("-", " ")) == (hub_half, key_half)
    wrong = text[:-1] + ("2" if text[-1] != "2" else "3")
    with pytest.raises(BadRequest, match="mistyped"):
        split_code(wrong)
    assert unwrap_keys(key_half, wrap_keys(key_half, b"keys")) == b"keys"
    with pytest.raises(WrongKey):
        unwrap_keys("other", wrap_keys(key_half, b"keys"))


def test_a_clock_never_goes_back() -> None:
    assert next_clock(10 << 16, 5) == (10 << 16) + 1
    assert next_clock(5 << 16, 10) == 10 << 16
    assert Stamp(5, 2) > Stamp(5, 1) > Stamp(4, 9)


@pytest.mark.parametrize(
    "url",
    ["http://hub.example.org", "ftp://x", "https://", "https://a:b@x", "https://x/?q=1", "x", "http://10.0.0.1"],
)
def test_an_address_that_would_leak_or_is_none_is_refused(url: str) -> None:
    with pytest.raises(BadRequest):
        check_url(url)


def test_loopback_may_be_asked_without_encryption() -> None:
    assert check_url("http://127.0.0.1:8750/") == "http://127.0.0.1:8750"
    assert check_url("https://Hub.Example.org/base/") == "https://hub.example.org/base"


def test_a_membership_is_read_by_programs_that_choose_no_token_and_by_those_that_look_for_one() -> None:
    made = Membership(3, "kay", 4, (), b"keys")

    assert Membership.from_json(made.to_json()) == made
    # Programs of version 0.1.0 look for the token that earlier hubs chose.
    assert made.to_json()["token"] == ""
