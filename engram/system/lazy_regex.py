"""A regular expression that is compiled when it is first used.

Engram has about 650 of them, and compiling them all took a third of the processor time of a command that uses few.
"""

from __future__ import annotations

import functools
import re
from typing import Any, AnyStr, cast


class LazyRegex:
    """Stands for a ``re.Pattern``; after its first use, a method costs no more than the pattern's own."""

    def __init__(self, pattern: str | bytes, flags: int) -> None:
        self.pattern = pattern
        self._given_flags = flags

    @functools.cached_property
    def _compiled(self) -> re.Pattern[Any]:
        return re.compile(self.pattern, self._given_flags)

    def __getattr__(self, name: str) -> Any:
        """Return an attribute of the compiled expression; from now on, it is found without this method."""
        value = getattr(self._compiled, name)
        setattr(self, name, value)
        return value

    def __reduce__(self) -> tuple[object, ...]:
        return LazyRegex, (self.pattern, self._given_flags)


def lazy_regex(pattern: AnyStr, flags: int = 0) -> re.Pattern[AnyStr]:
    """Return a pattern that is compiled at its first use and raises ``re.error`` only then; a test compiles all."""
    return cast("re.Pattern[AnyStr]", LazyRegex(pattern, flags))


def has_one(text: str, marks: tuple[str, ...]) -> bool:
    """Return True if the text contains one of the marks, or there are no marks; else the regex need not be tried."""
    for mark in marks:
        if mark in text:
            return True
    return not marks
