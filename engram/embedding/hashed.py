"""An embedder without a model, the same on every machine; and what every embedder does with texts and vectors."""

from __future__ import annotations

import math
import zlib
from collections import Counter
from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from engram.embedding.embedder import Prompts, Thresholds
from engram.errors import EmbeddingError
from engram.system.lazy_regex import lazy_regex

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


def without_surrogates(text: str) -> str:
    """Replace each lone surrogate, which tokenizers reject, with ``?``; the length does not change."""
    return text.encode("utf-8", "replace").decode()


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

    def _features(self, text: str) -> Iterator[tuple[str, float]]:
        words = Counter(word.lower() for word in _WORD.findall(text)[: self.max_tokens]) or Counter([_BLANK])
        for word, count in words.items():
            weight = (_COMMON_WEIGHT if word in _COMMON else 1.0) * (1 + math.log(count))
            yield word, weight
            if len(word) > 3 and word != _BLANK:
                padded = f"^{word}$"
                share = weight * _PART_WEIGHT
                yield from ((padded[start : start + 3], share) for start in range(len(padded) - 2))
