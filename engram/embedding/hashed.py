"""An embedder without a model, which is fast and computes the same vectors on every machine."""

from __future__ import annotations

import math
import zlib
from collections import Counter
from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from engram.embedding.embedder import Prompts, Thresholds
from engram.embedding.pieces import Spans, cut, unit_rows
from engram.system.lazy_regex import lazy_regex

_WORD = lazy_regex(r"[^\W_]+")
#: Words with little meaning, which have the weight ``_COMMON_WEIGHT``.
_COMMON_WORDS = """
a an and are as at be but by can did do does for from had has have how i if in is it its me my no not of on or our so
that the their them then there this to us was we were what when where which who why will with you your
"""
_COMMON = frozenset(_COMMON_WORDS.split())
_COMMON_WEIGHT = 0.1
#: Weight of a letter triple relative to its word.
_PART_WEIGHT = 0.25
#: Placeholder for a text without words.
_BLANK = "\x00blank"


class HashedEmbedder:
    """Hashes words and their letter triples to vector positions, for tests and for use without a model.

    The vectors represent spelling, not meaning. Texts with the same words in any order have the same vector.
    """

    thresholds = Thresholds(duplicate=0.92, same_topic=0.85, relevance_floor=0.15)
    runtime = "hashed"
    reason = ""

    def __init__(self, dimension: int = 384, max_tokens: int = 256) -> None:
        """Only the first ``max_tokens`` words of a text are used."""
        self.dimension = dimension
        self.max_tokens = max_tokens
        self.prompts = Prompts()
        self.model_id = f"hashed-{dimension}-v1"

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Return one unit vector per text, in order."""
        rows = np.zeros((len(texts), self.dimension), dtype=np.float32)
        for row, text in zip(rows, texts, strict=True):
            for feature, weight in self._features(text):
                place = zlib.crc32(feature.encode("utf-8", "replace"))
                row[place % self.dimension] += weight if place & 0x80000000 else -weight
            if not row.any():
                row[zlib.crc32(text.encode("utf-8", "replace")) % self.dimension] = 1.0
        return unit_rows(rows)

    def embed_query(self, text: str) -> NDArray[np.float32]:
        """Return the vector of ``text``, embedded like a document."""
        row: NDArray[np.float32] = self.embed([text])[0]
        return row

    def pieces(self, text: str) -> list[str]:
        """Split ``text`` into pieces of at most ``max_tokens`` words."""
        return cut(text, self.max_tokens, _spans)

    def _features(self, text: str) -> Iterator[tuple[str, float]]:
        words = Counter(word.lower() for word in _WORD.findall(text)[: self.max_tokens]) or Counter([_BLANK])
        for word, count in words.items():
            weight = (_COMMON_WEIGHT if word in _COMMON else 1.0) * (1 + math.log(count))
            yield word, weight
            if len(word) > 3 and word != _BLANK:
                padded = f"^{word}$"
                share = weight * _PART_WEIGHT
                yield from ((padded[start : start + 3], share) for start in range(len(padded) - 2))


def _spans(text: str) -> Spans:
    return [match.span() for match in _WORD.finditer(text)]
