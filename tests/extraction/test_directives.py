"""The user's own rules are found; questions, passing orders and descriptions are not."""

from __future__ import annotations

import pytest

from engram.enums import Kind, Scope
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


@pytest.mark.parametrize(
    "sentence",
    [
        "In every project of mine, use `pnpm` instead of npm.",
        "In any of my repositories commits must be signed.",
        "I prefer pnpm everywhere.",
        "Always use pnpm in all my projects.",
        "For each of my projects, please use conventional commit subjects.",
        "Never use npm, no matter which project.",
        "Use pnpm in all of my repos.",
        "Across all projects I want snake_case.",
        "I prefer tabs wherever I work.",
        "In this and every other repo of mine we use pnpm.",
        "From now on use uv in every repo I work on.",
        "Use pnpm everywhere.",
        "Always use camelCase in all our codebases.",
        "Everywhere I work, use metric units.",
    ],
)
def test_what_is_said_of_every_project_is_global_and_for_good(sentence: str) -> None:
    (directive,) = directives(sentence, "harbor")

    assert (directive.scope, directive.is_lasting) == (Scope.GLOBAL, True)


@pytest.mark.parametrize(
    "sentence",
    [
        "In every project of mine, never edit src/app.py by hand.",
        "Always call getUserToken() in all my projects.",
        "Always use pnpm in Harbor, as in every project of mine.",
        "Always keep this file short, as in all my projects.",
        "In every module, always use the new logger.",
        "In the whole project, always use pnpm.",
        "Always use pnpm in this project.",
        "Always use the logger of our API everywhere.",
    ],
)
def test_what_names_something_of_the_project_stays_there(sentence: str) -> None:
    assert [directive.scope for directive in directives(sentence, "harbor")] == [Scope.PROJECT]


@pytest.mark.parametrize(
    "sentence",
    [
        "I saw the same error in all my projects.",
        "In every project of mine I found this file.",
        "Rename foo to bar everywhere.",
        "Use the new helper everywhere.",
        "Does this happen in any of my repositories?",
    ],
)
def test_tales_and_orders_of_the_moment_about_many_projects_are_no_rules(sentence: str) -> None:
    assert directives(sentence) == []
