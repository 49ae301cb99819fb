"""Choose the sentences of a passage to show: the run that covers most of the question in few words. Pure."""

from __future__ import annotations

from engram.search.question.coverage import Coverage
from engram.text.excerpt_sentences import sentence_spans

#: Maximum number of words to show, unless a single sentence is longer.
MAX_EXCERPT_WORDS = 40
#: A shorter text, in characters, is extended by its neighbours: "Done." says nothing by itself.
MIN_CHARS = 80


def excerpt(text: str, coverage: Coverage, max_words: int = MAX_EXCERPT_WORDS) -> str:
    """Return the run of sentences, at most ``max_words`` words, that covers most of the question.

    Word for word; the first such run if several are equal.
    """
    if len(text.split()) <= max_words:
        return text
    spans = sentence_spans(text)
    sizes = [len(text[start:stop].split()) for start, stop in spans]
    stems = [coverage.stems_in(text[start:stop]) for start, stop in spans]
    best_share, best_run = -1.0, (0, 0)
    for first in range(len(spans)):
        size, share = 0, 0.0
        for last in range(first, len(spans)):
            if size and size + sizes[last] > max_words:
                break
            size += sizes[last]
            share += coverage.share(stems[last])
            if share > best_share + 1e-9:
                best_share, best_run = share, (first, last)
    first, last = _extend_run(spans, *best_run)
    return text[spans[first][0] : spans[last][1]]


def _extend_run(spans: list[tuple[int, int]], first: int, last: int) -> tuple[int, int]:
    """Return the run with as many following, then preceding, sentences as it takes to be understood."""
    while spans[last][1] - spans[first][0] < MIN_CHARS and (first > 0 or last + 1 < len(spans)):
        if last + 1 < len(spans):
            last += 1
        else:
            first -= 1
    return first, last


def extend_short(shown: str, before: str, after: str) -> str:
    """Return a text too short to be understood with sentences of the texts before and after it."""
    for neighbour, is_before in ((before, True), (after, False)):
        spans = sentence_spans(neighbour)
        while spans and len(shown) < MIN_CHARS:
            start, stop = spans.pop() if is_before else spans.pop(0)
            sentence = neighbour[start:stop]
            shown = f"{sentence}\n{shown}" if is_before else f"{shown}\n{sentence}"
    return shown
