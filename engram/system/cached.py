"""Caches for functions of a text, for texts that are examined repeatedly; they can be emptied when one is forgotten.

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

_emptied: list[Callable[[], None]] = []


def empty_with_texts(empty: Callable[[], None]) -> None:
    """Call ``empty``, in any thread, whenever the caches of texts are emptied. The caches below do so already."""
    _emptied.append(empty)


def empty_text_caches() -> None:
    """Remove every text, and what was found in it, from the caches of this process."""
    for empty in _emptied:
        empty()


def lru_cache_by_text(max_calls: int) -> Callable[[Callable[..., T]], functools._lru_cache_wrapper[T]]:
    """Cache the most recently used results of a pure function of short texts, up to a number of calls."""

    def cached(function: Callable[..., T]) -> functools._lru_cache_wrapper[T]:
        call = functools.lru_cache(maxsize=max_calls)(function)
        empty_with_texts(call.cache_clear)
        return call

    return cached


def cached_by_text(
    function: Callable[Concatenate[str, P], T],
) -> Callable[Concatenate[str, P], T]:
    """Cache the most recently used results of a pure function of a text, up to a total number of characters.

    The function's other arguments must be texts or frozen sets of texts, and its results must not be modified.
    """
    results: OrderedDict[object, tuple[T, int]] = OrderedDict()
    lock = threading.Lock()
    total = 0

    def empty() -> None:
        nonlocal total
        with lock:
            results.clear()
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

    empty_with_texts(empty)
    return call


def _length(value: object) -> int:
    """Return the number of characters in a text, or in a set of texts."""
    if isinstance(value, frozenset):
        return sum(map(len, value))
    return len(value) if isinstance(value, str) else 0
