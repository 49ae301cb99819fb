"""How much a sentence by others reads like an order to its reader: a linear model of its words. Pure.

Such orders come in more forms than anybody can list ("an empty field means yes"), and so do harmless sentences with the
same words ("never log tokens"). So the rules of `addressed` decide together with this model, which knows words, pairs
of words and parts of words. ``benchmarks/trust.py`` fits it on sentences of many writers, and measures it on each
writer's after fitting it only on the others'; docs/redaction.md has the figures.
"""

from __future__ import annotations

import json
import math
import unicodedata
import zlib
from array import array
from base64 import b64decode
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import NamedTuple

from engram.system.lazy_regex import lazy_regex
from engram.trust.addressed import LABELS, is_addressed

#: Numbers of weights: for words and pairs of words, and for parts of words. Features are hashed to these.
WORD_BUCKETS, PART_BUCKETS = 1 << 15, 1 << 16
#: Lengths of the parts of a word, with a blank at its beginning and end, in characters.
_PART_LENGTHS = (3, 4, 5)
#: A passage with fewer features than these counts less, since a few words are little evidence.
_FEW_WORDS, _FEW_PARTS = 16, 80
_LONGEST = 20_000
#: A passage of more characters than this is judged in clauses.
_LONGEST_PAIR = 400
#: A word is cut after this many characters.
_LONGEST_WORD = 40
_SENTENCES = lazy_regex(r"(?<=[.!?])\s+|(?<=[。！？])|\n+")
_CLAUSES = lazy_regex(r".{30,120}?[,;:.](?=\s)|.{1,120}(?:\s|$)|\S{1,120}")
_WORDS = lazy_regex(r"[^\W\d_]+(?:'[^\W\d_]+)*|\d+|--?(?=\w)")


class Features(NamedTuple):
    """The weights that a passage uses: of its words and pairs of words, and of their parts, each in order."""

    words: Sequence[int]
    parts: Sequence[int]

    @property
    def shares(self) -> tuple[float, float]:
        """How much each weight of a group counts. Both groups count alike, however long the passage is."""
        return max(len(self.words), _FEW_WORDS) ** -0.5, max(len(self.parts), _FEW_PARTS) ** -0.5


class _Model(NamedTuple):
    words: Sequence[int]
    parts: Sequence[int]
    #: Value of a stored weight of 1.
    scale: float
    bias: float
    #: From this score on, a text directs its reader; from the lower one on, if the rules say so as well.
    floor: float
    floor_with_rules: float


def directs(text: str) -> bool:
    """Return whether a text directs whoever reads it in a matter that is not the project's.

    Args:
        text: any text; of more than 20,000 characters, the beginning is read.
    """
    scores = [score(features(passage)) for passage in passages(text)]
    if not scores:
        return False
    greatest, model = max(scores), _model()
    # The more passages a text has, the higher the greatest score that chance alone produces.
    if greatest - math.log(len(scores)) >= model.floor:
        return True
    return greatest >= model.floor_with_rules and is_addressed(text)


def passages(text: str) -> list[str]:
    """Return each sentence of a text together with the next, which helps to understand it; a single sentence alone.

    Long passages are divided where clauses end, so that many words around an order do not hide it.
    """
    text = unicodedata.normalize("NFKC", LABELS.sub("", text[:_LONGEST]))
    sentences = [sentence.strip() for sentence in _SENTENCES.split(text) if sentence.strip()]
    pairs = [" ".join(sentences[at : at + 2]) for at in range(max(1, len(sentences) - 1) if sentences else 0)]
    found = [
        passage.strip()
        for pair in pairs
        for passage in ([pair] if len(pair) <= _LONGEST_PAIR else _CLAUSES.findall(pair))
    ]
    return list(dict.fromkeys(filter(None, found)))


def features(passage: str) -> Features:
    """Return the features of one or two sentences; all numbers count as the same, and so do letters of either case."""
    found = _WORDS.findall(passage.lower().replace("’", "'"))
    words = ["0" if word.isdecimal() else word[:_LONGEST_WORD] for word in found]
    pairs = (f"{one} {other}" for one, other in zip(["<", *words], [*words, ">"], strict=True))
    parts = {
        padded[at : at + length]
        for padded in (f" {word} " for word in set(words))
        for length in _PART_LENGTHS
        for at in range(max(1, len(padded) - length + 1))
    }
    return Features(_hashed({*words, *pairs}, WORD_BUCKETS), _hashed(parts, PART_BUCKETS))


def score(found: Features) -> float:
    """Return how much a passage reads like an order to its reader: the logarithm of the odds according to the fitted
    model.
    """
    model = _model()
    of_words, of_parts = found.shares
    words = sum(model.words[bucket] for bucket in found.words) * of_words
    parts = sum(model.parts[bucket] for bucket in found.parts) * of_parts
    return (words + parts) * model.scale + model.bias


def _hashed(texts: set[str], buckets: int) -> list[int]:
    return sorted({zlib.crc32(text.encode("utf-8", "surrogatepass")) % buckets for text in texts})


@cache
def _model() -> _Model:
    stored = json.loads(Path(__file__).with_name("directive_weights.json").read_text(encoding="utf-8"))
    weights = array("b", zlib.decompress(b64decode(stored["weights"])))
    return _Model(
        words=weights[:WORD_BUCKETS],
        parts=weights[WORD_BUCKETS:],
        scale=stored["scale"],
        bias=stored["bias"],
        floor=stored["floor"],
        floor_with_rules=stored["floor_with_rules"],
    )
