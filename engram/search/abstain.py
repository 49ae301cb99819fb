"""Decide how many hits to show, dropping weak matches; possibly none remains. Pure.

Two measures decide together: a hit's score, and how well the store supports the question at all (``query_support``). A
well-supported question gets many hits; a poorly supported one gets only very likely hits.
"""

from __future__ import annotations

from collections.abc import Iterable
from heapq import nlargest
from itertools import accumulate, chain

import numpy as np
from numpy.typing import NDArray

from engram.search.question import Coverage, ParsedQuery
from engram.search.ranking import MemoryCandidates
from engram.system.lazy_regex import lazy_regex
from engram.text.words import is_unspaced

#: Number of top cosines that are averaged.
TOP_COSINES = 5
#: Minimum score of a hit at a support of 1, in general and in a chat, and how much it falls per unit of support above
#: 1.
MIN_SCORE, MIN_SCORE_CHAT, SCORE_SLOPE = 0.85, 0.45, 0.45
#: Support above this has no further effect.
MAX_SUPPORT = 1.33
#: Deducted from the support of a question that contains a proper name found nowhere in the store.
UNKNOWN_NAME_PENALTY = 0.83
#: Minimum support of a lookup: a few known words, a known name, or a date. From this support up, at least ``MIN_HITS``
#: hits are shown.
LOOKUP_SUPPORT, MIN_HITS = 1.2, 3
#: A question with fewer terms than this is a lookup if all of them are known.
_MIN_QUESTION_TERMS = 3
#: Support below which a question is unsupported. For memories, the limit is lower and only the best cosine counts,
#: since a young store may contain only one match.
UNSUPPORTED, UNSUPPORTED_BY_MEMORIES = 1.06, 0.93
#: Minimum cosine of the nearest hit, in units of the model's relevance floor. If it is lower and the support is below
#: that of a lookup, nothing in the store answers the question.
MIN_NEAREST = 1.1
#: Minimum cosine of a memory for a well-supported question, and how much it rises per missing unit of support, in units
#: of the model's relevance floor.
MIN_COSINE, COSINE_SLOPE = 0.5, 0.5
#: A memory that contains this number and this share of the question's terms is shown regardless of its cosine.
_MIN_SHARED_TERMS, _MIN_SHARED_SHARE = 2, 0.5
#: Text without a vector is not a chance match if it contains this share of the question's words, weighted by rarity.
MIN_WORDS_SHARE = 0.25
#: Minimum length of machine text, in characters, and the share of its characters that are in plain words at most.
_MIN_MACHINE_CHARS, _MIN_PLAIN_SHARE = 200, 0.2
#: A letter, or a mark on it: the accents of decomposed text, and vowels of Hindi, Bengali or vocalised Arabic.
_LETTER = r"(?:[^\W\d_]|[\u0300-\u1fff\u200c\u200d])"
_PLAIN_WORD = lazy_regex(rf"""(?<!\S)["'“‘(*_`\[]*+({_LETTER}++(?:['’-]{_LETTER}++)*+)[)"'”’*_`\].,;:!?…।]*+(?!\S)""")
#: A name in backticks, as people and assistants write it in a sentence or list.
_NAME_IN_BACKTICKS = lazy_regex(r"(?<!`)`([^`\s]{1,80})`(?!`)")


def mean_top_cosine(cosines: Iterable[float]) -> float:
    largest = nlargest(TOP_COSINES, cosines)
    return sum(largest) / max(len(largest), 1)


def query_support(
    query: ParsedQuery,
    unknown_terms: frozenset[str],
    texts: Iterable[str],
    cosines: Iterable[float],
    relevance_floor: float,
) -> float:
    """Return how well the store supports a question: the mean of the top cosines, divided by the relevance floor.

    Args:
        unknown_terms: the question's terms that occur nowhere in the store.
        relevance_floor: the model's cosine below which text is unrelated to a question; 0 without a model, which
            gives every question full support.
    """
    if relevance_floor <= 0:
        return MAX_SUPPORT
    support = mean_top_cosine(cosines) / relevance_floor
    # A question without terms, such as a single letter, does not ask for anything that the memory could contain.
    is_short_and_known = 0 < len(query.terms) < _MIN_QUESTION_TERMS and not unknown_terms.intersection(query.terms)
    is_lookup = is_short_and_known or query.date_range is not None
    if query.names or query.proper_names:
        all_texts = "\n".join(texts).lower()
        is_lookup = is_lookup or any(name in all_texts for name in query.names)
        if any(name in unknown_terms and name not in all_texts for name in query.proper_names):
            support -= UNKNOWN_NAME_PENALTY
    return max(support, LOOKUP_SUPPORT) if is_lookup else support


