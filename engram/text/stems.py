"""Words compared without their endings. Pure."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable

#: Two texts whose words overlap this much say the same.
SAME_SHARE = 0.7
#: With fewer words an overlap means little.
FEW_WORDS = 4

_PART = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])|\d+|[^\W\d_a-zA-Z]+")
_ENDING = re.compile(r"(?:ations?|ments?|ings?|ers?|ies|ied|ions?|ed|es|s|e|y)$")


def stems(words: Iterable[str]) -> frozenset[str]:
    """The words cut into their parts (``readFile`` → read, file) without endings, in lower case."""
    found = set()
    for word in words:
        for part in _PART.findall(word):
            low = part.lower()
            stem = _ENDING.sub("", low)
            found.add(stem if len(stem) >= 3 else low)
    return frozenset(one for one in found if len(one) > 1 or one.isdigit())


def same_words(one: Collection[str], other: Collection[str]) -> bool:
    """True where two texts say the same, by their words; of very short ones only the very same."""
    if min(len(one), len(other)) < FEW_WORDS:
        return set(one) == set(other)
    return overlap(one, other) >= SAME_SHARE


def overlap(one: Collection[str], other: Collection[str]) -> float:
    """Shared words as a share of the smaller set; 0 where one is empty."""
    smaller = min(len(one), len(other))
    return len(set(one) & set(other)) / smaller if smaller else 0.0
