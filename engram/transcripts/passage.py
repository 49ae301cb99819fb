"""Split a text into passages: the sentences and lines that are embedded, searched and shown together."""

from __future__ import annotations

import re

#: A passage grows to about this many words.
PASSAGE_WORDS = 60
#: A single run of text without a break is cut at this many characters.
LONGEST_PIECE = 900

#: White space between sentences, or line ends; every match begins with white space, which is what makes it fast.
_BREAK = re.compile(r"\s(?:(?<=[.!?:;]\s)\s*(?=[A-Z0-9`*_\"'(\[])|(?<=\n)\n*)")


def split_passages(text: str, words: int = PASSAGE_WORDS) -> list[tuple[int, int]]:
    """Spans ``(start, stop)`` of the passages of ``text``, in characters, in order, without outer white space.

    Breaks stand at line ends and sentence ends; a new paragraph or heading starts a passage once the one before
    has half its words.
    """
    spans: list[tuple[int, int]] = []
    start = stop = count = 0
    for piece_start, piece_stop, is_paragraph in _pieces(text):
        size = len(text[piece_start:piece_stop].split())
        if count and (count + size > words or (is_paragraph and count * 2 >= words)):
            spans.append((start, stop))
            count = 0
        if not count:
            start = piece_start
        stop, count = piece_stop, count + size
    if count:
        spans.append((start, stop))
    return spans


def _pieces(text: str) -> list[tuple[int, int, bool]]:
    """Sentences and lines as ``(start, stop, begins a paragraph)``."""
    pieces = []
    position, is_paragraph = 0, True
    for match in [*_BREAK.finditer(text), None]:
        end = match.start() if match else len(text)
        for cut in range(position, end, LONGEST_PIECE):
            piece = text[cut : min(cut + LONGEST_PIECE, end)]
            if piece.strip():
                begin = cut + len(piece) - len(piece.lstrip())
                pieces.append((begin, cut + len(piece.rstrip()), is_paragraph))
                is_paragraph = False
        if match:
            position = match.end()
            is_paragraph = match.group().count("\n") > 1
    return pieces
