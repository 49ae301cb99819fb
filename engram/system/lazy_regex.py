"""A regular expression that is compiled when it is first used.

Engram has about 650 of them. Compiling them all took a third of the CPU time of a command that uses only a few.
"""

from __future__ import annotations

import functools
import re
from typing import Any, AnyStr, cast


class LazyRegex:
    """A proxy for a ``re.Pattern``; after its first use, a method is as fast as the pattern's own."""

    def __init__(self, pattern: str | bytes, flags: int) -> None:
        self.pattern = pattern
        self._given_flags = flags

    @functools.cached_property
    def _compiled(self) -> re.Pattern[Any]:
        return re.compile(self.pattern, self._given_flags)

    def __getattr__(self, name: str) -> Any:
        """Return an attribute of the compiled expression and cache it, so that this method is called once for it."""
        value = getattr(self._compiled, name)
        setattr(self, name, value)
        return value

    def __reduce__(self) -> tuple[object, ...]:
        return LazyRegex, (self.pattern, self._given_flags)


def lazy_regex(pattern: AnyStr, flags: int = 0) -> re.Pattern[AnyStr]:
    """Return a pattern that is compiled, and may raise ``re.error``, at its first use. A test compiles all of them."""
    return cast("re.Pattern[AnyStr]", LazyRegex(pattern, flags))


def any_case(pattern: AnyStr) -> re.Pattern[AnyStr]:
    """Return a pattern like ``lazy_regex`` that matches both upper and lower case."""
    return lazy_regex(pattern, re.IGNORECASE)


def has_one(text: str, marks: tuple[str, ...]) -> bool:
    """Return True if the text contains one of the marks, or if there are none. If False, skip the regex."""
    for mark in marks:
        if mark in text:
            return True
    return not marks
