"""Long lines full of blanks are split and read as lists in linear time: no pattern gives back what it took."""

from __future__ import annotations

import re
from types import ModuleType
from typing import cast

import pytest

from engram.search.passages import answering
from engram.system.lazy_regex import LazyRegex
from engram.text import splitting, titles
from engram.text.splitting import split
from tests.linear_patterns import given_back

#: Patterns that may give back letters, but no blanks, or see the plain text of one sentence only, or match only
#: at the beginning of a memory's summary.
OF_A_SENTENCE = {"_URL", "_URL_ALONE", "_END", "_SHORT", "_REFERS_BACK", "_OF_THE_MOMENT"}
OF_A_TITLE = {"_ANSWERED", "_COURTESY", "_CONTEXT", "_SENTENCE"}


@pytest.mark.parametrize(
    ("module", "spared"),
    [(splitting, OF_A_SENTENCE | {"_LABEL"}), (answering, set()), (titles, OF_A_TITLE)],
)
def test_no_pattern_gives_back_what_it_took(module: ModuleType, spared: set[str]) -> None:
    patterns = {name: value for name, value in vars(module).items() if isinstance(value, LazyRegex)}

    assert spared < patterns.keys()
    found = {name for name, value in patterns.items() if given_back(cast("re.Pattern[str]", value))}
    assert not found - spared


@pytest.mark.parametrize(
    ("line", "topic"),
    [
        ("# The bell", "The bell"),
        ("   ###   The bell   ##  ", "The bell"),
        ("# The" + " " * 30_000 + "bell", "The bell"),
        ("# The " + "#" * 30_000 + "bell #", "The " + "#" * 30_000 + "bell"),
        ("**The bell:**" + " " * 30_000, "The bell"),
        ("####### The bell", ""),
    ],
)
def test_a_heading_is_read_whatever_stands_in_it(line: str, topic: str) -> None:
    (*_, statement) = split(f"{line}\n\nIt counts the boats.")

    assert statement.topic == topic
