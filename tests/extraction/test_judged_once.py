"""What the user typed is judged once: not again in a long session, and not line by line in a long list."""

from __future__ import annotations

from branch_sessions import Workshop
from counted_calls import calls_of

from engram.extraction import user_rules
from engram.extraction.extracting import extract_session
from engram.extraction.local.local_extractor import LocalExtractor
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
