"""A cache for what a function finds in a text, when the same texts are judged again and again.

An extraction judges all prompts of its session, so in a session of hundreds of prompts nearly all were judged before.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Concatenate, ParamSpec, TypeVar

#: Number of results that are cached for each function, and the longest arguments whose result is, in characters
#: together. At most this takes 32 MB per function, for texts of which every one is that long and full of emoji.
_CACHED, _LONGEST = 2_048, 4_000

P = ParamSpec("P")
T = TypeVar("T")


def cached_by_text(
    function: Callable[Concatenate[str, P], T],
) -> Callable[Concatenate[str, P], T]:
    """Cache the results of a pure function for short texts.

    Its other arguments must be texts or frozen sets of texts, and nobody may change a result.
    """
    cached = functools.lru_cache(maxsize=_CACHED)(function)

    @functools.wraps(function)
    def call(text: str, /, *args: P.args, **kwargs: P.kwargs) -> T:
        if sum(map(_length, (text, *args, *kwargs.values()))) > _LONGEST:
            return function(text, *args, **kwargs)
        return cached(text, *args, **kwargs)  # type: ignore[arg-type]

    return call


def _length(value: object) -> int:
    """Return the number of characters in a text, or in a set of texts."""
    if isinstance(value, frozenset):
        return sum(map(len, value))
    return len(value) if isinstance(value, str) else 0
