"""How much of a question's telling words stand in a text, each weighed by how rare it is. Pure."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence

_SUFFIXES = ("ingly", "edly", "ation", "ing", "ies", "ed", "es", "ly", "s", "e")
_SHORTEST_STEM = 3


def stem(word: str) -> str:
    """A word without its ending, crudely; never shorter than three letters."""
    for suffix in _SUFFIXES:
        if word.endswith(suffix) and len(word) - len(suffix) >= _SHORTEST_STEM:
            return word[: -len(suffix)]
    return word


class Coverage:
    """The question's words with their weights, ready to be looked for in many texts."""

    def __init__(self, terms: Sequence[str], counts: Mapping[str, int], total: int) -> None:
        """``counts`` says in how many of ``total`` passages a term stands; what stands nowhere weighs nothing."""
        #: Terms that stand nowhere.
        self.unknown = frozenset(term for term in terms if not counts.get(term, 0))
        self._weights: dict[str, float] = {}
        for term in terms:
            count = counts.get(term, 0)
            if count:
                weight = math.log(1 + (total - count + 0.5) / (count + 0.5)) if total > count else 0.0
                self._weights[stem(term)] = max(weight, self._weights.get(stem(term), 0.0), 0.01)
        self._sum = sum(self._weights.values()) or 1.0
        parts = [re.escape(one) + ("" if len(one) >= _SHORTEST_STEM else r"\b") for one in self._weights]
        self._pattern = (
            re.compile(r"(?<![a-z0-9])(" + "|".join(sorted(parts, key=len, reverse=True)) + ")") if parts else None
        )

    def found_in(self, text: str) -> frozenset[str]:
        """The stems of the question that stand in a text."""
        if self._pattern is None:
            return frozenset()
        return frozenset(self._pattern.findall(text.lower()))

    def share(self, found: frozenset[str]) -> float:
        """Their weight as a share of the whole question's, from 0 to 1."""
        return sum(self._weights[one] for one in found) / self._sum