def is_unsupported(support: float) -> bool:
    return support < UNSUPPORTED


def is_unanswered(support: float, nearest_cosine: float, relevance_floor: float) -> bool:
    """Return True if no hit answers a question, because its support is low and no hit is near."""
    return support < LOOKUP_SUPPORT and is_far(nearest_cosine, relevance_floor)


def is_far(nearest_cosine: float, relevance_floor: float) -> bool:
    """Return whether even the nearest hit is too far from a question to answer it."""
    return nearest_cosine < MIN_NEAREST * relevance_floor


def select_relevant(
    candidates: MemoryCandidates, query: ParsedQuery, coverage: Coverage, relevance_floor: float
) -> tuple[NDArray[np.bool_], bool]:
    """Return which memories may be shown, and whether the question is unsupported by the memories as a whole.

    A memory may be shown if its cosine is high enough, if it contains a name from the question or half of its terms, or
    if it has no vector yet. Without a model, all may be shown.
    """
    known = candidates.cosine[~np.isnan(candidates.cosine)]
    if relevance_floor <= 0 or not len(known):
        return np.ones(len(candidates), dtype=np.bool_), False
    support = query_support(query, coverage.unknown_terms, candidates.texts, [float(known.max())], relevance_floor)
    min_cosine = relevance_floor * (MIN_COSINE + COSINE_SLOPE * max(0.0, MAX_SUPPORT - support))
    is_relevant = [
        np.isnan(cosine) or cosine >= min_cosine or shares_words(text.lower(), query, coverage)
        for cosine, text in zip(candidates.cosine, candidates.texts, strict=True)
    ]
    return np.array(is_relevant, dtype=np.bool_), support < UNSUPPORTED_BY_MEMORIES


def shares_words(text: str, query: ParsedQuery, coverage: Coverage) -> bool:
    """Return whether lower-case text contains a name from the question, or enough of its terms."""
    shared = len(coverage.stems_in(text))
    if shared >= _MIN_SHARED_TERMS and shared >= _MIN_SHARED_SHARE * len(query.terms):
        return True
    return any(name in text for name in query.names)


def is_above_floor(
    text: str, cosine: float, query: ParsedQuery, coverage: Coverage, relevance_floor: float, *, nearby: str = ""
) -> bool:
    """Return whether a passage or a note's chunk may be shown; False if it matches only by chance.

    Args:
        cosine: the text's cosine to the question; NaN if it has no vector, in which case only its words count.
        nearby: the text together with its neighbours; "" to use only the text.
    """
    text = text.lower()
    shared = coverage.stems_in(text)
    if len(shared) >= max(len(query.terms), 1) or shares_words(text, query, coverage):
        return True
    if not np.isnan(cosine):
        return cosine >= MIN_COSINE * relevance_floor
    is_chance = len(shared) < _MIN_SHARED_TERMS
    return not is_chance or coverage.share_of_all(coverage.stems_in(nearby or text)) >= MIN_WORDS_SHARE


def is_near_by_chance(text: str, query: ParsedQuery, coverage: Coverage) -> bool:
    """Return True if a text is machine text and lacks one of the question's words.

    The vectors of logs, stack traces, markup and data are near those of many questions, but such a text answers only
    questions that quote it.
    """
    return is_machine_text(text) and len(coverage.stems_in(text.lower())) < max(len(query.terms), 1)


def is_machine_text(text: str) -> bool:
    """Return True for a long text that consists of hardly any plain words."""
    if len(text) <= _MIN_MACHINE_CHARS or is_unspaced(text):
        return False
    enough = _MIN_PLAIN_SHARE * sum(map(len, text.split()))
    # Most texts have enough plain words near their beginning, and every candidate of a search is checked.
    plain = chain(_PLAIN_WORD.finditer(text), _NAME_IN_BACKTICKS.finditer(text))
    return all(so_far < enough for so_far in accumulate((len(word[1]) for word in plain), initial=0))


def count_likely(scores: Iterable[float], support: float, *, is_chat: bool) -> int:
    """Return how many of the hits to show, given their scores and the question's support."""
    min_score = MIN_SCORE_CHAT if is_chat else MIN_SCORE
    likely = sum(score >= min_score - SCORE_SLOPE * (min(support, MAX_SUPPORT) - 1.0) for score in scores)
    return max(likely, MIN_HITS) if support >= LOOKUP_SUPPORT else likely
