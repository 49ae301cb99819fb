"""Split long texts into pieces for a model, and scale its vectors to length 1."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from engram.errors import EmbeddingError

#: Minimum length of a row; a shorter row has no usable direction.
_SHORTEST = 1e-6


def unit_rows(rows: ArrayLike) -> NDArray[np.float32]:
    """Return ``rows`` as float32, scaled to length 1. Raises EmbeddingError if one is zero or not finite."""
    matrix = np.array(rows, dtype=np.float32, order="C")
    lengths = np.sqrt(np.einsum("ij,ij->i", matrix, matrix))
    if not np.isfinite(lengths).all():
        raise EmbeddingError("the embedding model returned a number that is not finite")
    if lengths.size and lengths.min() < _SHORTEST:
        raise EmbeddingError("the embedding model returned an empty vector")
    matrix /= lengths[:, np.newaxis]
    return matrix


#: Number of characters that are processed at a time, so that megabytes of text need little memory.
_BLOCK_CHARACTERS = 20_000
#: Minimum length of a piece, as a share of its limit.
_FILLED = 0.7
#: (start, end) of each token in a text, in characters.
Spans = Sequence[tuple[int, int]]


def without_surrogates(text: str) -> str:
    """Replace each lone surrogate, which tokenizers reject, with ``?``; the length does not change."""
    return text.encode("utf-8", "replace").decode()


def cut(text: str, limit_tokens: int, spans_of: Callable[[str], Spans]) -> list[str]:
    """Split ``text`` into pieces of at most ``limit_tokens`` tokens, as given by ``spans_of``; [] for blank text."""
    if not text.strip():
        return []
    text = without_surrogates(text)
    if len(text.encode()) <= limit_tokens:
        return [text.strip()]
    pieces = (piece for block in _blocks(text) for piece in _cut_block(block, limit_tokens, spans_of(block)))
    return [piece for piece in pieces if piece]


def _blocks(text: str) -> Iterator[str]:
    """Yield ``text`` in blocks that end at a line or word boundary if possible."""
    start = 0
    while len(text) - start > _BLOCK_CHARACTERS:
        stop, least = start + _BLOCK_CHARACTERS, start + _BLOCK_CHARACTERS // 2
        found = text.rfind("\n", least, stop)
        if found < 0:
            found = text.rfind(" ", least, stop)
        stop = found + 1 if found >= 0 else stop
        yield text[start:stop]
        start = stop
    yield text[start:]


def _cut_block(block: str, limit: int, spans: Spans) -> Iterator[str]:
    first = 0
    while first < len(spans):
        last = first + limit
        last = _best_end(block, spans, first, last) if last < len(spans) else len(spans)
        stop = spans[last][0] if last < len(spans) else len(block)
        yield block[spans[first][0] : stop].strip()
        first = last


def _best_end(block: str, spans: Spans, first: int, last: int) -> int:
    """Return the index of the token, at most ``last``, before which a piece that starts at ``first`` should end."""
    best, best_rank = last, -1
    for index in range(last, first + max(1, int((last - first) * _FILLED)) - 1, -1):
        rank = _rank(block[spans[index - 1][1] : spans[index][0]], block[spans[index - 1][1] - 1])
        if rank > best_rank:
            best, best_rank = index, rank
    return best


def _rank(gap: str, before: str) -> int:
    """Rank how well a piece could end at ``gap``, which follows the character ``before``; higher is better."""
    if "\n" in gap:
        return 4 if gap.count("\n") > 1 else 3
    if gap:
        return 2 if before in ".!?;:" else 1
    return 0
