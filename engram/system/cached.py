"""A cache for what a function finds in a text, when the same texts are judged again and again.

An extraction judges all prompts of its session, so in a session of hundreds of prompts nearly all were judged before.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Concatenate, ParamSpec, TypeVar

#: Arguments of a call count as short up to this number of characters in all, and up to the second its result is cached.
_SHORT, _LONGEST = 4_000, 100_000
#: Number of results that are cached for each function: for short arguments, and for long ones, which are rare. At most
#: this takes 40 MB per function, for calls of which every one is that long and full of emoji.
_SHORT_TEXTS, _LONG_TEXTS = 2_048, 16

P = ParamSpec("P")
T = TypeVar("T")


def cached_by_text(
    function: Callable[Concatenate[str, P], T],
) -> Callable[Concatenate[str, P], T]:
    """Cache the results of a pure function of a text.

    Its other arguments must be texts or frozen sets of texts, and nobody may change a result.
    """
    of_short = functools.lru_cache(maxsize=_SHORT_TEXTS)(function)
    of_long = functools.lru_cache(maxsize=_LONG_TEXTS)(function)

    @functools.wraps(function)
    def call(text: str, /, *args: P.args, **kwargs: P.kwargs) -> T:
        length = sum(map(_length, (text, *args, *kwargs.values())))
        if length > _LONGEST:
            return function(text, *args, **kwargs)
        return (of_short if length <= _SHORT else of_long)(text, *args, **kwargs)  # type: ignore[arg-type]

    return call


def _length(value: object) -> int:
    """Return the number of characters in a text, or in a set of texts."""
    if isinstance(value, frozenset):
        return sum(map(len, value))
    return len(value) if isinstance(value, str) else 0
