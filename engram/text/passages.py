"""Split a text into passages, the units that are embedded and searched: runs of sentences and lines. Pure."""

from __future__ import annotations

import re

#: Maximum number of words of a passage, except for a single long sentence.
MAX_PASSAGE_WORDS = 60
#: A run of text without a break is cut at this number of characters.
MAX_PIECE_CHARS = 900

#: White space between sentences, or line ends. Every match begins with white space, which makes it fast.
_BREAK = re.compile(r"\s(?:(?<=[.!?:;]\s)\s*(?=[A-Z0-9`*_\"'(\[])|(?<=\n)\n*)")


def split_passages(text: str, max_words: int = MAX_PASSAGE_WORDS) -> list[tuple[int, int]]:
    """Return ``(start, stop)`` of each passage, in characters, in order, without surrounding white space.

    Passages break at line ends and sentence ends; a new paragraph or heading starts one as soon as the passage before
    has half of ``max_words``.
    """
    spans: list[tuple[int, int]] = []
    start = stop = words = 0
    for piece_start, piece_stop, is_paragraph in _pieces(text):
        size = len(text[piece_start:piece_stop].split())
        if words and (words + size > max_words or (is_paragraph and words * 2 >= max_words)):
            spans.append((start, stop))
            words = 0
        if not words:
            start = piece_start
        stop, words = piece_stop, words + size
    if words:
        spans.append((start, stop))
    return spans


def _pieces(text: str) -> list[tuple[int, int, bool]]:
    """Return sentences and lines as ``(start, stop, begins a paragraph)``."""
    pieces = []
    position, is_paragraph = 0, True
    for match in [*_BREAK.finditer(text), None]:
        end = match.start() if match else len(text)
        for cut in range(position, end, MAX_PIECE_CHARS):
            piece = text[cut : min(cut + MAX_PIECE_CHARS, end)]
            if right := len(piece.rstrip()):
                pieces.append((cut + len(piece) - len(piece.lstrip()), cut + right, is_paragraph))
                is_paragraph = False
        if match:
            position = match.end()
            is_paragraph = position - end > 1 and match.group().count("\n") > 1
    return pieces
