"""One line becomes an entry, nothing, or a reason; never an exception."""

from __future__ import annotations

import json
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engram.transcripts.agents import Unreadable
from engram.transcripts.claude_code.entry import Entry, Kind, parse_line, words_of
from engram.transcripts.growing_file import Line
from engram.transcripts.json_values import storable


def line(data: bytes) -> Line:
    return Line(0, len(data), 1, data)


def parse(value: object) -> Entry | Unreadable | None:
    return parse_line(line(json.dumps(value).encode()))


def entry(value: object) -> Entry:
    found = parse(value)
    assert isinstance(found, Entry)
    return found


USER = {"type": "user", "uuid": "u1", "timestamp": "2026-01-01T00:00:00Z", "message": {"role": "user", "content": "hi"}}


def test_the_fields_that_count_are_taken() -> None:
    found = entry(USER | {"cwd": "/p", "gitBranch": "main"})

    assert (found.kind, found.uuid, found.cwd, found.branch) == (Kind.USER, "u1", "/p", "main")
    assert found.at_ms == 1_767_225_600_000


PLAN_END = (
    "If you need specific details from before exiting plan mode (like exact code snippets, error messages, or content "
    "you generated), read the full transcript at: /home/ada/.claude/projects/-p/s1.jsonl"
)


@pytest.mark.parametrize(
    ("plan", "behind", "text"),
    [
        (
            "# Plan: Sort the winch\n\n1. Always sort.",
            PLAN_END,
            "Implement the following plan:\n\n# Plan: Sort the winch",
        ),
        ("Always validate the input.\n\nI will add a column.", PLAN_END, "Implement the following plan:"),
        (
            "From now on we use Redis.",
            f"Not on Fridays.\n\n{PLAN_END}",
            "Implement the following plan:\n\nNot on Fridays.",
        ),
        ("We use tabs.", "", "Implement the following plan:"),
    ],
)
def test_a_plan_that_the_user_approved_is_not_what_they_said(plan: str, behind: str, text: str) -> None:
    content = f"Implement the following plan:\n\n{plan}\n\n\n{behind}".rstrip()

    words = words_of(entry(USER | {"message": {"role": "user", "content": content}, "planContent": f"{plan}\n"}))

    assert words.is_prompt
    assert (words.text, words.beside) == (text, (plan,))


@pytest.mark.parametrize("plan", ["# Sort the winch\n\n1. Always sort.", "From now on we use Redis.", "We use tabs."])
def test_a_plan_that_an_older_version_does_not_name_is_none_either(plan: str) -> None:
    content = f"Implement the following plan:\n\n{plan}\n\n\n{PLAN_END}"

    words = words_of(entry(USER | {"message": {"role": "user", "content": content}}))

    assert words.beside == (plan,)
    assert words.text == "\n\n".join(["Implement the following plan:", *re.findall("^#.*", plan)])


def test_a_plan_that_a_person_typed_is_theirs() -> None:
    content = "Implement the following plan:\n\nAlways sort first."

    words = words_of(entry(USER | {"message": {"role": "user", "content": content}, "origin": {"kind": "human"}}))

    assert (words.text, words.beside) == (content, ())


@pytest.mark.parametrize("plan", [None, "", 7, "another plan", ["x"]])
def test_words_without_their_plan_stay_as_they_are(plan: object) -> None:
    words = words_of(entry(USER | {"planContent": plan}))

    assert (words.text, words.beside) == ("hi", ())


