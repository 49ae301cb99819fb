"""Search passages of turns: retrieve candidates, extract features, rank them, group them into hits."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from engram.models.passage_rows import PassagePlace, PassageRow, passage_places
from engram.models.store import Store
from engram.search.episodes.abstain import count_likely, is_unsupported, query_support
from engram.search.episodes.candidates import Column
from engram.search.episodes.ranking import Ranking
from engram.search.hits import Hit
from engram.search.passages.candidate_set import Shortlist
from engram.search.passages.excerpt import excerpt, extend_short
from engram.search.passages.features import chat_speakers, extract_features
from engram.search.passages.grouping import HitGroup, group_hits
from engram.search.passages.model import load_ranking_model
from engram.search.passages.retrieval import SearchIndex, retrieve_passages
from engram.search.question.coverage import Coverage
from engram.search.question.parsed import ParsedQuery
from engram.search.question.query import Query
from engram.search.vectors.cache import Floats


def find_passages(
    index: SearchIndex,
    query: Query,
    parsed: ParsedQuery,
    vector: Floats | None,
    *,
    without: Collection[str] = (),
) -> list[Hit]:
    """Return the best passages, best first, those of a turn together; none if none is likely to answer.

    ``without`` leaves feature groups out by name. Then weak matches are shown too, since all scores are lower.
    """
    shortlist, coverage = retrieve_passages(index, query, parsed, vector)
    if not len(shortlist):
        return []
    ranking = rank_passages(shortlist, parsed, coverage, without=without)
    score = np.where(_has_match(shortlist), ranking.score, -np.inf)
    groups = best_groups(shortlist, coverage, score, query.limit)
    if query.thorough or without:
        return _build_hits(index.store, shortlist, ranking, groups)
    scores = [group.score for group in groups]
    count, is_doubtful = _count_likely(shortlist, parsed, coverage, scores, index.relevance_floor)
    hits = _build_hits(index.store, shortlist, ranking, groups[:count])
    return [replace(hit, is_doubtful=is_doubtful) for hit in hits]


def _count_likely(
    shortlist: Shortlist, parsed: ParsedQuery, coverage: Coverage, scores: Sequence[float], relevance_floor: float
) -> tuple[int, bool]:
    """Return how many of the hits with these scores to show, and whether the question is unsupported.

    Without a model all are shown.
    """
    if not shortlist.candidates.cosine.any() or not relevance_floor:
        return len(scores), False
    support = passage_support(shortlist, parsed, coverage, relevance_floor)
    is_chat = bool(chat_speakers([row.text for row in shortlist.rows.values()]))
    return count_likely(scores, support, is_chat=is_chat), is_unsupported(support)


def passage_support(shortlist: Shortlist, parsed: ParsedQuery, coverage: Coverage, relevance_floor: float) -> float:
    """Return how well the passages support a question; see ``query_support``."""
    cosines = shortlist.candidates.cosine[shortlist.candidates.cosine > 0].tolist()
    texts = (row.text for row in shortlist.rows.values())
    return query_support(parsed, coverage.unknown_terms, texts, cosines, relevance_floor)


def rank_passages(
    shortlist: Shortlist, parsed: ParsedQuery, coverage: Coverage, *, without: Collection[str] = ()
) -> Ranking:
    """Score the shortlist; by the weights for text alone if no candidate has a cosine."""
    model = load_ranking_model(with_vectors=bool(shortlist.candidates.cosine.any()))
    return model.rank(extract_features(shortlist, parsed, coverage), without=without)


def _has_match(shortlist: Shortlist) -> NDArray[np.bool_]:
    """Return False for a passage if neither it nor a neighbour nor its turn matches by text or vector."""
    candidates = shortlist.candidates
    prerank = candidates.prerank_score
    neighbours = np.maximum(candidates.neighbour_values(1, prerank), candidates.neighbour_values(-1, prerank))
    best = np.maximum(np.maximum(prerank, neighbours), candidates.best_in_group(candidates.turn, prerank))
    return np.asarray(best[shortlist.places] > 0, dtype=np.bool_)


def best_groups(shortlist: Shortlist, coverage: Coverage, score: Column, limit: int) -> list[HitGroup]:
    """Return what to show for the scores of the shortlist, best first; minus infinity leaves a passage out."""
    return group_hits(
        shortlist, score, limit, lambda index: shown_text(shortlist, shortlist.ranked_row(index), coverage)
    )


def shown_text(shortlist: Shortlist, row: PassageRow, coverage: Coverage) -> str:
    """Return the best sentences of a passage; a short one is extended by its neighbours in the same entry."""
    before, after = shortlist.rows.get(row.id - 1), shortlist.rows.get(row.id + 1)
    return extend_short(
        excerpt(row.text, coverage),
        before.text if before is not None and before.said_id == row.said_id else "",
        after.text if after is not None and after.said_id == row.said_id else "",
    )


def _build_hits(store: Store, shortlist: Shortlist, ranking: Ranking, groups: list[HitGroup]) -> list[Hit]:
    ids = [shortlist.ranked_row(index).id for group in groups for index in group.indexes]
    places = passage_places(store, ids)
    hits = [_build_hit(shortlist, ranking, group, places) for group in groups]
    return [hit for hit in hits if hit is not None]


def _build_hit(
    shortlist: Shortlist, ranking: Ranking, group: HitGroup, places: Mapping[int, PassagePlace]
) -> Hit | None:
    """Return the hit of a group: its entries in the order of the transcript, named by the best one.

    None if its passage was deleted meanwhile.
    """
    rows = [shortlist.ranked_row(index) for index in group.indexes]
    best_index, best_row = group.indexes[0], rows[0]
    best_place = places.get(best_row.id)
    if best_place is None:
        return None
    in_order = sorted(zip(rows, group.texts, strict=True), key=lambda entry: entry[0].id)
    cosine = float(shortlist.candidates.cosine[shortlist.places[best_index]])
    parts = ranking.parts_of(best_index)
    if len(rows) > 1:
        parts["turn"] = round(group.score - group.best_score, 4)
    return Hit(
        id=f"turn_{best_place.turn_stable_id}#{best_row.id}",
        kind="turn",
        text="\n".join(text for _, text in in_order),
        score=group.score,
        parts=parts,
        project=best_place.project,
        created_at_ms=best_row.at_ms,
        evidence=tuple(places[row.id].place for row in rows if row.id in places),
        session_id=best_place.place.session_id,
        role=best_row.role,
        turn_id=best_row.turn_id,
        row_id=best_row.id,
        cosine=cosine or None,
    )
