"""Which sentences of a passage a hit shows: the run that says most of what was asked, in few words. Pure."""

from __future__ import annotations

import re

from engram.search.question.coverage import Coverage

#: Words that a hit shows at most, unless one sentence alone is longer.
SHOWN_WORDS = 40
#: Shorter than this, in characters, a hit is shown with its neighbours: "Done." tells nobody what was done.
LEAST_CHARS = 80
_BREAK = re.compile(r"(?<=[.!?:;])\s+(?=[A-Z0-9`*_\"'(\[-])|\n+")


def excerpt(text: str, coverage: Coverage, limit: int = SHOWN_WORDS) -> str:
    """The neighbouring sentences of ``text``, at most ``limit`` words, that hold most of the question's words.

    Word for word as they stand; the first such run where several are as good.
    """
    if len(text.split()) <= limit:
        return text
    spans = _sentences(text)
    sizes = [len(text[start:stop].split()) for start, stop in spans]
    found = [coverage.found_in(text[start:stop]) for start, stop in spans]
    best, chosen = -1.0, (0, 0)
    for first in range(len(spans)):
        size, said = 0, 0.0
        for last in range(first, len(spans)):
            if size and size + sizes[last] > limit:
                break
            size += sizes[last]
            said += coverage.share(found[last])
            if said > best + 1e-9:
                best, chosen = said, (first, last)
    first, last = _readable(spans, *chosen)
    return text[spans[first][0] : spans[last][1]]


def _readable(spans: list[tuple[int, int]], first: int, last: int) -> tuple[int, int]:
    """The run with its neighbours, until it is long enough to be understood."""
    while spans[last][1] - spans[first][0] < LEAST_CHARS and (first > 0 or last + 1 < len(spans)):
        if last + 1 < len(spans):
            last += 1
        else:
            first -= 1
    return first, last


def widened(shown: str, before: str, after: str) -> str:
    """A hit too short to be understood with what stands before or behind it in the same text, a sentence at a time."""
    for beside, is_before in ((before, True), (after, False)):
        spans = _sentences(beside)
        while spans and len(shown) < LEAST_CHARS:
            start, stop = spans.pop() if is_before else spans.pop(0)
            sentence = beside[start:stop]
            shown = f"{sentence}\n{shown}" if is_before else f"{shown}\n{sentence}"
    return shown


def _sentences(text: str) -> list[tuple[int, int]]:
    spans, position = [], 0
    for match in [*_BREAK.finditer(text), None]:
        stop = match.start() if match else len(text)
        if text[position:stop].strip():
            spans.append((position, stop))
        position = match.end() if match else stop
    return spans
