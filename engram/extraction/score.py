"""The quality of a passage: a small logistic model over cues, place and specificity."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence

from engram.extraction.bite import Passage
from engram.extraction.cues import COUNTED, TOPICAL
from engram.extraction.languages import word_count
from engram.extraction.place import Place
from engram.text.content_words import content_words
from engram.text.statements import Block, Statement

_TICKED = re.compile(r"`[^`]+`")
_SYMBOL = re.compile(
    r"\b(?:[a-z]+[A-Z]\w*|[A-Z][a-z0-9]+[A-Z]\w*|\w+_\w+|[\w./-]+/[\w./-]+|\w+\.\w{1,5}(?!\w)|--\w[\w-]*)\b"
)
_NUMBER = re.compile(r"(?<![\w.])\d[\d.,]*%?(?![\w.])")
_QUOTED = re.compile(r"[\"“'‘][^\"”'’]{3,}[\"”'’]")
_WORD = re.compile(r"[A-Za-z0-9_]+")
_PATH_LEAD = re.compile(r"^`?[\w.-]*[/\\.][\w./\\:-]*`?(?: \([^)]*\))?\s*[:—–-]\s")


def features(passage: Passage, statements: Sequence[Statement], place: Place, messages: int = 1) -> dict[str, float]:
    """Return the features of a passage by name, each between 0 and about 3.

    Args:
        passage: The passage.
        statements: The statements of its stream.
        place: Place of its first message.
        messages: Number of messages that it spans.
    """
    first = statements[passage.start]
    bite = passage.bite
    count = word_count(bite)
    values = {name: min(3.0, float(len(p.findall(bite)))) ** 0.5 for name, p in COUNTED.items()}
    label = f"{first.topic} {first.lead}"
    values.update({name: float(bool(p.search(label))) for name, p in TOPICAL.items()})
    values.update(_surface(bite, count))
    values.update(_position(passage, first, len(statements), place))
    values.update(_relations(bite, place))
    values["joined"] = min(3, messages - 1) / 3
    if place.is_user:
        values = {f"user_{name}": value for name, value in values.items()} | {"user": 1.0}
    return values


def _relations(bite: str, place: Place) -> dict[str, float]:
    """Return how the passage relates to the prompt, its own message and the turn's other messages."""
    said = content_words(bite)
    size = max(1, len(said))
    restated = max((len(said & other) for other in place.other_words), default=0)
    return {
        "echo": len(said & place.prompt_words) / size,
        "restated": restated / size,
        "share": min(1.0, size / max(1, len(place.message_words))),
        "asked": float(place.asked),
        "prompt_chars": math.log10(max(10, place.prompt_chars)) - 1,
        "agreed": float(place.is_agreed),
        "objected": float(place.is_objected),
        "asks_back": float(place.asks_back),
        "salience": sum(math.log(place.word_counts.get(word, 1)) for word in sorted(said)) / size,
        "salient": sum(place.word_counts.get(word, 0) > 1 for word in said) / 20,
        "in_commit": len(said & place.commit_words) / size,
        "in_files": min(3, len(said & place.file_words)) / 3,
        "in_answer": min(4, len(said & place.answer_words)) / 4,
    }


def _surface(bite: str, count: int) -> dict[str, float]:
    words = _WORD.findall(bite)
    return {
        "length": count / 40,
        "short": float(count < 12),
        "ticks": min(4, len(_TICKED.findall(bite))) ** 0.5,
        "symbols": min(6, len(_SYMBOL.findall(bite))) ** 0.5,
        "numbers": min(4, len(_NUMBER.findall(bite))) ** 0.5,
        "quotes": float(bool(_QUOTED.search(bite))),
        "question": float("?" in bite),
        "colon": float(":" in bite),
        "path_lead": float(bool(_PATH_LEAD.match(bite))),
        "long_words": sum(len(w) > 7 for w in words) / max(1, len(words)),
        "tokens": min(2.0, len(set(words)) / 30),
        "parens": float("(" in bite),
    }


def _position(passage: Passage, first: Statement, statements: int, place: Place) -> dict[str, float]:
    share = passage.start / max(1, statements - 1)
    return {
        "closing": float(place.is_closing),
        "first_message": float(place.is_first),
        "opening": float(passage.start == 0),
        "second": float(passage.start in (1, 2)),
        "late": share,
        "chars": math.log10(max(10, place.chars)) - 1,
        "long_middle": float(not place.is_closing and place.chars > 700),
        "short_middle": float(not place.is_closing and place.chars < 200),
        "many_messages": math.log10(max(1, place.messages)),
        "prefix": float(bool(passage.prefix)),
        "topic": float(bool(first.topic)),
        "bullet": float(first.block is Block.BULLET),
        "row": float(first.block is Block.ROW),
        "depth": min(2, first.depth) / 2,
        "merged": min(4, passage.stop - passage.start) / 4,
        "edits": float(place.has_edits),
        "commit": float(place.has_commit),
        "errors": float(place.has_errors),
        "after_error": float(place.after_error),
        "before_edit": float(place.before_edit),
        "before_tools": float(place.before_tools),
    }


def quality(values: dict[str, float], weights: Mapping[str, float]) -> float:
    """Return the probability that the passage is worth keeping."""
    total = weights.get("bias", 0.0) + sum(weights.get(name, 0.0) * value for name, value in values.items())
    return 1 / (1 + math.exp(-max(-30.0, min(30.0, total))))