@pytest.mark.parametrize(
    "value",
    [
        {"type": "progress", "uuid": "x", "data": {}},
        {"type": "file-history-snapshot", "snapshot": {}},
        {"type": "api-request-blob", "value": {"role": "user", "type": "user", "content": "never a prompt"}},
        {"type": "something-of-next-year", "message": {"role": "user", "content": "never a prompt"}},
        {"message": {"role": "user", "content": "no type"}},
        {
            "parentUuid": None,
            "attachment": {"type": "hook_success", "stdout": "an injected memory"},
            "type": "attachment",
        },
        {"type": ["user"]},
    ],
)
def test_types_that_do_not_count_are_passed_over(value: object) -> None:
    assert parse(value) is None


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"{", "not JSON"),
        (b"\x00\x01\xff", "not JSON"),
        (b"null", "not a JSON object"),
        (b"[]", "not a JSON object"),
        (b'{"type":"user"} {"type":"user"}', "not JSON"),
        (b"[" * 100_000, "nested too deeply"),
        (b'{"a":' * 100_000 + b"1" + b"}" * 100_000, "nested too deeply"),
        (b'{"type":"user","n":' + b"9" * 5000 + b"}", "not JSON"),
        ('{"type":"user"}'.encode("utf-16"), "not JSON"),
    ],
)
def test_what_cannot_be_understood_has_a_reason(data: bytes, reason: str) -> None:
    assert parse_line(line(data)) == Unreadable(0, len(data), reason)


@pytest.mark.parametrize("data", [b"", b"   ", b"\t\r"])
def test_blank_lines_count_as_nothing(data: bytes) -> None:
    assert parse_line(line(data)) is None


def test_a_byte_order_mark_and_invalid_bytes_are_tolerated() -> None:
    found = parse_line(line(b"\xef\xbb\xbf" + b'{"type":"user","uuid":"u","message":{"content":"a\xff"}}'))

    assert isinstance(found, Entry)
    assert words_of(found).text == "a\ufffd"


def test_numbers_that_are_none_are_tolerated() -> None:
    found = parse_line(line(b'{"type":"user","uuid":"u","x":NaN,"y":1e999,"message":{"content":"a"}}'))

    assert isinstance(found, Entry)


def test_lone_surrogates_and_nul_become_replacement_characters() -> None:
    assert storable("a\ud800b\x00c") == "a\ufffdb\ufffdc"
    assert storable("päth \U0001f600") == "päth \U0001f600"


def test_fields_of_an_odd_type_are_empty() -> None:
    found = entry({"type": "user", "uuid": 5, "cwd": ["x"], "gitBranch": None, "timestamp": 12, "message": "text"})

    assert (found.uuid, found.cwd, found.branch, found.at_ms, found.message) == ("", "", "", None, {})


def test_an_overlong_uuid_is_not_believed() -> None:
    assert entry(USER | {"uuid": "u" * 1000}).uuid == ""


def test_the_second_copy_of_a_result_is_not_needed_and_not_trusted_to_be_last() -> None:
    nested = {"type": "assistant", "uuid": "a", "message": {"content": [{"x": 1, "toolUseResult": {"y": 2}}]}}
    usual = {"type": "user", "message": {"content": "kept"}, "uuid": "u", "timestamp": "t", "toolUseResult": {"a": 1}}
    early = {"type": "user", "x": 1, "toolUseResult": {"a": 1}, "message": {"content": "late"}, "uuid": "u"}

    compact = [parse_line(line(json.dumps(v, separators=(",", ":")).encode())) for v in (nested, usual, early)]

    assert [one.uuid for one in compact if isinstance(one, Entry)] == ["a", "u", "u"]
    assert [one.message["content"] for one in compact[1:] if isinstance(one, Entry)] == ["kept", "late"]


JSON = st.recursive(
    st.none() | st.booleans() | st.floats() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)
KEYS = st.sampled_from(
    ["type", "uuid", "message", "attachment", "timestamp", "cwd", "content", "operation", "origin", "isMeta", "agentId"]
)
VALUES = JSON | st.sampled_from(["user", "assistant", "system", "attachment", "queue-operation"])


@settings(max_examples=150, deadline=None)
@given(st.binary(max_size=200) | st.dictionaries(KEYS, VALUES).map(lambda d: json.dumps(d).encode()))
def test_no_bytes_raise(data: bytes) -> None:
    found = parse_line(line(data))

    if isinstance(found, Entry):
        words_of(found)
