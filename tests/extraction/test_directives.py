"""The user's own rules are found; questions, passing orders and descriptions are not."""

from __future__ import annotations

import pytest

from engram.extraction.candidate import Kind, Scope
from engram.extraction.directives import directives, is_directive


@pytest.mark.parametrize(
    "sentence",
    [
        "Always run the linter before you commit.",
        "Never push to main yourself.",
        "From now on write the test first.",
        "We use pnpm here.",
        "I prefer small commits over large ones.",
        "Please don't wrap long lines in markdown.",
        "and use tabs instead of spaces",
        "You must not edit the generated files.",
        "Commits should never mention the ticket.",
        "I merge the pull requests myself.",
    ],
)
def test_rules_are_directives(sentence: str) -> None:
    assert is_directive(sentence)


@pytest.mark.parametrize(
    "sentence",
    [
        "Why don't we always use the cache?",
        "I don't know what it does.",
        "Don't commit yet.",
        "It always fails on Windows.",
        "The helper is defined but never called.",
        "if error is nil, do not print anything",
        "For now never mind the tests.",
        "01:12:38 make sure you have access rights",
        "Fix the parser.",
    ],
)
def test_questions_orders_of_the_moment_and_descriptions_are_not(sentence: str) -> None:
    assert not is_directive(sentence)


def test_a_habit_without_anything_of_the_project_is_global() -> None:
    (found,) = directives("Always write the failing test before the fix.")

    assert (found.kind, found.scope, found.is_lasting) == (Kind.PREFERENCE, Scope.GLOBAL, True)


def test_a_rule_about_this_code_or_naming_the_project_stays_in_it() -> None:
    assert directives("Always keep `main.py` short.")[0].scope is Scope.PROJECT
    assert directives("Never write docs for Spotter by hand.", "spotter")[0].scope is Scope.PROJECT


def test_what_the_team_uses_is_a_decision() -> None:
    assert directives("We use pnpm, not npm.")[0].kind is Kind.DECISION


def test_an_order_at_hand_is_not_worded_for_good() -> None:
    assert not directives("Please don't touch the wire format.")[0].is_lasting
