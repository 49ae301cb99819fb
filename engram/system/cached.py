"""A cache for functions of a text, for texts that are examined repeatedly.

Each extraction examines all prompts of its session. In a session of thousands of prompts, nearly all are known.
"""

from __future__ import annotations

import functools
import threading
from collections import OrderedDict
from collections.abc import Callable
from typing import Concatenate, ParamSpec, TypeVar

#: Maximum number of characters in the arguments of all cached calls of a function, and of a single one. Their results
#: are about as long; a character takes 1 byte, or 4 in a text with an emoji.
_ALL, _LONGEST = 5_000_000, 100_000
#: Size of a cached call in addition to the characters of its arguments.
_FIXED = 500

P = ParamSpec("P")
T = TypeVar("T")


def cached_by_text(
    function: Callable[Concatenate[str, P], T],
) -> Callable[Concatenate[str, P], T]:
    """Cache the most recently used results of a pure function of a text, up to a total number of characters.

    The function's other arguments must be texts or frozen sets of texts, and its results must not be modified.
    """
    results: OrderedDict[object, tuple[T, int]] = OrderedDict()
    lock = threading.Lock()
    total = 0

    @functools.wraps(function)
    def call(text: str, /, *args: P.args, **kwargs: P.kwargs) -> T:
        nonlocal total
        key = (text, args, tuple(sorted(kwargs.items())))
        with lock:
            if (known := results.get(key)) is not None:
                results.move_to_end(key)
                return known[0]
        result = function(text, *args, **kwargs)
        length = sum(map(_length, (text, *args, *kwargs.values())))
        if length <= _LONGEST:
            with lock:
                if key not in results:
                    results[key] = (result, length + _FIXED)
                    total += length + _FIXED
                while total > _ALL:
                    total -= results.popitem(last=False)[1][1]
        return result

    return call


def _length(value: object) -> int:
    """Return the number of characters in a text, or in a set of texts."""
    if isinstance(value, frozenset):
        return sum(map(len, value))
    return len(value) if isinstance(value, str) else 0
