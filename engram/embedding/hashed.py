"""An embedder without a model: words and their parts hashed to places; fast, and the same on every machine."""

from __future__ import annotations

import math
import re
import zlib
from collections import Counter
from collections.abc import Callable, Iterator, Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from engram.embedding.embedder import Prompts, Thresholds
from engram.errors import EmbeddingError

# -- Rows of numbers checked and brought to length 1.

#: A row shorter than this has no direction.
_SHORTEST = 1e-6


def unit_rows(rows: ArrayLike) -> NDArray[np.float32]:
    """``rows`` as float32, each of length 1; raises EmbeddingError where one is zero or not finite."""
    matrix = np.array(rows, dtype=np.float32, order="C")
    lengths = np.sqrt(np.einsum("ij,ij->i", matrix, matrix))
    if not np.isfinite(lengths).all():
        raise EmbeddingError("the embedding model answered with a number that is not finite")
    if lengths.size and lengths.min() < _SHORTEST:
        raise EmbeddingError("the embedding model answered with an empty vector")
    matrix /= lengths[:, np.newaxis]
    return matrix


# -- Long text cut into pieces of at most so many tokens, at paragraphs, sentences or words.

#: Characters looked at in one go, so that a text of megabytes needs little memory.
_BLOCK_CHARACTERS = 20_000
#: A piece ends in the last part of its room: this share of the tokens is always used.
_FILLED = 0.7

#: (start, end) of each token in a text, in characters.
Spans = Sequence[tuple[int, int]]


def valid(text: str) -> str:
    """``text`` with each half of a surrogate pair as a question mark, at the same length; tokenizers need that."""
    return text.encode("utf-8", "replace").decode()


def cut(text: str, limit_tokens: int, spans_of: Callable[[str], Spans]) -> list[str]:
    """``text`` in pieces of at most ``limit_tokens`` tokens as ``spans_of`` counts them; [] for a blank text."""
    if not text.strip():
        return []
    text = valid(text)
    if len(text.encode()) <= limit_tokens:
        return [text.strip()]
    pieces = (piece for block in _blocks(text) for piece in _cut_block(block, limit_tokens, spans_of(block)))
    return [piece for piece in pieces if piece]


def _blocks(text: str) -> Iterator[str]:
    """``text`` in blocks that end at a line or a word where there is one."""
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
    """The token before which a piece that starts at ``first`` should end; at most ``last``."""
    best, best_rank = last, -1
    for index in range(last, first + max(1, int((last - first) * _FILLED)) - 1, -1):
        rank = _rank(block[spans[index - 1][1] : spans[index][0]], block[spans[index - 1][1] - 1])
        if rank > best_rank:
            best, best_rank = index, rank
    return best


def _rank(gap: str, before: str) -> int:
    """How good it is to cut in ``gap``, which follows the character ``before``."""
    if "\n" in gap:
        return 4 if gap.count("\n") > 1 else 3
    if gap:
        return 2 if before in ".!?;:" else 1
    return 0


_WORD = re.compile(r"[^\W_]+")
#: Words that say little; they count a tenth.
_COMMON_WORDS = """
a an and are as at be but by can did do does for from had has have how i if in is it its me my no not of on or our so
that the their them then there this to us was we were what when where which who why will with you your
"""
_COMMON = frozenset(_COMMON_WORDS.split())
#: What a part of three letters counts against its whole word.
_PART_WEIGHT = 0.25
#: Stands in for a text without any word.
_BLANK = "\x00blank"


class HashedEmbedder:
    """Feature hashing over words and their three-letter parts; for tests, and for use without a model.

    It knows spelling, not meaning. Two texts with the same words in any order have the same row.
    """

    thresholds = Thresholds(duplicate=0.92, same_topic=0.85, relevance_floor=0.15)
    runtime = "hashed"
    reason = ""

    def __init__(self, dimension: int = 384, max_tokens: int = 256) -> None:
        """Rows of ``dimension`` numbers; ``max_tokens`` words of a text count."""
        self.dimension = dimension
        self.max_tokens = max_tokens
        self.prompts = Prompts()
        self.model_id = f"hashed-{dimension}-v1"

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """One row a text; see ``Embedder.embed``."""
        rows = np.zeros((len(texts), self.dimension), dtype=np.float32)
        for row, text in zip(rows, texts, strict=True):
            for feature, weight in self._features(text):
                place = zlib.crc32(feature.encode("utf-8", "replace"))
                row[place % self.dimension] += weight if place & 0x80000000 else -weight
            if not row.any():
                row[zlib.crc32(text.encode("utf-8", "replace")) % self.dimension] = 1.0
        return unit_rows(rows)

    def embed_query(self, text: str) -> NDArray[np.float32]:
        """The vector of ``text``; queries and documents are embedded alike."""
        row: NDArray[np.float32] = self.embed([text])[0]
        return row

    def pieces(self, text: str) -> list[str]:
        """``text`` in pieces of at most ``max_tokens`` words."""
        return cut(text, self.max_tokens, _spans)

    def _features(self, text: str) -> Iterator[tuple[str, float]]:
        words = Counter(word.lower() for word in _WORD.findall(text)[: self.max_tokens]) or Counter([_BLANK])
        for word, count in words.items():
            weight = (0.1 if word in _COMMON else 1.0) * (1 + math.log(count))
            yield word, weight
            if len(word) > 3 and word != _BLANK:
                padded = f"^{word}$"
                share = weight * _PART_WEIGHT
                yield from ((padded[start : start + 3], share) for start in range(len(padded) - 2))


def _spans(text: str) -> Spans:
    return [match.span() for match in _WORD.finditer(text)]
