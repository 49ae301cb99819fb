"""Collect the candidates of a passage search with their neighbours, and shortlist those to rank by all features."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from engram.models.engine.transaction import Store
from engram.models.search.fulltext import search_passages
from engram.models.sessions.passage_rows import (
    PassageRow,
    barred_quotations,
    normalised_text,
    passage_rows,
    passage_spots,
    passages_between,
)
from engram.search.question import Coverage, ParsedQuery, Query, TermCounts, select_terms
from engram.search.ranking import Column, means_of_best
from engram.search.vectors.loaded_vectors import Floats, VectorCache

#: Weights of text and vector in the prerank score.
_TEXT_WEIGHT, _VECTOR_WEIGHT = 0.45, 0.55
#: Shares of other prerank scores that are added to a passage's own: of its neighbours, of the passages next to those,
#: and of its session.
_NEIGHBOUR_SHARE, _SECOND_NEIGHBOUR_SHARE, _SESSION_SHARE = 0.2, 0.1, 0.3

Indexes: TypeAlias = NDArray[np.int64]
#: Waits for a question's vector, which is computed in another thread, and returns it; None without a model.
VectorWait: TypeAlias = Callable[[], Floats | None]
#: Row id, session, turn and text block of each passage.
PassageKeys: TypeAlias = Sequence[tuple[int, int, int, int]]


@dataclass(frozen=True, slots=True)
class CandidateSet:
    """Candidates and their neighbours, ordered by row id, as columns of the same length."""

    ids: NDArray[np.int64]
    session: NDArray[np.int64]
    turn: NDArray[np.int64]
    #: Row id of the text block that contains the passage.
    block: NDArray[np.int64]
    #: BM25 as a share of the best; 0 if the text did not match.
    text: Column
    #: Cosine to the question, at least 0; NaN if unknown: the passage has no vector yet, or no model is loaded.
    cosine: Column
    #: The inexpensive score that selects the shortlist; some features use it to compare passages.
    prerank_score: Column

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def is_unknown(self) -> NDArray[np.bool_]:
        return np.isnan(self.cosine)

    @property
    def known_cosines(self) -> Column:
        return self.cosine[~self.is_unknown]

    def by_words(self) -> CandidateSet:
        """Return the same candidates as in a search without a model."""
        unknown = np.full(len(self), np.nan)
        return replace(self, cosine=unknown, prerank_score=_prerank(self.text, unknown))

    def neighbour_values(
        self, distance: int | Indexes, values: Column, places: Indexes | slice = slice(None)
    ) -> Column:
        """Return, for each place, the value of the passage that is ``distance`` places later in its session; 0 if there
        is none.

        A negative distance means earlier. A column of distances returns a row for each.
        """
        wanted = self.ids[places] + distance
        index = np.minimum(np.searchsorted(self.ids, wanted), max(len(self) - 1, 0))
        exists = (self.ids[index] == wanted) & (self.session[index] == self.session[places])
        return np.where(exists, values[index], 0.0)

    def best_in_group(self, groups: NDArray[np.int64], values: Column) -> Column:
        _, places = np.unique(groups, return_inverse=True)
        best = np.zeros(places.max(initial=-1) + 1)
        np.maximum.at(best, places, values)
        return best[places]


def build_candidate_set(keys: PassageKeys, bm25: Mapping[int, float], cosines: Mapping[int, float]) -> CandidateSet:
    """Return candidates with their prerank scores. ``keys`` are ordered by row id."""
    columns = np.array(keys, dtype=np.int64).reshape(len(keys), 4)
    ids = columns[:, 0].tolist()
    text = _share_of_best(np.array([bm25.get(row_id, 0.0) for row_id in ids]))
    cosine = np.maximum(np.array([cosines.get(row_id, np.nan) for row_id in ids], dtype=np.float64), 0.0)
    return CandidateSet(
        ids=columns[:, 0],
        session=columns[:, 1],
        turn=columns[:, 2],
        block=columns[:, 3],
        text=text,
        cosine=cosine,
        prerank_score=_prerank(text, cosine),
    )


def select_shortlist(
    candidates: CandidateSet, limit: int, also: frozenset[int] = frozenset(), also_limit: int = 0
) -> Indexes:
    """Return the places of the passages to rank, best first.

    Args:
        limit: maximum number of passages, chosen by their own, their neighbours' and their session's prerank scores.
        also: row ids; the best of them are added.
        also_limit: maximum number of row ids added.
    """
    prerank = candidates.prerank_score
    score = prerank + _NEIGHBOUR_SHARE * (
        candidates.neighbour_values(1, prerank) + candidates.neighbour_values(-1, prerank)
    )
    score = score + _SECOND_NEIGHBOUR_SHARE * (
        candidates.neighbour_values(2, prerank) + candidates.neighbour_values(-2, prerank)
    )
    score = score + _SESSION_SHARE * means_of_best(candidates.session, score)
    order = np.argsort(-score, kind="stable")
    chosen = order[:limit]
    if also:
        added = [place for place in np.argsort(-prerank, kind="stable") if int(candidates.ids[place]) in also]
        chosen = np.unique(np.concatenate([chosen, np.array(added[:also_limit], dtype=np.int64)]))
    return np.asarray(chosen[np.argsort(-score[chosen], kind="stable")], dtype=np.int64)


def shares_of_best_cosine(text: Column, cosine: Column) -> Column:
    """Return each cosine as a share of the best, or ``text`` where it is unknown; all 0 if no cosine is known."""
    is_known = ~np.isnan(cosine)
    shares = np.where(is_known, _share_of_best(np.nan_to_num(cosine)), text if is_known.any() else 0.0)
    return np.asarray(shares, dtype=np.float64)


def _prerank(text: Column, cosine: Column) -> Column:
    return _TEXT_WEIGHT * text + _VECTOR_WEIGHT * shares_of_best_cosine(text, cosine)


def _share_of_best(values: Column) -> Column:
    best = float(values.max(initial=0.0))
    return values / best if best > 0 else np.zeros(len(values))


@dataclass(frozen=True, slots=True)
class Shortlist:
    """The candidates to rank by all features, with their texts and those of their neighbours."""

    candidates: CandidateSet
    #: Places of the shortlisted passages among the candidates.
    places: Indexes
    #: Row id → passage, for the shortlisted passages and up to two before and after each of them.
    rows: Mapping[int, PassageRow]

    def __len__(self) -> int:
        return len(self.places)

    def row_at(self, place: int) -> PassageRow:
        return self.rows[int(self.candidates.ids[place])]

    def ranked_row(self, index: int) -> PassageRow:
        return self.row_at(int(self.places[index]))

    def neighbours(self, place: int) -> list[PassageRow]:
        """Return up to two passages before and two after a place, from the same session."""
        own = self.row_at(place)
        nearby = (self.rows.get(own.id + distance) for distance in (-2, -1, 1, 2))
        return [row for row in nearby if row is not None and row.session_ref == own.session_ref]


# -- Retrieve the candidates of a search from the text index and the vectors, in bounded numbers.

#: Maximum number of candidates from the text index, and from the vectors; more would only take longer.
MAX_TEXT_CANDIDATES, MAX_VECTOR_CANDIDATES = 200, 100
#: Maximum length of the shortlist; it is shorter if few hits are requested, which does not change the first ten.
MAX_SHORTLIST = 150
_MIN_SHORTLIST, _SHORTLIST_PER_HIT = 60, 4
#: Maximum number of passages shortlisted because they are from the time that the question names.
MAX_DATED_PASSAGES = 100


@dataclass(frozen=True, slots=True)
class SearchIndex:
    """The parts that a search of passages or note chunks needs: the store, its vectors and its term counts."""

    store: Store
    #: None without a model.
    vectors: VectorCache | None
    term_counts: TermCounts
    #: The model's cosine below which text is unrelated to a question; 0 without a model.
    relevance_floor: float = 0.0


def retrieve_passages(
    index: SearchIndex,
    query: Query,
    parsed: ParsedQuery,
    wait_for_vector: VectorWait,
    among: Collection[int] | None = None,
    *,
    is_worth: Callable[[CandidateSet], bool] | None = None,
) -> tuple[Shortlist, Coverage]:
    """Return the shortlist of passages for a question, and the weights of its terms.

    Args:
        wait_for_vector: called once the text has been searched.
        among: row ids of the passages to rank, whether they match or not; None for all matches.
        is_worth: called before any text is read; if it returns False, the shortlist is empty.
    """
    store, vectors = index.store, index.vectors
    counts, total = index.term_counts.count(store, parsed.terms)
    terms = select_terms(parsed.terms, counts, total)
    bm25 = dict(search_passages(store, terms, MAX_TEXT_CANDIDATES, project_id=query.project_id))
    matches, vector = set(bm25) if among is None else set(among), wait_for_vector()
    if among is None and vector is not None and vectors is not None:
        nearest = vectors.search(vector, MAX_VECTOR_CANDIDATES, query.project_id)
        matches |= set(nearest)
    dated = _dated_passages(store, query, parsed) if among is None else set()
    wide = {row_id + distance for row_id in matches | dated for distance in (-1, 0, 1)}
    keys = passage_spots(store, sorted(wide), query.project_id)
    cosines = vectors.scores_of(vector, [key[0] for key in keys]) if vector is not None and vectors is not None else {}
    candidates = build_candidate_set(keys, bm25, cosines)
    if is_worth is not None and not is_worth(candidates):
        return Shortlist(candidates, np.zeros(0, dtype=np.int64), {}), Coverage(parsed.terms, counts, total)
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
    """Return the passages, leaving out those that were judged wrong and any others with the same text."""
    ids, texts = barred_quotations(store)
    if not ids:
        return rows
    return {row_id: row for row_id, row in rows.items() if row_id not in ids and normalised_text(row.text) not in texts}


def _dated_passages(store: Store, query: Query, parsed: ParsedQuery) -> set[int]:
    """Return the row ids of passages from the time that the question names, in the latest year that has any."""
    if parsed.date_range is None:
        return set()
    for start_ms, stop_ms in parsed.date_range.occurrences(parsed.now_ms):
        ids = passages_between(store, start_ms, stop_ms, project_id=query.project_id)
        if ids:
            return set(ids)
    return set()
