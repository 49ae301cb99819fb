"""Retrieve the candidates of a search from the text index and the vectors, in bounded numbers."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

import numpy as np

from engram.models.fulltext import search_passages
from engram.models.passage_rows import (
    PassageRow,
    barred_quotations,
    passage_rows,
    passage_spots,
    passages_between,
    plain,
)
from engram.models.store import Store
from engram.search.passages.candidate_set import Shortlist, build_candidate_set, select_shortlist
from engram.search.question.coverage import Coverage
from engram.search.question.parsed import ParsedQuery
from engram.search.question.query import Query
from engram.search.question.terms import TermCounts, select_terms
from engram.search.vectors.cache import Floats, VectorCache

#: Maximum number of candidates from the text index, and from the vectors: more would cost more time than they find.
MAX_TEXT_CANDIDATES, MAX_VECTOR_CANDIDATES = 200, 100
#: Maximum length of the shortlist; it is shorter if few hits are wanted, without effect on the first ten.
MAX_SHORTLIST = 150
_MIN_SHORTLIST, _SHORTLIST_PER_HIT = 60, 4
#: Maximum number of passages that are shortlisted because they are of the time that the question names.
MAX_DATED_PASSAGES = 100


@dataclass(frozen=True, slots=True)
class SearchIndex:
    """Where one kind of row (passages, chunks of notes) is searched: the store, its vectors and its term counts."""

    store: Store
    #: None without a model.
    vectors: VectorCache | None
    term_counts: TermCounts
    #: The model's cosine below which a text is unrelated to a question; 0 without a model.
    relevance_floor: float = 0.0


def retrieve_passages(
    index: SearchIndex, query: Query, parsed: ParsedQuery, vector: Floats | None, among: Collection[int] | None = None
) -> tuple[Shortlist, Coverage]:
    """Return the shortlist of passages for a question, and the weights of its terms.

    With ``among`` it is these passages, whether they match or not.
    """
    store, vectors = index.store, index.vectors
    counts, total = index.term_counts.count(store, parsed.terms)
    terms = select_terms(parsed.terms, counts, total)
    bm25 = dict(search_passages(store, terms, MAX_TEXT_CANDIDATES, project_id=query.project_id))
    matches = set(bm25) if among is None else set(among)
    if among is None and vector is not None and vectors is not None:
        nearest = vectors.search(vector, MAX_VECTOR_CANDIDATES, query.project_id, with_global=query.with_global)
        matches |= set(nearest)
    dated = _dated_passages(store, query, parsed) if among is None else set()
    wide = {row_id + distance for row_id in matches | dated for distance in (-1, 0, 1)}
    keys = passage_spots(store, sorted(wide), query.project_id)
    cosines = vectors.scores_of(vector, [key[0] for key in keys]) if vector is not None and vectors is not None else {}
    candidates = build_candidate_set(keys, bm25, cosines)
    if among is None:
        limit = min(MAX_SHORTLIST, _MIN_SHORTLIST + _SHORTLIST_PER_HIT * query.limit)
        places = select_shortlist(candidates, limit, frozenset(dated), MAX_DATED_PASSAGES)
    else:
        places = np.flatnonzero(np.isin(candidates.ids, list(among)))
    nearby = {int(candidates.ids[place]) + distance for place in places for distance in (-2, -1, 0, 1, 2)}
    rows = _without_barred(store, passage_rows(store, sorted(nearby)))
    stored = np.array([place for place in places if int(candidates.ids[place]) in rows], dtype=np.int64)
    return Shortlist(candidates, stored, rows), Coverage(parsed.terms, counts, total)


def _without_barred(store: Store, rows: dict[int, PassageRow]) -> dict[int, PassageRow]:
    """Return the passages without those that were judged wrong, and without others that say the same."""
    ids, texts = barred_quotations(store)
    if not ids:
        return rows
    return {row_id: row for row_id, row in rows.items() if row_id not in ids and plain(row.text) not in texts}


def _dated_passages(store: Store, query: Query, parsed: ParsedQuery) -> set[int]:
    """Return the row ids of passages of the time that the question names, in the latest year that has any."""
    if parsed.date_range is None:
        return set()
    for start_ms, stop_ms in parsed.date_range.occurrences(parsed.now_ms):
        ids = passages_between(store, start_ms, stop_ms, project_id=query.project_id)
        if ids:
            return set(ids)
    return set()
