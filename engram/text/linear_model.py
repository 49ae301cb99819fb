"""Linear models that classify sentences, fitted on sentences written by many people. Pure functions.

The features of a sentence are its words, pairs of words and parts of words, in any language; a model adds up a weight
for each. The weights are fitted by ``benchmarks/linear_fit.py`` and stored next to the module that uses the model.
"""

from __future__ import annotations

import json
import zlib
from array import array
from base64 import b64decode
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from engram.system.lazy_regex import lazy_regex

#: Number of buckets to which features are hashed, each with a weight: words and pairs of words, and parts of words.
WORD_BUCKETS, PART_BUCKETS = 1 << 15, 1 << 16
#: Lengths of the parts of a word, with a blank at its beginning and end, in characters.
_PART_LENGTHS = (3, 4, 5)
#: A text with fewer words or parts than this gets a weaker score, because a few words are little evidence.
_FEW_WORDS, _FEW_PARTS = 16, 80
#: Words are truncated to this many characters.
_LONGEST_WORD = 40
_WORDS = lazy_regex(r"[^\W\d_]+(?:'[^\W\d_]+)*|\d+|--?(?=\w)")


class Features(NamedTuple):
    """The buckets of a text's words and pairs of words, and of its parts of words, each in ascending order."""

    words: Sequence[int]
    parts: Sequence[int]

    @property
    def shares(self) -> tuple[float, float]:
        """Factors for the weights of words and of parts; they balance both groups whatever the length of the text."""
        return max(len(self.words), _FEW_WORDS) ** -0.5, max(len(self.parts), _FEW_PARTS) ** -0.5


class LinearModel(NamedTuple):
    """A logistic regression over the features of a text."""

    words: Sequence[int]
    parts: Sequence[int]
    #: Value of a stored weight of 1.
    scale: float
    bias: float
    #: Thresholds by name: the lowest score at which a text counts as recognised.
    floors: Mapping[str, float]

    def part_score(self, parts: Sequence[int]) -> float:
        return sum(self.parts[bucket] for bucket in parts) * Features((), parts).shares[1] * self.scale

    def score(self, found: Features) -> float:
        """Return the log odds that a text is of the kind that the model was fitted to recognise."""
        of_words, of_parts = found.shares
        words = sum(self.words[bucket] for bucket in found.words) * of_words
        parts = sum(self.parts[bucket] for bucket in found.parts) * of_parts
        return (words + parts) * self.scale + self.bias


def features(text: str) -> Features:
    """Return the features of one or two sentences. All numbers are treated as the same word, and case is ignored."""
    found = _WORDS.findall(text.lower().replace("’", "'"))
    words = ["0" if word.isdecimal() else word[:_LONGEST_WORD] for word in found]
    pairs = (f"{one} {other}" for one, other in zip(["<", *words], [*words, ">"], strict=True))
    parts = {
        padded[at : at + length]
        for padded in (f" {word} " for word in set(words))
        for length in _PART_LENGTHS
        for at in range(max(1, len(padded) - length + 1))
    }
    return Features(hashed({*words, *pairs}, WORD_BUCKETS), hashed(parts, PART_BUCKETS))


def load_model(path: Path) -> LinearModel:
    """Read a model from the JSON file that ``benchmarks/linear_fit.py`` wrote.

    Raises:
        OSError: the file can't be read.
    """
    stored = json.loads(path.read_text(encoding="utf-8"))
    weights = array("b", zlib.decompress(b64decode(stored["weights"])))
    return LinearModel(
        weights[:WORD_BUCKETS], weights[WORD_BUCKETS:], stored["scale"], stored["bias"], stored["floors"]
    )


def hashed(texts: set[str], buckets: int = WORD_BUCKETS) -> list[int]:
    """Return the distinct buckets of the texts, in ascending order."""
    return sorted({zlib.crc32(text.encode("utf-8", "surrogatepass")) % buckets for text in texts})
