"""Features of what is current: the later of two passages on one matter, words of change, the end of a session. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from engram.models.passage_rows import PassageRow
from engram.search.episodes.candidates import Column
from engram.search.passages.candidate_set import Shortlist
from engram.search.question.intent import TextTraits
from engram.search.question.parsed import ParsedQuery
from engram.text.question_words import STOP_WORDS

#: Lateness is measured against this number of the best passages.
_MAX_LATE_AMONG = 25
#: A passage is compared with this number of the best passages.
_MAX_RIVALS = 60
#: Two passages are about one matter if they share this number of words, and this share of the shorter one's.
_MIN_SHARED_WORDS, _MIN_SHARED_SHARE = 3, 0.25
_WORD = re.compile(r"[a-z_][a-z0-9_]{2,}")


def extract_recency_features(
    shortlist: Shortlist,
    rows: Sequence[PassageRow],
    traits: Sequence[TextTraits],
    query: ParsedQuery,
    *,
    is_chat: bool,
) -> dict[str, Column]:
    """Return how late a passage is among the best, among those about its matter, and in its session.

    The last two are 0 in a chat, where what was said first holds as long as what was said last.
    """
    at = np.array([row.at_ms for row in rows], dtype=np.float64)
    top = at[:_MAX_LATE_AMONG]
    low, high = (float(top.min()), float(top.max())) if len(top) else (0.0, 0.0)
    late = np.clip((at - low) / max(high - low, 1.0), 0.0, 1.0)
    zeros = np.zeros(len(rows))
    return {
        "late": late,
        "late_now": late * query.intent.wants_latest,
        "change": np.array([trait.is_change for trait in traits]),
        "newest": zeros if is_chat else _newest(shortlist, rows),
        "in_session": zeros if is_chat else _place_in_session(rows),
    }


def _newest(shortlist: Shortlist, rows: Sequence[PassageRow]) -> Column:
    """Return how far a passage supersedes an earlier one on its matter, less how far one supersedes it, from -1 to 1.

    Similarity is weighted by the rival's prerank score. Passages of one entry never supersede each other.
    """
    similarity = _similarity([frozenset(_WORD.findall(row.text.lower())) - STOP_WORDS for row in rows], _MAX_RIVALS)
    rivals = similarity.shape[1]
    block, order = np.array([row.said_id for row in rows]), _time_order(rows)
    prerank = shortlist.candidates.prerank_score[shortlist.places[:rivals]]
    similarity = np.where(block[:, None] == block[None, :rivals], 0.0, similarity) * prerank
    is_later = order[None, :rivals] > order[:, None]
    superseded = np.where(is_later, similarity, 0.0).max(axis=1, initial=0.0)
    return np.asarray(np.where(is_later, 0.0, similarity).max(axis=1, initial=0.0) - superseded, dtype=np.float64)


def _similarity(word_sets: Sequence[frozenset[str]], rivals: int) -> Column:
    """Return for each text and each of the first ``rivals`` the share of words in common; 0 if it is small."""
    columns: dict[str, int] = {}
    places = [[columns.setdefault(word, len(columns)) for word in words] for words in word_sets]
    table: NDArray[np.float32] = np.zeros((len(word_sets), max(len(columns), 1)), dtype=np.float32)
    for number, word_columns in enumerate(places):
        table[number, word_columns] = 1
    sizes = table.sum(axis=1)
    shared = table @ table[:rivals].T
    share = shared / np.maximum(np.minimum(sizes[:, None], sizes[None, :rivals]), 1.0)
    is_same_matter = (shared >= _MIN_SHARED_WORDS) & (share >= _MIN_SHARED_SHARE)
    return np.where(is_same_matter, share, 0.0).astype(np.float64)


def _time_order(rows: Sequence[PassageRow]) -> NDArray[np.intp]:
    """Return the place of each passage in time.

    Row ids alone don't tell: transcripts may have been read in any order. They order the passages of one entry.
    """
    places = np.lexsort(([row.id for row in rows], [row.at_ms for row in rows]))
    order: NDArray[np.intp] = np.argsort(places)
    return order


def _place_in_session(rows: Sequence[PassageRow]) -> Column:
    """Return from 0, the first of its session among these, to 1, the last; 0 for the only one."""
    places = np.zeros(len(rows))
    sessions, ids = np.array([row.session_ref for row in rows]), np.array([row.id for row in rows])
    for session in np.unique(sessions):
        inside = np.flatnonzero(sessions == session)
        if len(inside) > 1:
            places[inside] = np.argsort(np.argsort(ids[inside])) / (len(inside) - 1)
    return places
