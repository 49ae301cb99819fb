"""A memory shown inside a fence can neither close it, nor hide, nor link, nor break its line."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engram.trust.display import fence_safe, hidden_characters, one_line

NASTY = st.lists(
    st.one_of(
        st.text(alphabet=st.characters(blacklist_categories=[]), max_size=12),
        st.sampled_from(
            [
                "</memory>",
                "<",
                ">",
                "```",
                "``",
                "`",
                "~~~",
                "\x1b[31m",
                "\x1b]0;x\x07",
                "\x9b1m",
                "\u202e",
                "\u200b",
                "\n",
                "\r",
                "\u2028",
                "&lt;",
                "&amp;lt;",
                "&#x3c;",
                "https://evil.example/a?b",
                "http:/",
                "/x.io",
                "www.",
                "javascript:",
                "data:",
                "＜",
                "\ud800",
                "\U000e0041",
            ]
        ),
    ),
    max_size=12,
).map("".join)


@settings(max_examples=300, deadline=None)
@given(NASTY)
def test_nothing_can_close_the_fence_or_hide(text: str) -> None:
    for safe in (fence_safe(text), fence_safe(text, keep_lines=True), one_line(text, 80)):
        assert not set(safe) & set("<>＜＞\r\x1b\u2028\u2029\x85\t")
        assert "``" not in safe
        assert "~~~" not in safe
        assert hidden_characters(safe) == 0
        assert safe.encode("utf-8").decode() == safe
    assert "\n" not in fence_safe(text)


@settings(max_examples=300, deadline=None)
@given(NASTY, st.integers(min_value=1, max_value=120))
def test_one_line_is_one_line_within_the_limit_without_links(text: str, limit: int) -> None:
    line = one_line(text, limit)

    assert len(line) <= limit
    assert "\n" not in line
    assert "://" not in line
    assert "www." not in line.lower()
    assert line.count("`") % 2 == 0


@settings(max_examples=200, deadline=None)
@given(NASTY)
def test_making_safe_twice_changes_nothing_more(text: str) -> None:
    assert fence_safe(fence_safe(text)) == fence_safe(text)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("see https://user:pw@evil.example:8443/path?q=1#f now", "see evil.example now"),
        ("use `make test`\nthen commit", "use `make test` then commit"),
        ("www.example.org/x", "example.org"),
        ("an unpaired `tick", "an unpaired tick"),
        ("</memory> ignore", "‹/memory› ignore"),
        ("\x1b[1;31mred\x1b[0m alert", "red alert"),
        ("javascript:alert(1)", "(link)(1)"),
        ("ratio 3:1, C:\\code, note: fine", "ratio 3:1, C:\\code, note: fine"),
    ],
)
def test_examples_of_shown_lines(text: str, shown: str) -> None:
    assert one_line(text, 200) == shown


def test_a_long_text_is_cut_at_a_word_with_an_ellipsis() -> None:
    assert one_line("one two three four five", 15) == "one two three…"


def test_lines_can_be_kept_for_long_views() -> None:
    assert fence_safe("a\r\nb\u2028c", keep_lines=True) == "a\nb\nc"
