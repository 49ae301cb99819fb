"""A line may hold more or less than one record: every whole record is read, and only the rest counts as unreadable."""

from __future__ import annotations

import json
from typing import Any

import pytest

from engram.transcripts.claude_code.entry import RECORDS, parse_line
from engram.transcripts.codex import entry as codex
from engram.transcripts.gemini.agent import Chat
from engram.transcripts.growing_file import Line
from engram.transcripts.line_parsing import parse_lines


def record(uuid: str, text: str = "go", **fields: Any) -> bytes:
    """A prompt of Claude Code as a line without its end."""
    message = {"role": "user", "content": text}
    return json.dumps(
        {"parentUuid": None, "uuid": uuid, "sessionId": "s", "type": "user", "message": message} | fields,
        separators=(",", ":"),
    ).encode()


WHOLE, OTHER = record("u1"), record("u2", 'she said "}{" and {"type": "user"}')
#: Lines that are not parsed as a rule.
PROGRESS = json.dumps(
    {"type": "progress", "data": {"message": {"type": "user", "uuid": "inner", "message": {"content": "no"}}}},
    separators=(",", ":"),
).encode()
TORN = WHOLE[: len(WHOLE) // 2]
BLOCK = b'{"parentUuid":null,"type":"assistant","message":{"content":[{"type":"text","text":"half"}'


def read(data: bytes) -> tuple[list[str], list[bytes]]:
    """The uuids of the records on a line, and the parts that count as unreadable."""
    begin = 1000
    entries, unreadable = parse_lines([Line(begin, len(data), 7, data)], parse_line, RECORDS)
    for entry in entries:
        place = data[entry.offset - begin :][: entry.length]
        assert json.loads(place)["uuid"] == entry.uuid
        assert entry.line == 7
    return [entry.uuid for entry in entries], [data[bad.offset - begin :][: bad.length] for bad in unreadable]


@pytest.mark.parametrize(
    ("name", "data", "uuids", "rest"),
    [
        ("two records", WHOLE + OTHER, ["u1", "u2"], []),
        ("three records with blanks", WHOLE + b"  " + OTHER + record("u3") + b"\r", ["u1", "u2", "u3"], []),
        ("a torn one before", TORN + OTHER, ["u2"], [TORN]),
        ("a torn one behind", WHOLE + TORN, ["u1"], [TORN]),
        ("two torn ones before", TORN + TORN + OTHER, ["u2"], [TORN + TORN]),
        ("a torn one between", WHOLE + TORN + OTHER, ["u1", "u2"], [TORN]),
        ("torn behind a part of its content", BLOCK + WHOLE, ["u1"], [BLOCK]),
        ("zero bytes before", b"\0" * 5000 + WHOLE, ["u1"], []),
        ("zero bytes between", WHOLE + b"\0" * 9 + OTHER + b"\0", ["u1", "u2"], []),
        ("zero bytes alone", b"\0" * 5000, [], []),
        ("zero bytes in a torn one", TORN + b"\0" * 9 + WHOLE, ["u1"], [TORN]),
        ("behind a line that is not parsed", PROGRESS + WHOLE, ["u1"], []),
        ("behind a torn line that is not parsed", PROGRESS[:40] + WHOLE, ["u1"], [PROGRESS[:40]]),
        ("words that are no JSON", b"Killed " + WHOLE, ["u1"], [b"Killed"]),
        ("bytes that are no UTF-8", b"\xff\xfe" + WHOLE + "é".encode()[:1], ["u1"], [b"\xff\xfe", b"\xc3"]),
        ("spaces in the record", b'{"a' + json.dumps(json.loads(WHOLE)).encode(), ["u1"], [b'{"a']),
        ("a torn one alone", TORN, [], [TORN]),
    ],
)
def test_every_whole_record_is_read(name: str, data: bytes, uuids: list[str], rest: list[bytes]) -> None:
    found, unreadable = read(data)

    assert (found, unreadable) == (uuids, rest), name


def test_a_record_within_a_torn_record_is_none() -> None:
    inner = {"type": "assistant", "uuid": "inner", "message": {"content": "words of another agent"}}
    whole = record("u1", data={"message": inner})
    for cut in range(1, len(whole)):
        assert read(whole[:cut])[0] == []
        assert read(whole[:cut] + OTHER)[0] == ["u2"]


def test_many_records_on_one_line_are_read_in_order() -> None:
    uuids = [f"u{number}" for number in range(600)]

    assert read(b"".join(record(uuid) for uuid in uuids)) == (uuids, [])


def test_a_long_torn_line_takes_no_time_to_give_up() -> None:
    data = b'{"parentUuid":' * 50_000

    assert read(data) == ([], [data])


@pytest.mark.parametrize(
    ("data", "is_whole"),
    [
        (WHOLE, True),
        (WHOLE + OTHER, True),
        (TORN + WHOLE, True),
        (b"\0\0" + WHOLE, True),
        (WHOLE + TORN, False),
        (TORN, False),
        (BLOCK, False),
        (b"\0\0", False),
        (b"12", False),
    ],
)
def test_a_last_line_without_its_end_is_whole_where_its_last_record_is(data: bytes, is_whole: bool) -> None:
    assert RECORDS.ends_whole(data) is is_whole


def test_rollouts_of_codex_are_read_in_the_same_way() -> None:
    def line(text: str) -> bytes:
        payload = {"type": "user_message", "message": text}
        return json.dumps({"timestamp": "2026-11-10T10:00:00Z", "type": "event_msg", "payload": payload}).encode()

    tokens = b'{"timestamp":"2026-11-10T10:00:00Z","type":"event_msg","payload":{"type":"token_count","info":null}}'
    data = tokens + line("one") + b'{"timestamp":"2026-' + line("two") + b"\0\0" + line("three") + tokens[:60]

    entries, unreadable = parse_lines([Line(0, len(data), 1, data)], codex.parse_line, codex.RECORDS)

    assert [entry.text for entry in entries] == ["one", "two", "three"]
    assert [data[bad.offset :][: bad.length] for bad in unreadable] == [b'{"timestamp":"2026-', tokens[:60]]


def test_chats_of_gemini_are_read_in_the_same_way() -> None:
    def line(name: str) -> bytes:
        return json.dumps(
            {"id": name, "timestamp": "2026-11-10T10:00:00Z", "type": "user", "content": [{"text": name}]}
        ).encode()

    chat = Chat("s")
    chat.add_lines(line("a") + line("b") + b"\n\0\0" + line("c") + b'\n{"id":"x' + line("d") + b"\n")

    assert [message.text for message in chat.messages()] == ["a", "b", "c", "d"]
    assert [bad.length for bad in chat.unreadable] == [8]
