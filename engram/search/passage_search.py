"""Search over what was said: candidates, their signs, one score, one hit for each entry."""

from __future__ import annotations

from collections.abc import Collection, Iterator

import numpy as np

from engram.models.search_rows import PassageRow, passage_places
from engram.models.store import Store
from engram.search.asked import Asked
from engram.search.candidates import read_passages
from engram.search.coverage import Coverage
from engram.search.excerpt import excerpt, widened
from engram.search.floor import is_silent
from engram.search.learned import learned_weights
from engram.search.loaded import Floats
from engram.search.passage_pool import Read
from engram.search.query import Hit, Query
from engram.search.ranking import Ranked
from engram.search.signs import signs_of
from engram.search.source import Source


def passage_hits(
    source: Source, query: Query, asked: Asked, vector: Floats | None, *, without: Collection[str] = ()
) -> list[Hit]:
    """The best passages, at most one for each entry, best first; none where nothing is near enough.

    ``without`` leaves steps of the ranking out by name.
    """
    read, coverage = read_passages(source, query, asked, vector)
    if not len(read.chosen) or is_silent(
        asked, read.pool.cosine[read.pool.cosine > 0].tolist(), source.relevance_floor
    ):
        return []
    ranked = rank_passages(read, asked, coverage, without=without)
    best = [place for place in _one_each(read, ranked) if _has_reason(read, place)][: query.limit]
    return _hits(source.store, read, coverage, ranked, best)


def rank_passages(read: Read, asked: Asked, coverage: Coverage, *, without: Collection[str] = ()) -> Ranked:
    """The score of each chosen passage, in their order; by the weights for text alone where there is no vector."""
    with_model = bool(read.pool.cosine.any())
    return learned_weights(with_model=with_model).rank(signs_of(read, asked, coverage), without=without)


def _one_each(read: Read, ranked: Ranked) -> Iterator[int]:
    """Indexes of the chosen passages, best first, each entry once: more passages of it would cost words and tell less."""
    seen: set[int] = set()
    for index in np.argsort(-ranked.score, kind="stable"):
        said = int(read.pool.said[read.chosen[index]])
        if said not in seen:
            seen.add(said)
            yield int(index)


def _has_reason(read: Read, index: int) -> bool:
    """False where neither text nor vector nor a neighbour's text speaks for a passage."""
    place = int(read.chosen[index])
    return bool(read.pool.base[place] > 0 or read.pool.best_of(read.pool.turn, read.pool.base)[place] > 0)


def shown_text(read: Read, row: PassageRow, coverage: Coverage) -> str:
    """The telling sentences of a passage; a short one with what was said right before or behind it in its entry."""
    before, after = read.rows.get(row.id - 1), read.rows.get(row.id + 1)
    return widened(
        excerpt(row.text, coverage),
        before.text if before is not None and before.said_id == row.said_id else "",
        after.text if after is not None and after.said_id == row.said_id else "",
    )


def _hits(store: Store, read: Read, coverage: Coverage, ranked: Ranked, best: list[int]) -> list[Hit]:
    rows = [read.row(int(read.chosen[index])) for index in best]
    places = passage_places(store, [row.id for row in rows])
    hits = []
    for index, row in zip(best, rows, strict=True):
        where = places.get(row.id)
        if where is None:
            continue
        cosine = float(read.pool.cosine[read.chosen[index]])
        hits.append(
            Hit(
                f"turn_{where.turn_stable_id}#{row.id}", "turn", shown_text(read, row, coverage),
                float(ranked.score[index]), ranked.parts_of(index), where.project, row.at_ms, (where.place,),
                session_id=where.place.session_id, role=row.role, turn_id=row.turn_id, row_id=row.id,
                cosine=cosine or None,
            )
        )  # fmt: skip
    return hits
