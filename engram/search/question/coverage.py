"""How much of a question's terms a text contains, each term weighed by its rarity. Pure."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence

from engram.text.coverage_stem import MIN_STEM_CHARS, coverage_stem
from engram.text.unspaced import UNSPACED_LETTERS, is_unspaced

#: Where a short word ends; letters of scripts without spaces may follow.
_END = rf"(?![^\W{UNSPACED_LETTERS}])"
#: Weight of a term that occurs in every row.
_MIN_WEIGHT = 0.01


class Coverage:
    """The stems of a question's terms with their weights, ready to be matched against many texts."""

    def __init__(self, terms: Sequence[str], counts: Mapping[str, int], total: int) -> None:
        """Weigh each term by its inverse document frequency.

        Args:
            terms: the question's terms.
            counts: in how many of the ``total`` rows each term occurs; a term that never occurs has no weight.
            total: number of rows.
        """
        #: Terms that occur in no row.
        self.unknown_terms = frozenset(term for term in terms if not counts.get(term, 0))
        self._weights: dict[str, float] = {}
        for term in terms:
            count = counts.get(term, 0)
            if count:
                stem = coverage_stem(term)
                weight = math.log(1 + (total - count + 0.5) / (count + 0.5)) if total > count else 0.0
                self._weights[stem] = max(weight, self._weights.get(stem, 0.0), _MIN_WEIGHT)
        self._total_weight = sum(self._weights.values()) or 1.0
        self._unknown_weight = len(self.unknown_terms) * math.log(1 + (total + 0.5) / 0.5)
        #: Words of scripts without spaces, which stand anywhere in a run of letters.
        self._unspaced = [stem for stem in self._weights if is_unspaced(stem)]
        spaced = [stem for stem in self._weights if not is_unspaced(stem)]
        patterns = [re.escape(stem) + ("" if len(stem) >= MIN_STEM_CHARS else _END) for stem in spaced]
        self._pattern = (
            re.compile(r"(?<![a-z0-9])(" + "|".join(sorted(patterns, key=len, reverse=True)) + ")")
            if patterns
            else None
        )

    def stems_in(self, text: str) -> frozenset[str]:
        """Return the question's stems that a text contains."""
        low = text.lower()
        found = self._pattern.findall(low) if self._pattern is not None else []
        return frozenset([*found, *(stem for stem in self._unspaced if stem in low)])

    def share(self, stems: frozenset[str]) -> float:
        """Return the weight of ``stems`` as a share of the whole question's, from 0 to 1."""
        return sum(self._weights[stem] for stem in stems) / self._total_weight

    def share_of_all(self, stems: frozenset[str]) -> float:
        """Return the same share where a term that occurs in no row counts as the rarest of all."""
        return sum(self._weights[stem] for stem in stems) / (self._total_weight + self._unknown_weight)
