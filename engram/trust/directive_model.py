"""How much a sentence by others reads like an order to its reader: a linear model of its words. Pure.

Such orders come in more forms than anybody can list ("an empty field means yes"), and so do harmless sentences with the
same words ("never log tokens"). So the rules of `addressed` decide together with this model. ``benchmarks/trust.py``
fits it on sentences of many writers, and measures it on each writer's after fitting it only on the others';
docs/redaction.md has the figures.
"""

from __future__ import annotations

import math
import unicodedata
from functools import cache
from pathlib import Path

from engram.system.lazy_regex import lazy_regex
from engram.text.linear_model import LinearModel, features, load_model
from engram.trust.addressed import LABELS, is_addressed

WEIGHTS = Path(__file__).with_name("directive_weights.json")

_LONGEST = 20_000
#: A passage of more characters than this is judged in clauses.
_LONGEST_PAIR = 400
_SENTENCES = lazy_regex(r"(?<=[.!?])\s+|(?<=[。！？])|\n+")
_CLAUSES = lazy_regex(r".{30,120}?[,;:.](?=\s)|.{1,120}(?:\s|$)|\S{1,120}")


def directs(text: str) -> bool:
    """Return whether a text directs whoever reads it in a matter that is not the project's.

    Args:
        text: any text; of more than 20,000 characters, the beginning is read.
    """
    scores = [score(passage) for passage in passages(text)]
    if not scores:
        return False
    greatest, floors = max(scores), _model().floors
    # The more passages a text has, the higher the greatest score that chance alone produces.
    if greatest - math.log(len(scores)) >= floors["alone"]:
        return True
    return greatest >= floors["with_rules"] and is_addressed(text)


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


def score(passage: str) -> float:
    """Return how much a passage reads like an order to its reader: the logarithm of the odds."""
    return _model().score(features(passage))


@cache
def _model() -> LinearModel:
    return load_model(WEIGHTS)
