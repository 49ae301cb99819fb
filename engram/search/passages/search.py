"""Search over what was said: candidates, their signs, one score, one hit for what a turn says to the question."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from engram.models.search_rows import PassagePlace, PassageRow, passage_places
from engram.models.store import Store
from engram.search.episodes.abstain import how_many, is_far, nearness
from engram.search.episodes.pool import Column
from engram.search.episodes.ranking import Ranked
from engram.search.hits import Hit
from engram.search.passages.candidate_set import Read
from engram.search.passages.candidates import read_passages
from engram.search.passages.excerpt import excerpt, widened
from engram.search.passages.features import signs_of, speakers_of
from engram.search.passages.grouping import Exchange, exchanges
from engram.search.passages.model import learned_weights
from engram.search.passages.source import Source
from engram.search.question.coverage import Coverage
from engram.search.question.parsed import Asked
from engram.search.question.query import Query
from engram.search.vectors.cache import Floats


def passage_hits(
    source: Source, query: Query, asked: Asked, vector: Floats | None, *, without: Collection[str] = ()
) -> list[Hit]:
    """The best passages, one for each entry, those of a turn together, best first; none where nothing is likely.

    ``without`` leaves steps of the ranking out by name; then no hit is too unlikely, since the others weigh less.
    """
    read, coverage = read_passages(source, query, asked, vector)
    if not len(read.chosen):
        return []
    ranked = rank_passages(read, asked, coverage, without=without)
    best = best_exchanges(read, coverage, np.where(_reasons(read), ranked.score, -np.inf), query.limit)
    if query.thorough or without:
        return _hits(source.store, read, ranked, best)
    count, is_doubtful = _likely(read, asked, coverage, [one.score for one in best], source.relevance_floor)
    return [replace(hit, is_doubtful=is_doubtful) for hit in _hits(source.store, read, ranked, best[:count])]


def _likely(
    read: Read, asked: Asked, coverage: Coverage, scores: Sequence[float], relevance_floor: float
) -> tuple[int, bool]:
    """How many of the hits with these scores, best first, may be shown, and whether the question is far from all.

    All of them where there is no model.
    """
    if not read.pool.cosine.any() or not relevance_floor:
        return len(scores), False
    near = nearness_of(read, asked, coverage, relevance_floor)
    is_chat = bool(speakers_of([row.text for row in read.rows.values()]))
    return how_many(scores, near, is_chat=is_chat), is_far(near)


def nearness_of(read: Read, asked: Asked, coverage: Coverage, relevance_floor: float) -> float:
    """How near a question comes to the passages that were found for it; see ``nearness``."""
    cosines = read.pool.cosine[read.pool.cosine > 0].tolist()
    return nearness(asked, coverage.unknown, (row.text for row in read.rows.values()), cosines, relevance_floor)


def rank_passages(read: Read, asked: Asked, coverage: Coverage, *, without: Collection[str] = ()) -> Ranked:
    """The score of each chosen passage, in their order; by the weights for text alone where there is no vector."""
    with_model = bool(read.pool.cosine.any())
    return learned_weights(with_model=with_model).rank(signs_of(read, asked, coverage), without=without)


def _reasons(read: Read) -> NDArray[np.bool_]:
    """False where neither text nor vector nor a neighbour's text speaks for a passage."""
    base = read.pool.base
    near = np.maximum(read.pool.beside(1, base), read.pool.beside(-1, base))
    told = np.maximum(np.maximum(base, near), read.pool.best_of(read.pool.turn, base))
    return np.asarray(told[read.chosen] > 0, dtype=np.bool_)


def best_exchanges(read: Read, coverage: Coverage, score: Column, limit: int) -> list[Exchange]:
    """What would be shown for the scores of the chosen passages, best first; an infinitely low score is left out."""
    return exchanges(read, score, limit, lambda index: shown_text(read, read.row(int(read.chosen[index])), coverage))


def shown_text(read: Read, row: PassageRow, coverage: Coverage) -> str:
    """The telling sentences of a passage; a short one with what was said right before or behind it in its entry."""
    before, after = read.rows.get(row.id - 1), read.rows.get(row.id + 1)
    return widened(
        excerpt(row.text, coverage),
        before.text if before is not None and before.said_id == row.said_id else "",
        after.text if after is not None and after.said_id == row.said_id else "",
    )


def _hits(store: Store, read: Read, ranked: Ranked, best: list[Exchange]) -> list[Hit]:
    places = passage_places(store, [read.row(int(read.chosen[index])).id for one in best for index in one.indexes])
    hits = [_hit(read, ranked, one, places) for one in best]
    return [hit for hit in hits if hit is not None]


def _hit(read: Read, ranked: Ranked, found: Exchange, places: Mapping[int, PassagePlace]) -> Hit | None:
    """The hit of an exchange, its entries in the order in which they were said; its best one names it."""
    rows = {index: read.row(int(read.chosen[index])) for index in found.indexes}
    texts = [
        text for index, text in sorted(zip(found.indexes, found.texts, strict=True), key=lambda one: rows[one[0]].id)
    ]
    first = found.indexes[0]
    row, where = rows[first], places.get(rows[first].id)
    if where is None:
        return None
    cosine = float(read.pool.cosine[read.chosen[first]])
    parts = ranked.parts_of(first)
    if len(texts) > 1:
        parts["turn"] = round(found.score - found.best, 4)
    return Hit(
        id=f"turn_{where.turn_stable_id}#{row.id}",
        kind="turn",
        text="\n".join(texts),
        score=found.score,
        parts=parts,
        project=where.project,
        created_at_ms=row.at_ms,
        evidence=tuple(places[entry.id].place for entry in rows.values() if entry.id in places),
        session_id=where.place.session_id,
        role=row.role,
        cosine=cosine or None,
        turn_id=row.turn_id,
        row_id=row.id,
    )
