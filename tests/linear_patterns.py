"""Which patterns may take more than linear time: judged by their structure, not by a clock."""

from __future__ import annotations

import re
import re._constants as codes  # type: ignore[import-not-found]
import re._parser as parser  # type: ignore[import-not-found]
from collections.abc import Iterator
from typing import Any

#: A repeat of more than this that may give back what it took, with something behind it, is worse than linear.
MOST = 4_096


def given_back(pattern: re.Pattern[str]) -> list[int]:
    """The least number of each unbounded repeat in a pattern that something follows and that is not possessive."""
    return list(_given_back(parser.parse(pattern.pattern, pattern.flags)))


def _given_back(tree: Any, *, follows: bool = False) -> Iterator[int]:
    items = list(tree)
    for number, (code, value) in enumerate(items):
        behind = follows or number + 1 < len(items)
        if code in (codes.MAX_REPEAT, codes.MIN_REPEAT, codes.POSSESSIVE_REPEAT):
            least, most, inner = value
            if int(most) > MOST and behind and code is not codes.POSSESSIVE_REPEAT:
                yield least
            yield from _given_back(inner, follows=behind or int(most) > 1)
        elif code is codes.BRANCH:
            for branch in value[1]:
                yield from _given_back(branch, follows=behind)
        elif code is codes.SUBPATTERN:
            yield from _given_back(value[3], follows=behind)
        elif code is codes.ATOMIC_GROUP:
            yield from _given_back(value)
        elif code in (codes.ASSERT, codes.ASSERT_NOT):
            yield from _given_back(value[1])
