"""What the user typed is judged once: not again in a long session, and not line by line in a long list."""

from __future__ import annotations

import random

import pytest
from branch_sessions import Workshop
from counted_calls import calls_of
from made_turns import Make

from engram.extraction import candidate, user_rules
from engram.extraction.candidate import ExtractionContext
from engram.extraction.extracting import extract_session
from engram.extraction.local.local_extractor import LocalExtractor, users_rules
from engram.trust.voice import split_typed


def test_an_extraction_judges_only_the_prompts_that_are_new(workshop: Workshop) -> None:
    def extract() -> None:
        extract_session(workshop.store, session, extractor=LocalExtractor(), embedder=None, settings=workshop.settings)

    for number in range(40):
        session = workshop.work("main", f"Look at part {number} of the cache. Never touch part {number + 1} of it.")
    extract()
    workshop.work("main", "Now look at the parser, and always say what you found.")

    assert 0 < calls_of(extract, user_rules.judge.__code__) < 10


def test_the_work_on_a_list_grows_with_its_lines() -> None:
    shorter, longer = ("".join(f"- use cache {number}\n" for number in range(length)) for length in (200, 800))

    assert all(is_typed for _, is_typed in split_typed(longer))
    assert calls_of(lambda: split_typed(longer)) < 6 * calls_of(lambda: split_typed(shorter))


def test_a_rule_is_compared_only_with_those_that_share_its_words(make: type[Make]) -> None:
    turns = [make.turn(f"Never use gadget{number} in part{number}.", key=f"t{number}") for number in range(240)]
    calls = [
        calls_of(lambda length=length: users_rules(turns[:length], ExtractionContext()), candidate.__file__)
        for length in (60, 240)
    ]

    assert len(users_rules(turns, ExtractionContext())) == 240
    assert calls[1] < 6 * calls[0]


@pytest.mark.parametrize("seed", range(40))
def test_statements_find_what_comparing_each_finds(seed: int) -> None:
    chance = random.Random(seed)
    words = "use never the cache 2 only for in don't tests".split()
    texts = [" ".join(chance.choices(words, k=chance.randint(0, 9))) for _ in range(60)]

    for number, text in enumerate(texts):
        expected = any(candidate.says_the_same(text, other) for other in texts[:number])

        assert candidate.Statements(texts[:number]).has_same(text) is expected
