"""Search passages of turns: retrieve candidates, extract features, rank them, group them into hits."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from engram.models.fulltext import passages_with_phrase
from engram.models.passage_rows import PassagePlace, PassageRow, passage_places, passage_rows, texts_of_blocks
from engram.models.store import Store
from engram.search.episodes.abstain import count_likely, is_above_floor, is_unsupported, query_support, shares_words
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
from engram.search.question.quoted import find_phrases, text_around
from engram.search.vectors.cache import Floats

#: Maximum number of passages that are compared with a phrase.
MAX_PHRASE_PASSAGES = 1000
#: Part of a score: what a place that is given by words alone adds, while some passages have no vector yet.
WAITING = "waiting"


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
    if query.phrases:
        return _find_phrases(index, query, parsed, vector)
    shortlist, coverage = retrieve_passages(index, query, parsed, vector)
    if not len(shortlist):
        return []
    ranking = rank_passages(shortlist, parsed, coverage, without=without)
    score = np.where(_has_match(shortlist), ranking.score, -np.inf)
    groups = best_groups(shortlist, coverage, score, query.limit)
    if query.thorough or without:
        return _build_hits(index.store, shortlist, ranking, groups)
    likely, doubtful = _select_likely(shortlist, parsed, coverage, groups, index.relevance_floor)
    hits = _build_hits(index.store, shortlist, ranking, likely)
    return hits + [replace(hit, is_doubtful=True) for hit in _build_hits(index.store, shortlist, ranking, doubtful)]


def _find_phrases(index: SearchIndex, query: Query, parsed: ParsedQuery, vector: Floats | None) -> list[Hit]:
    """Return the texts that have every phrase of a question, best first, each by the passage where the first begins."""
    spans = _phrase_spans(index.store, query)
    if not spans:
        return []
    shortlist, coverage = retrieve_passages(index, query, parsed, vector, among=list(spans))
    ranking = rank_passages(shortlist, parsed, coverage)
    shown = {row_id: text_around(text, found) for row_id, (text, found) in spans.items()}
    groups = group_hits(shortlist, ranking.score, query.limit, lambda index: shown[shortlist.ranked_row(index).id])
    return _build_hits(index.store, shortlist, ranking, groups)


def _phrase_spans(store: Store, query: Query) -> dict[int, tuple[str, list[tuple[int, int]]]]:
    """Return row id of a passage → the whole text that it is a part of, and where that has the phrases."""
    first = query.phrases[0]
    ids = passages_with_phrase(store, first, MAX_PHRASE_PASSAGES, project_id=query.project_id)
    rows = passage_rows(store, ids)
    texts = texts_of_blocks(store, sorted({row.said_id for row in rows.values()}))
    found: dict[int, tuple[str, list[tuple[int, int]]]] = {}
    for row in rows.values():
        text = texts.get(row.said_id, "")
        spans = find_phrases(text, query.phrases)
        if spans and row.start <= spans[0][0] < row.start + len(row.text):
            found[row.id] = (text, spans)
    return found


def _select_likely(
    shortlist: Shortlist,
    parsed: ParsedQuery,
    coverage: Coverage,
    groups: Sequence[HitGroup],
    relevance_floor: float,
) -> tuple[list[HitGroup], list[HitGroup]]:
    """Return the groups to show: those that are likely to answer, and those that are shown as doubtful.

    Without a model all are likely, if any has more than a word of the question by chance. A passage without a vector is
    likely if it shares enough words with the question, however far those with vectors are. What is not likely must be
    above the floor.
    """
    if not shortlist.candidates.known_cosines.any() or not relevance_floor:
        is_any = parsed.date_range is not None or any(
            _is_above_floor(shortlist, group, parsed, coverage, relevance_floor) for group in groups
        )
        return list(groups) if is_any else [], []
    support = passage_support(shortlist, parsed, coverage, relevance_floor)
    is_chat = bool(chat_speakers([row.text for row in shortlist.rows.values()]))
    count = count_likely([group.score for group in groups], support, is_chat=is_chat)
    found_by_words = [_is_found_by_words(shortlist, group, parsed, coverage) for group in groups]
    shown = [place for place in range(len(groups)) if place < count or found_by_words[place]]
    is_likely = [found_by_words[place] or not is_unsupported(support) for place in shown]
    return (
        [groups[place] for place, likely in zip(shown, is_likely, strict=True) if likely],
        [
            groups[place]
            for place, likely in zip(shown, is_likely, strict=True)
            if not likely and _is_above_floor(shortlist, groups[place], parsed, coverage, relevance_floor)
        ],
    )


def _is_above_floor(
    shortlist: Shortlist, group: HitGroup, parsed: ParsedQuery, coverage: Coverage, relevance_floor: float
) -> bool:
    best = group.indexes[0]
    own, place = shortlist.ranked_row(best), int(shortlist.places[best])
    nearby = [row.text for row in shortlist.neighbours(place) if abs(row.id - own.id) == 1]
    return is_above_floor(
        "\n".join(group.texts),
        float(shortlist.candidates.cosine[place]),
        parsed,
        coverage,
        relevance_floor,
        nearby="\n".join([own.text, *nearby]),
    )


def _is_found_by_words(shortlist: Shortlist, group: HitGroup, parsed: ParsedQuery, coverage: Coverage) -> bool:
    """True if the best passage of a group has no vector yet, and shares enough words with the question."""
    best = group.indexes[0]
    if not shortlist.candidates.is_unknown[shortlist.places[best]]:
        return False
    return shares_words(shortlist.ranked_row(best).text.lower(), parsed, coverage)


def passage_support(shortlist: Shortlist, parsed: ParsedQuery, coverage: Coverage, relevance_floor: float) -> float:
    """Return how well the passages support a question; see ``query_support``.

    While some have no vector, the best cosine counts alone: those that would be next to it may be missing.
    """
    candidates = shortlist.candidates
    cosines = candidates.known_cosines[candidates.known_cosines > 0].tolist()
    if candidates.is_unknown.any():
        cosines = [max(cosines, default=0.0)]
    texts = (row.text for row in shortlist.rows.values())
    return query_support(parsed, coverage.unknown_terms, texts, cosines, relevance_floor)


def rank_passages(
    shortlist: Shortlist, parsed: ParsedQuery, coverage: Coverage, *, without: Collection[str] = ()
) -> Ranking:
    """Score the shortlist.

    Without any cosine the weights for text alone decide. While only some passages have a vector, the others keep the
    places that text alone gives them, and the weights for both order those that have one among the places that are
    left: so no passage ranks lower because it waits for its vector.
    """
    candidates = shortlist.candidates
    model = load_ranking_model(with_vectors=bool(candidates.known_cosines.any()))
    ranking = model.rank(extract_features(shortlist, parsed, coverage), without=without)
    is_unknown = candidates.is_unknown[shortlist.places]
    if not is_unknown.any() or not candidates.known_cosines.any():
        return ranking
    words = replace(shortlist, candidates=candidates.by_words())
    by_words = load_ranking_model(with_vectors=False).rank(extract_features(words, parsed, coverage), without=without)
    score = _keep_places(ranking.score, by_words.score, is_unknown)
    return Ranking(score, {**ranking.parts, WAITING: score - ranking.score})


def _keep_places(score: Column, score_by_words: Column, is_unknown: NDArray[np.bool_]) -> Column:
    """Return the same scores, given out so that the unknown passages get the places that words give them."""
    by_words = np.argsort(-score_by_words, kind="stable")
    order = by_words.copy()
    best = np.argsort(-score, kind="stable")
    order[~is_unknown[by_words]] = best[~is_unknown[best]]
    placed = np.empty(len(score))
    placed[order] = score[best]
    return placed


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
    cosine = float(np.nan_to_num(shortlist.candidates.cosine[shortlist.places[best_index]]))
    parts = ranking.parts_of(best_index)
    if len(rows) > 1:
        parts["turn"] = round(group.score - group.best_score, 4)
    return Hit(
        id=best_place.quotation_id,
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
        cwd=best_place.cwd,
        cosine=cosine or None,
    )
