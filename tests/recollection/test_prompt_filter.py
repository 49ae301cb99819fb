"""Which prompts are worth a look into the memory."""

from __future__ import annotations

import pytest

from engram.recollection.prompts import filter_prompt
from engram.text.words import MAX_QUERY_CHARS
from tests.each_case import each_case


@each_case(
    "prompt",
    [
        "",
        "  ",
        "yes",
        "Yes, please do.",
        "ok go on",
        "Go on!",
        "continue",
        "thanks, looks good",
        "do it",
        "let's go",
        "try again",
        "hi",
        "what's next?",
        "commit and push",
        "yep, that works, thank you very much",
        "/clear",
        "/compact now",
        "<task-notification>\n<task-id>7</task-id> parser finished the search</task-notification>",
        "<command-name>/model</command-name>",
        "[Request interrupted by user]",
        "[image]",
        None,
        7,
        ["flock"],
        "This session is being continued from a previous conversation that ran out of context.",
    ],
)
def test_nothing_is_searched_for(prompt: object) -> None:
    assert filter_prompt(prompt).text == ""


@pytest.mark.parametrize(
    ("prompt", "text"),
    [
        ("Why does the parser leak?", "Why does the parser leak?"),
        ("/review the parser of queued prompts", "the parser of queued prompts"),
        ("<ide_opened_file>x.py</ide_opened_file>fix the parser leak", "fix the parser leak"),
        ("look at src/watcher.py", "look at src/watcher.py"),
        ("readFile?", "readFile?"),
        ("データベース", "データベース"),
    ],
)
def test_what_a_person_typed_about_a_topic_is_searched_for(prompt: str, text: str) -> None:
    assert filter_prompt(prompt).text == text


def test_a_pasted_log_is_cut() -> None:
    assert len(filter_prompt("why does this fail? " + "parser error line " * 10_000).text) <= MAX_QUERY_CHARS
