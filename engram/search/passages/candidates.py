"""Where candidates come from: the text index and the vectors, asked in a bounded way."""

from __future__ import annotations

import numpy as np

from engram.models.fulltext import search_passages
from engram.models.search_rows import passage_rows, passage_spots, passages_between
from engram.models.store import Store
from engram.search.passages.candidate_set import Read, build_pool, choose
from engram.search.passages.source import Source
from engram.search.question.coverage import Coverage
from engram.search.question.parsed import Asked
from engram.search.question.query import Query
from engram.search.question.terms import informative
from engram.search.vectors.cache import Floats

#: Passages that the text index brings, and that the vectors bring: a longer list costs more time than it finds.
CANDIDATES, NEAREST = 200, 100
#: Passages that are read closely at most; fewer where few hits are asked for (the first ten stay the same).
READ_CLOSELY = 150
_FEWEST_READ, _READ_A_HIT = 60, 4
#: Passages of the time that the question names that are read beside those.
READ_OF_TIME = 100


def read_passages(source: Source, query: Query, asked: Asked, vector: Floats | None) -> tuple[Read, Coverage]:
    """The passages worth ranking for a question, read closely, and how its words are weighed."""
    store, index = source.store, source.index
    known, total = source.counts.of(store, asked.terms)
    bm25 = dict(search_passages(store, informative(asked.terms, known, total), CANDIDATES, project_id=query.project_id))
    found = set(bm25)
    if vector is not None and index is not None:
        found |= set(index.search(vector, NEAREST, query.project_id, with_global=query.with_global))
    of_time = _of_time(store, query, asked)
    wide = {one + apart for one in found | of_time for apart in (-1, 0, 1)}
    spots = passage_spots(store, sorted(wide), query.project_id)
    cosines = index.scores_of(vector, [spot[0] for spot in spots]) if vector is not None and index is not None else {}
    pool = build_pool(spots, bm25, cosines)
    chosen = choose(pool, min(READ_CLOSELY, _FEWEST_READ + _READ_A_HIT * query.limit), frozenset(of_time), READ_OF_TIME)
    near = {int(pool.ids[place]) + apart for place in chosen for apart in (-2, -1, 0, 1, 2)}
    rows = passage_rows(store, sorted(near))
    kept = np.array([place for place in chosen if int(pool.ids[place]) in rows], dtype=np.int64)
    return Read(pool, kept, rows), Coverage(asked.terms, known, total)


def _of_time(store: Store, query: Query, asked: Asked) -> set[int]:
    if asked.span is None:
        return set()
    for start, stop in asked.span.years(asked.now_ms):
        found = passages_between(store, start, stop, project_id=query.project_id)
        if found:
            return set(found)
    return set()
