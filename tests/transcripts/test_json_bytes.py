"""``parse_json``: the same values as the standard library reads, for every kind of line that agents write."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from engram.transcripts.json_values import parse_json

#: 63 bits, since larger integers may come as floats.
_LEAVES = st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.floats() | st.text()
_VALUES = st.recursive(
    _LEAVES, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4)
)
#: More than the text that is parsed by the fast parser.
LONG = "word " * 20_000
PICTURE = "iVBORw0KGgo" * 10_000


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(_VALUES, st.booleans())
def test_value_is_as_the_standard_library_reads_it(value: Any, is_ascii: bool) -> None:
    text = json.dumps(value, ensure_ascii=is_ascii)
    assert repr(parse_json(text.encode("utf-8", "surrogatepass"))) == repr(
        json.loads(text.encode("utf-8", "surrogatepass").decode("utf-8", "replace"))
    )


@pytest.mark.parametrize(
    ("data", "value"),
    [
        (b'\xef\xbb\xbf{"a": 1}', {"a": 1}),
        (b'{"a": "\xff"}', {"a": "�"}),
        (b'{"a": "\\ud800"}', {"a": "\ud800"}),
        (b'{"a": 1, "a": 2}', {"a": 2}),
        (b'{"a": 1e999}', {"a": float("inf")}),
        (json.dumps({"text": LONG}).encode(), {"text": LONG}),
    ],
)
def test_unusual_text_is_read_by_the_standard_library(data: bytes, value: Any) -> None:
    assert parse_json(data) == value


@pytest.mark.parametrize("data", [b"", b"{", b"{} {}", '{"a": 1}'.encode("utf-16")])
def test_text_that_is_not_json_is_refused(data: bytes) -> None:
    with pytest.raises(ValueError, match="column"):
        parse_json(data)


def test_text_that_is_nested_too_deeply_is_refused() -> None:
    with pytest.raises(RecursionError):
        parse_json(b"[" * 100_000)


@pytest.mark.parametrize(
    ("key", "before"),
    [("data", ""), ("base64", ""), ("image_url", "data:image/png;base64,"), ("url", "data:image/jpeg;base64,")],
)
def test_picture_is_left_out_of_a_long_text(key: str, before: str) -> None:
    line = {"source": {"type": "base64", key: before + PICTURE}, "text": LONG}
    assert parse_json(json.dumps(line, separators=(",", ":")).encode()) == {
        "source": {"type": "base64", key: ""},
        "text": LONG,
    }


def test_words_about_a_picture_stay_as_they_are() -> None:
    line = {"text": f'"data":"{PICTURE}"', "data": f"{PICTURE} and words", "id": PICTURE}
    assert parse_json(json.dumps(line, separators=(",", ":")).encode()) == line
