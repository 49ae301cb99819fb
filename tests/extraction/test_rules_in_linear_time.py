"""Rules are found in proportion to the text: judged by structure and by what the patterns see, not by a clock."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest

from engram.extraction import rule_endings, rule_words, user_rules
from engram.text import languages, replacements, withdrawals
from tests.linear_patterns import given_back

#: Patterns that see texts of any length: those that part a prompt into sentences, and what an order makes.
OF_ANY_LENGTH = {
    "rule_words": ("STRUCK", "TO_DO", "PLAIN_LINE", "SOFT_END", "ABBREVIATION", "COMMAND", "KEEPS", "HASH"),
    "languages": ("_UNSPACED", "_FULL_STOP"),
    "withdrawals": (),
    "replacements": (),
}
#: Anchored, with an atomic group, it takes each of its ways through a paragraph once.
ANCHORED = "rule_words.ENUMERATION"
SIZE = 16_384
#: A pattern may see two sentences at once.
MOST = 2 * (user_rules.LONGEST + 10)


def patterns() -> Iterator[tuple[str, re.Pattern[str]]]:
    """All patterns for rules, by module and name."""
    for module in (rule_words, languages, withdrawals, replacements):
        for name, value in vars(module).items():
            for one in value if isinstance(value, tuple) else [value]:
                if hasattr(one, "pattern") and hasattr(one, "finditer"):
                    yield f"{module.__name__.rpartition('.')[2]}.{name}", one


def may_be_long(place: str) -> bool:
    module, _, name = place.partition(".")
    return name in OF_ANY_LENGTH[module] or place == ANCHORED


def test_no_pattern_for_texts_of_any_length_gives_back_an_unbounded_repeat() -> None:
    found = {place: given_back(pattern) for place, pattern in patterns() if may_be_long(place) and place != ANCHORED}

    assert len(found) == sum(len(names) for names in OF_ANY_LENGTH.values())
    assert not [place for place, repeats in found.items() if repeats]


@pytest.mark.parametrize(
    "prompt",
    [
        "Write a script for " + "a-" * SIZE,
        "Create a page for " + "-".join(f"step{number}" for number in range(3_000)),
        "Remember that " + "the agent " * (SIZE // 10),
        "Always use x, " + "don't never ? " * (SIZE // 14),
        "Für die Zukunft: " + "mit immer läuft auf " * (SIZE // 20),
        "用之前" * (SIZE // 3),
        "Build a bot. " + "e.g. " * (SIZE // 5),
        "- [x] a\n# " + "#  " * (SIZE // 3),
    ],
)
def test_every_other_pattern_sees_one_sentence_of_a_certain_length_at_most(
    prompt: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    longest: dict[str, int] = {}

    def spy(place: str, pattern: re.Pattern[str], method: str) -> None:
        original = getattr(pattern, method)

        def call(*args: Any) -> Any:
            text = args[1] if method == "sub" else args[0]
            longest[place] = max(longest.get(place, 0), len(text))
            return original(*args)

        monkeypatch.setattr(pattern, method, call)

    for place, pattern in patterns():
        for method in ("search", "match", "sub", "finditer", "findall", "split"):
            spy(place, pattern, method)
    user_rules.judge(prompt, following=prompt)
    rule_endings.takings_back(prompt)

    assert longest["rule_words.COMMAND"] > SIZE / 2
    assert not {place: size for place, size in longest.items() if size > MOST and not may_be_long(place)}


def test_a_very_long_sentence_is_not_a_rule_and_its_end_is_heeded() -> None:
    long = "Always use uv for " + "packages-and-" * 100
    (found,) = user_rules.judge(f"{long}more.")
    (asked,) = user_rules.judge(f"{long}more?")

    assert found.refusal is user_rules.RuleRefusal.LENGTH
    assert asked.refusal is user_rules.RuleRefusal.QUESTION
    assert not user_rules.rules(f"Scratch that, always use {'packages-and-' * 100}.")
    assert user_rules.rules("Scratch that, always use uv.")


def test_the_withdrawals_of_a_prompt_are_compared_with_its_rules_a_limited_number_of_times(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    compared: list[str] = []
    refuse = user_rules._refuse

    def counted(judged: Any, at: int, sentence: str, **options: Any) -> None:
        compared.append(sentence)
        refuse(judged, at, sentence, **options)

    monkeypatch.setattr(user_rules, "_refuse", counted)

    assert not user_rules.rules("Always use tabs. Forget what I said about squashing. " * 200)
    assert len(compared) <= 2 * user_rules.MOST_WITHDRAWALS
