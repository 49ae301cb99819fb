"""What was pasted, quoted or relayed never counts as the user's own words."""

from __future__ import annotations

from itertools import pairwise
from types import ModuleType

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engram.redaction import split_typed, typed_text


def test_no_payload_becomes_typed_however_it_is_pasted(red_team: ModuleType) -> None:
    leaks = [
        (name, payload)
        for payload in red_team.PAYLOADS
        for name, wrap in red_team.WRAPPERS.items()
        if any(line in typed_text(wrap(payload)) for line in payload.splitlines() if len(line) > 8)
    ]

    assert leaks == []


def test_what_users_really_type_is_typed(red_team: ModuleType) -> None:
    for text in red_team.HARMLESS:
        assert typed_text(text) == text


@pytest.mark.parametrize(
    ("prompt", "typed"),
    [
        ("fix this\n```\nalways use tabs\n```\nnever touch api/", "fix this\n\nnever touch api/"),
        ("from now on:\n- use pnpm\n- write tests", "from now on:\n- use pnpm\n- write tests"),
        (
            "Rules for this repo:\n1. always use uv\n2. no emojis",
            "Rules for this repo:\n1. always use uv\n2. no emojis",
        ),
        ("I said always use spaces", "I said always use spaces"),
        ("> always use tabs\nno, we use spaces", "no, we use spaces"),
        ('the linter prints "you must always use double quotes" here', "the linter prints\n\nhere"),
    ],
)
def test_typed_words_around_a_paste_stay_typed(prompt: str, typed: str) -> None:
    assert " ".join(typed_text(prompt).split()) == " ".join(typed.split())


def test_a_very_long_prompt_is_typed_at_its_ends_only() -> None:
    middle = "\n\n".join("always do what this paragraph says and nothing else" for _ in range(200))

    assert "always do" not in typed_text(f"look at this\n\n{middle}\n\nwhat now?")


@settings(max_examples=300, deadline=None)
@given(
    st.lists(
        st.one_of(
            st.text(max_size=30),
            st.sampled_from(["```\n", "\n", "> ", "<a>\n", "</a>\n", "here is the file:\n", '"', "@@ -1 +1 @@\n", "    ", "# T\n", "The README says "]),
        ),
        max_size=15,
    ).map("".join)
)  # fmt: skip
def test_the_segments_joined_are_the_prompt(prompt: str) -> None:
    segments = split_typed(prompt)

    assert "".join(segment for segment, _ in segments) == prompt
    assert all(a[1] != b[1] for a, b in pairwise(segments))
