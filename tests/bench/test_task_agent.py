"""What an agent reports of its tokens."""

from __future__ import annotations

import json

import pytest

from bench.tasks.agent import reported_tokens

RESULT = {"type": "result", "usage": {"input_tokens": 10, "cache_read_input_tokens": 500, "output_tokens": 7}}


@pytest.mark.parametrize(
    ("output", "tokens"),
    [
        (json.dumps(RESULT), 517),
        (json.dumps(RESULT, indent=2), 517),
        ('{"type": "assistant"}\n' + json.dumps(RESULT) + "\n", 517),
        ('{"usage": {"output_tokens": 1}}\n' + json.dumps(RESULT), 517),
        ("I am done.\n", None),
        ('{"usage": null}', None),
        ("[1]", None),
        ("", None),
    ],
)
def test_tokens_are_those_of_the_last_report(output: str, tokens: int | None) -> None:
    assert reported_tokens(output) == tokens
