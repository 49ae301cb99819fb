"""What holds now: of passages about the same matter the later one, words of change, the end of a session. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from engram.models.search_rows import PassageRow
from engram.search.episodes.pool import Column
from engram.search.passages.candidate_set import Read
from engram.search.question.intent import TextForm
from engram.search.question.parsed import Asked
from engram.text.question_words import STOP_WORDS

#: Among so many of the best guesses "later" is measured.
_LATE_AMONG = 25
#: So many of the best guesses may be about the same matter as a passage.
_RIVALS = 60
#: Two passages are about the same matter when they share so many telling words, and so much of the shorter one's.
_FEWEST_SHARED, _LEAST_ALIKE = 3, 0.25
_WORD = re.compile(r"[a-z_][a-z0-9_]{2,}")


def latest_signs(
    read: Read, rows: Sequence[PassageRow], forms: Sequence[TextForm], asked: Asked, *, is_chat: bool
) -> dict[str, Column]:
    """How late a passage is among the best guesses, among those about its matter, and in its session.

    The last two are 0 in a chat, where what was said first holds as long as what was said last.
    """
    at = np.array([row.at_ms for row in rows], dtype=np.float64)
    top = at[:_LATE_AMONG]
    low, high = (float(top.min()), float(top.max())) if len(top) else (0.0, 0.0)
    late = np.clip((at - low) / max(high - low, 1.0), 0.0, 1.0)
    none = np.zeros(len(rows))
    return {
        "late": late, "late_now": late * asked.form.wants_latest,
        "change": np.array([form.is_change for form in forms]),
        "newest": none if is_chat else _newest(read, rows),
        "in_session": none if is_chat else _place_in_session(rows),
    }  # fmt: skip


def _newest(read: Read, rows: Sequence[PassageRow]) -> Column:
    """From -1 to 1: how much a passage overtakes an earlier one about the same matter, less how much one overtakes it.

    Only what might answer the question counts, by its first guess; passages of the same text never overtake another.
    """
    alike = _alike([frozenset(_WORD.findall(row.text.lower())) - STOP_WORDS for row in rows], _RIVALS)
    rivals = alike.shape[1]
    said, order = np.array([row.said_id for row in rows]), _order(rows)
    alike = np.where(said[:, None] == said[None, :rivals], 0.0, alike) * read.pool.base[read.chosen[:rivals]]
    is_later = order[None, :rivals] > order[:, None]
    overtaken = np.where(is_later, alike, 0.0).max(axis=1, initial=0.0)
    return np.asarray(np.where(is_later, 0.0, alike).max(axis=1, initial=0.0) - overtaken, dtype=np.float64)


def _alike(words: Sequence[frozenset[str]], rivals: int) -> Column:
    """For each text and each of the first ``rivals`` the share of words that they have in common; 0 where it is small."""
    known: dict[str, int] = {}
    places = [[known.setdefault(word, len(known)) for word in some] for some in words]
    table: NDArray[np.float32] = np.zeros((len(words), max(len(known), 1)), dtype=np.float32)
    for number, some in enumerate(places):
        table[number, some] = 1
    sizes = table.sum(axis=1)
    shared = table @ table[:rivals].T
    share = shared / np.maximum(np.minimum(sizes[:, None], sizes[None, :rivals]), 1.0)
    return np.where((shared >= _FEWEST_SHARED) & (share >= _LEAST_ALIKE), share, 0.0).astype(np.float64)


def _order(rows: Sequence[PassageRow]) -> NDArray[np.intp]:
    """The place of each in time; transcripts may have been read in any order, the parts of one entry stand in theirs."""
    places = np.lexsort(([row.id for row in rows], [row.at_ms for row in rows]))
    order: NDArray[np.intp] = np.argsort(places)
    return order


def _place_in_session(rows: Sequence[PassageRow]) -> Column:
    """From 0, the first of its session among these, to 1, the last; 0 where it is the only one."""
    places = np.zeros(len(rows))
    sessions, ids = np.array([row.session_ref for row in rows]), np.array([row.id for row in rows])
    for one in np.unique(sessions):
        inside = np.flatnonzero(sessions == one)
        if len(inside) > 1:
            places[inside] = np.argsort(np.argsort(ids[inside])) / (len(inside) - 1)
    return places
