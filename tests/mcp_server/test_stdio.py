"""The protocol by lines: what is answered, what is not, and when the server ends."""

from __future__ import annotations

import io
import json
import threading
from typing import Any

import pytest

from engram_mcp.stdio import MAX_LINE_BYTES, PROTOCOL_VERSIONS, InvalidParams, StdioServer, negotiate


def refuse(params: Any) -> dict[str, Any]:
    raise InvalidParams("no")


def exchange(*lines: bytes | dict[str, Any], **handlers: Any) -> list[dict[str, Any]]:
    """What a server writes for lines of input, sorted by id."""
    output = io.BytesIO()
    known = {"ping": lambda _: {}, "echo": dict, "refuse": refuse, **handlers}
    data = b"".join(line if isinstance(line, bytes) else json.dumps(line).encode() + b"\n" for line in lines)
    StdioServer(known, output).run(io.BytesIO(data))
    answers = [json.loads(line) for line in output.getvalue().splitlines()]
    assert all(answer["jsonrpc"] == "2.0" for answer in answers)
    return sorted(answers, key=lambda answer: str(answer["id"]))


def request(method: str, number: Any = 1, **params: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": number, "method": method, "params": params}


def test_each_request_is_answered_under_its_own_id() -> None:
    answers = exchange(request("echo", 1, text="a \u2028 \ud83d"), request("echo", "two", text="b"), request("ping", 3))

    assert [answer["id"] for answer in answers] == [1, 3, "two"]
    assert [answer["result"] for answer in answers] == [{"text": "a \u2028 \ud83d"}, {}, {"text": "b"}]


@pytest.mark.parametrize(
    ("line", "code"),
    [
        (b"{\n", -32700),
        (b"\xff\xfe\n", -32700),
        (b"[" * 5_000 + b"\n", -32700),
        (b"[]\n", -32600),
        (b"3\n", -32600),
        (b'{"id": 1}\n', -32600),
        (b'{"id": 1, "method": 7}\n', -32600),
        (b'{"id": 1, "method": "resources/list"}\n', -32601),
        (b'{"id": 1, "method": "refuse", "params": [1]}\n', -32602),
    ],
)
def test_what_is_no_request_gets_an_error_and_the_next_one_its_answer(line: bytes, code: int) -> None:
    answers = exchange(line, request("ping", 9))

    assert sorted(answer["error"]["code"] for answer in answers if "error" in answer) == [code]
    assert [answer["id"] for answer in answers if "result" in answer] == [9]


@pytest.mark.parametrize(
    "line",
    [
        {"jsonrpc": "2.0", "method": "notifications/initialized"},
        {"jsonrpc": "2.0", "method": "no/such/notification", "params": {}},
        {"jsonrpc": "2.0", "id": 5, "result": {}},
        {"jsonrpc": "2.0", "id": 5, "error": {"code": 1, "message": "x"}},
        b"\n",
        b"   \r\n",
    ],
)
def test_notifications_answers_and_empty_lines_are_not_answered(line: bytes | dict[str, Any]) -> None:
    assert exchange(line) == []


def test_a_long_call_delays_no_other_answer_and_is_finished_before_the_end() -> None:
    pinged = threading.Event()

    def slow(_: Any) -> dict[str, Any]:
        return {"was_pinged": pinged.wait(30)}

    def ping(_: Any) -> dict[str, Any]:
        pinged.set()
        return {}

    answers = exchange(request("slow", 1), request("ping", 2), slow=slow, ping=ping)

    assert [answer["result"] for answer in answers] == [{"was_pinged": True}, {}]


def test_a_cancelled_call_is_not_answered() -> None:
    go_on = threading.Event()

    def slow(_: Any) -> dict[str, Any]:
        go_on.wait(30)
        return {}

    def ping(_: Any) -> dict[str, Any]:
        go_on.set()
        return {}

    cancel = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}}
    answers = exchange(request("slow", 1), cancel, request("ping", 2), slow=slow, ping=ping)

    assert [answer["id"] for answer in answers] == [2]


def test_a_line_without_an_end_is_not_kept_in_memory() -> None:
    assert exchange(b"x" * (MAX_LINE_BYTES + 1), request("ping")) == []


@pytest.mark.parametrize("version", PROTOCOL_VERSIONS)
def test_a_known_version_is_taken(version: str) -> None:
    assert negotiate(version) == version


@pytest.mark.parametrize("version", ["2026-07-28", "1999-01-01", "", None, 7])
def test_for_any_other_version_the_latest_known_is_offered(version: object) -> None:
    assert negotiate(version) == PROTOCOL_VERSIONS[-1]
