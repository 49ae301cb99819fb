"""Find how a turn ended: its last message often has the answer that its passages only lead up to."""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Sequence

from engram.models.engine.transaction import Reader
from engram.models.sessions.passage_rows import normalised_text
from engram.models.sessions.stored_quotations import barred_quotations
from engram.models.sessions.stored_turns import StoredTurn, turns_after, turns_by_row
from engram.search.hit_lines import count_words, may_be_planted
from engram.search.hits import Hit, is_said
from engram.search.question import Coverage
from engram.system.lazy_regex import lazy_regex
from engram.text.splitting import Statement, split
from engram.text.words import stems, topic_words
from engram.transcripts.turns import Role, Turn

#: Number of passages, the best ones, for which the end of the turn is shown.
MAX_TURN_ENDS = 5
#: Maximum number of words of a turn's end.
MAX_OUTCOME_WORDS = 80
#: Minimum number of informative words in it: "Fixed." is not worth showing.
MIN_TELLING_WORDS = 3
#: Number of later turns to examine if a turn ended without a result.
MAX_LATER_TURNS = 4
#: Weights of a statement's score: its share of the question's words, words of a reason or result, its position in the
#: message, and whether it is a passing remark. Chosen on 152 questions about 66 sessions.
_COVERAGE_WEIGHT, _SIGN_WEIGHT, _PLACE_WEIGHT, _PASSING_WEIGHT = 0.5, 0.3, -0.03, -0.3
#: The second best statement of a run adds this share of its score, the third this share squared, and so on.
_NEXT_SHARE = 0.5
_RESULT = lazy_regex(
    r"\b(?:because|cause|reason|due to|so that|turns out|the (?:problem|issue|bug|fix) (?:is|was)|instead|fix(?:ed)?|"
    r"solution|resolved|replaced?|switched|no longer|decided|weil|Ursache|Grund|behoben|statt)\b",
    re.IGNORECASE,
)
_PASSING = lazy_regex(
    r"(?:let me|now let|now i\b|i'll|i will|perfect|great|good|excellent|all (?:tests|clean|green)|looking at|"
    r"i need to|first,|next,|ok(?:ay)?\b|checking|running|done[.!]?$|i (?:can )?see\b)",
    re.IGNORECASE,
)


def ends_of_turns(store: Reader, hits: Sequence[Hit], wanted: Coverage) -> dict[str, str]:
    """Return id → how the turn of a passage ended, for the best passages, without what the passage itself says.

    Args:
        wanted: the weights of the question's words.
    """
    best = {hit.turn_id: hit for hit in reversed(hits[:MAX_TURN_ENDS]) if hit.turn_id is not None}
    _, barred = barred_quotations(store)
    ends = {
        best[stored.id].id: _end_of_turn(store, stored, best[stored.id].text, wanted, barred)
        for stored in turns_by_row(store, list(best))
    }
    return {
        hit_id: text
        for hit_id, text in ends.items()
        if len(topic_words(text)) >= MIN_TELLING_WORDS and not may_be_planted(text)
    }


def _end_of_turn(store: Reader, stored: StoredTurn, said: str, wanted: Coverage, barred: Collection[str]) -> str:
    """Return how a turn ended; if the user interrupted it with further prompts, how the turns of those ended."""
    end = _closing_statements(stored.turn, said, wanted, barred)
    later = iter(() if end else turns_after(store, stored, MAX_LATER_TURNS))
    return end or next(filter(None, (_closing_statements(other.turn, said, wanted, barred) for other in later)), "")


def _closing_statements(turn: Turn, said: str, wanted: Coverage, barred: Collection[str]) -> str:
    """Return the most informative run of statements in a turn's last message that ``said`` does not contain.

    Returns "" for a message that only announces what comes next. Statements in ``barred`` texts, which were judged
    wrong, are left out.
    """
    message = next((block.text for block in reversed(turn.said) if block.role is Role.ASSISTANT), "")
    known = [stems(topic_words(said))]
    statements = [
        (place, text)
        for place, text in enumerate(split(message))
        if not is_said(text.text, known) and not any(normalised_text(text.text) in other for other in barred)
    ]
    texts = [statement.text for _, statement in statements]
    if all(_PASSING.match(text) for text in texts):
        return ""
    scores = [_telling(place, statement, wanted) for place, statement in statements]
    best, run = -math.inf, range(0)
    for first in range(len(texts)):
        last = _run_end(texts, first)
        score = sum(value * _NEXT_SHARE**rank for rank, value in enumerate(sorted(scores[first:last], reverse=True)))
        if score > best + 1e-9:
            best, run = score, range(first, last)
    kept = [texts[place] for place in run]
    while kept and kept[-1].endswith(":"):
        # A heading such as "Sources:", whose list is not shown.
        kept.pop()
    words = " ".join(kept).split()
    return " ".join(words if len(words) <= MAX_OUTCOME_WORDS else [*words[: MAX_OUTCOME_WORDS - 1], "…"])


def _run_end(texts: Sequence[str], first: int) -> int:
    """Return the end (exclusive) of the run from ``first`` that fits the word limit; at least one statement."""
    last, words = first + 1, count_words(texts[first])
    while last < len(texts) and words + count_words(texts[last]) <= MAX_OUTCOME_WORDS:
        words += count_words(texts[last])
        last += 1
    return last


def _telling(place: int, statement: Statement, wanted: Coverage) -> float:
    covered = wanted.share(wanted.stems_in(f"{statement.topic} {statement.text}"))
    score = _COVERAGE_WEIGHT * covered + _PLACE_WEIGHT * place
    score += _SIGN_WEIGHT if _RESULT.search(statement.text) else 0.0
    return score + (_PASSING_WEIGHT if _PASSING.match(statement.text) else 0.0)
