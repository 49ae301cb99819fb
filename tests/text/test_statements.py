"""Messages are split into statements without losing their headings."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engram.text.splitting import Block, as_said, plain, sentences, split


def texts(message: str) -> list[str]:
    return [s.text for s in split(message)]


def test_a_paragraph_is_split_at_its_sentences_but_not_after_abbreviations() -> None:
    assert sentences("It fails, e.g. Monday. The `a. B` flag stays. Done.") == [
        "It fails, e.g. Monday.",
        "The `a. B` flag stays.",
        "Done.",
    ]


def test_a_bullet_knows_its_heading_and_the_line_that_introduces_it() -> None:
    (_, first, second) = split("## Retry policy\n\nWe changed two limits:\n- wait **30 s**\n- try 4 times\n")

    assert (first.text, first.topic, first.lead, first.block) == (
        "wait 30 s",
        "Retry policy",
        "We changed two limits",
        Block.BULLET,
    )
    assert second.group == first.group


def test_table_rows_become_statements_without_header_and_rule() -> None:
    assert texts("| Option | Cost |\n|---|---|\n| cache | low |\n| rebuild | high |") == [
        "cache — low",
        "rebuild — high",
    ]


def test_code_blocks_are_left_out_and_what_follows_is_kept() -> None:
    assert texts("Before it.\n```python\nx = 1\n```\nAfter it.") == ["Before it.", "After it."]


def test_an_unclosed_code_block_hides_the_rest_only() -> None:
    assert texts("Before it.\n```\nx = 1\n\nstill code") == ["Before it."]


def test_markup_links_and_addresses_go_but_names_in_backticks_stay() -> None:
    assert plain("**Use** [`__init__`](https://a.b/c) and *not* https://x.y/z `a*b*c`") == (
        "Use `__init__` and not `a*b*c`"
    )


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        ("Call main() before the loop.", "Call main() before the loop."),
        ("Use `foo()` and bar( ) together.", "Use `foo()` and bar( ) together."),
        ("An empty tuple is written ().", "An empty tuple is written ()."),
        ("It is documented (https://example.org/a).", "It is documented."),
        (
            "It went from `git@a.b:` to HTTPS (`https://a.b/`). Now",
            "It went from `git@a.b:` to HTTPS (`https://a.b/`). Now",
        ),
        ("Run `curl https://a.b/c -o d` or see https://a.b/e", "Run `curl https://a.b/c -o d` or see"),
        ("It is documented [here](https://example.org/f(x)).", "It is documented here."),
    ],
)
def test_parentheses_of_code_stay_and_those_of_an_address_go(message: str, expected: str) -> None:
    assert plain(message) == expected


def test_a_bullet_continues_over_indented_lines() -> None:
    assert texts("- the worker\n  holds the lock\n- next one") == ["the worker holds the lock", "next one"]


def test_a_statement_knows_the_line_it_begins_in() -> None:
    assert [s.line for s in split("One.\n\n- two\n- three\n\nFour.")] == [0, 2, 3, 5]


@settings(deadline=None, max_examples=60)
@given(st.text(alphabet=st.sampled_from("ab .-*#|`\n0:_[]()"), max_size=200))
def test_any_text_is_split_into_single_lines(text: str) -> None:
    for statement in split(text):
        assert "\n" not in statement.text
        assert statement.text.strip()


def test_long_runs_of_brackets_and_marks_stay_cheap() -> None:
    """Patterns that look ahead without a bound take minutes here; the suite's own limit would end them."""
    for piece in ("[", "[x](", "**", "`", "| ", "(", "_", "__a", "A. ", "`a. B"):
        assert len(split(piece * 20_000)) <= 20_000


@pytest.mark.parametrize(
    ("text", "sources", "said"),
    [
        ("We don't cache it.", ("We don’t cache it.",), "We don’t cache it."),
        ("We don't cache it.", ("We don't cache it.",), "We don't cache it."),
        (
            "The user's rule isn't the team's.",
            ("the user’s and the team's", "isn’t it"),
            "The user’s rule isn’t the team's.",
        ),
        ("The ‘lock' is held.", ("Is the ‘lock’ held?",), "The ‘lock’ is held."),
        ("L'été, c'est l'été", ("L’été, c’est l’été",), "L’été, c’est l’été"),
        ("`it's` and the boys' cache", ("the boys’ cache",), "`it's` and the boys’ cache"),
        ("No word of it.", ("don’t",), "No word of it."),
    ],
)
def test_kept_words_have_the_apostrophes_that_were_said(text: str, sources: tuple[str, ...], said: str) -> None:
    assert as_said(text, *sources) == said
