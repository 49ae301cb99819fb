"""Titles: what is written is kept if it is one, and any other text is cut where a clause ends."""

from __future__ import annotations

import pytest
from counted_calls import calls_of

from engram.text import titles
from engram.text.titles import MAX_TITLE_CHARACTERS, MAX_TITLE_WORDS, clean_title, headline, title_from
from tests.each_case import each_case


@each_case(
    ("text", "title"),
    [
        ("Footnotes are numbered from 0 again, because the export counts so", "Footnotes are numbered from 0 again"),
        ("Dead end: caching by path failed because the mtime is coarse", "caching by path failed"),
        ("`f()` is called twice in each run: once per worker", "`f()` is called twice in each run"),
        ("`f()` is called twice: once per worker", "`f()` is called twice: once per worker"),
        (
            "Looks like here, the logos of all agents are cut off at the top.",
            "Looks like here, the logos of all agents are cut…",
        ),
        ("what I try to achieve is, a log that closes", "what I try to achieve is, a log that closes"),
        ("Hey Claude, could you please update these tests? They only take the latest.", "update these tests"),
        ("[Image #1] Please add a margin to the button.", "add a margin to the button"),
        ("The hook exits 0 (always)", "The hook exits 0"),
        ("Run `make test; make lint` before you push", "Run `make test; make lint` before you push"),
        ("All three `return e.last` calls stay. Later we see.", "All three `return e.last` calls stay"),
        ("Take it`s name from the file. Then go on.", "Take it`s name from the file"),
        (
            "The layers of the whole tree are listed in `tests/test_layers_of_the_whole_tree_and_more.py`.",
            "The layers of the whole tree are listed…",
        ),
        ("Use `a b c d e f g h i j k l` here", "Use a b c d e f g h…"),
        ("設定は`engram.settings.loading_of_settings`で読む", "設定はengram.settings.loading_o…"),
        ("```sh\nmake dock", "make dock"),
        ("```", "```"),
        ("fix it", "fix it"),
        ("# Plan: move the store\n\nIt takes three steps.", "Plan: move the store"),
        ("Implement the following plan:\n\n# Move the store to SQLite\n\n1. Copy.", "Move the store to SQLite"),
        ("設定ファイルはTOMLで書く。理由は読みやすさ。", "設定ファイルはTOMLで書く"),
        ("Use `3.11` or later. Older ones lack it.", "Use `3.11` or later"),
        ("", ""),
        ("https://example.org/a/issues/7#c-1 Find the cause of the flicker.", "Find the cause of the flicker"),
        ("https://example.org/run/8\n\nwhy did this job fail?", "why did this job fail?"),
        ("#7\nthe import is slow again", "the import is slow again"),
        ("https://example.org/a", "https://example.org/a"),
        ("Asked “Where are the plans stored?” the user chose: In Redis, for a week.", "Chosen: In Redis, for a week"),
        ("Asked “Which store?” the user answered: a file; nobody reads it.", "Chosen: a file; nobody reads it"),
        ("The user approved the plan “Move the store”: Copy it to SQLite first.", "Plan approved: Move the store"),
        ("The user approved the plan: Copy it to SQLite first, then switch.", "Plan approved: Copy it to SQLite first"),
        ("The user rejected the plan “Two stores” and said: “one is enough”", "Plan rejected: Two stores"),
        ("The user rejected the plan and said: “one store is enough”", "Plan rejected: one store is enough"),
        ("The user changed the plan “Two stores” and approved it.", "Plan approved: Two stores"),
        ("When the user refused a change of cfg.py, they said: “keep the old name”", "Refused: keep the old name"),
        ("Left open: write the docs; let it expire.", "Left open: write the docs"),
        (
            "Left open: the user asked “Why is `up` slow?” and stopped before it was done.",
            "Left open: Why is `up` slow?",
        ),
        ("Redis (one per user and day, one per host); no table.", "Redis (one per user and day, one per host)"),
        (
            "Left open: say “stop here. Go on” in the help. It is short.",
            "Left open: say “stop here. Go on” in the help",
        ),
        ("`make test` failed: The port was taken. It passed after a change of a.py.", "Fixed: The port was taken"),
        ("The user approved the plan.", "The user approved the plan"),
    ],
)
def test_a_title_is_the_first_clause(text: str, title: str) -> None:
    assert title_from(text) == title


@pytest.mark.parametrize("text", ["word " * 40, "x" * 400, "一" * 200, "a, " * 60, "(" * 200, "…" * 300])
def test_a_text_without_a_clause_is_cut_at_a_word(text: str) -> None:
    title = title_from(text)

    assert len(title.split()) <= MAX_TITLE_WORDS
    assert len(title) <= MAX_TITLE_CHARACTERS


@pytest.mark.parametrize(
    ("given", "title"),
    [
        (" The cache\nis Redis. ", "The cache is Redis"),
        ("Use Redis;", "Use Redis"),
        ("word " * 11, ""),
        ("x" * 91, ""),
        ("", ""),
    ],
)
def test_a_title_that_somebody_wrote_is_kept_if_it_is_short(given: str, title: str) -> None:
    assert clean_title(given) == title


@pytest.mark.parametrize(
    ("prompt", "title"),
    [
        ("Can you please fix the failing tests of the build?", "fix the failing tests of the build"),
        ("let's debug the queue of the importer", "debug the queue of the importer"),
        ("could you commit", "could you commit"),
        (
            "run several agents that review all changes of the branch and of its parent",
            "run several agents that review all changes of the branch…",
        ),
    ],
)
def test_a_title_leaves_out_courtesies_and_does_not_end_in_mid_phrase(prompt: str, title: str) -> None:
    assert title_from(prompt) == title


@pytest.mark.parametrize(
    ("prompt", "title"),
    [
        ("• by using this software you agree", "by using this software you agree"),
        ('"harbor list --agent" prints nothing at all', '"harbor list --agent" prints nothing at all'),
        ('harbor list --agent" prints nothing at all', "harbor list --agent prints nothing at all"),
        ('"The mast is oak."', "The mast is oak"),
        ('say "ahoy" to the "pilot"', 'say "ahoy" to the "pilot"'),
    ],
)
def test_a_title_has_no_bullet_and_no_unpaired_quote(prompt: str, title: str) -> None:
    assert title_from(prompt) == title


@pytest.mark.parametrize("line", ["é, ", "“a. ", "é because ", "`a. "])
def test_only_the_beginning_of_a_long_line_is_looked_at(line: str) -> None:
    calls = calls_of(lambda: title_from(line * (16_000 // len(line))), titles.__file__)

    assert calls < 8 * MAX_TITLE_CHARACTERS


@pytest.mark.parametrize("summary", ["Fix:", "# Decision:"])
def test_a_label_alone_is_a_line_of_its_own(summary: str) -> None:
    assert headline(summary) == (summary, "")


def test_the_rest_of_a_quotation_that_is_a_title_is_quoted() -> None:
    asked = "issue 7: Look at the mast of the boat and find why it leans. The last comment is relevant."

    title, rest = headline(f"Left open: the user asked “{asked}” and stopped before it was done")

    assert title.endswith("…")
    assert rest.count("“") == rest.count("”") == 1
    assert rest.endswith("” and stopped before it was done")
