"""Simple methods over the same passages, to hold the ranking against: text alone, vectors alone, their weighed sum."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from engram.embedding.embedder import Embedder
from engram.models.fulltext import search_passages
from engram.models.search_rows import passage_places, passage_rows
from engram.models.store import Store
from engram.models.vectors import load_vectors
from engram.search.episodes.pool import Column
from engram.search.hits import Hit
from engram.search.question.query import Query
from engram.search.vectors.index import rows_from_blobs
from engram.text.question_words import terms_of

#: Method → shares of text and vector; both are scaled to 0..1 over all passages.
METHODS: Mapping[str, tuple[float, float]] = {
    "FTS5 alone": (1, 0),
    "vectors alone": (0, 1),
    "60-word sum": (0.25, 0.75),
}
_ALL = 1_000_000


class SimpleMethods:
    """Ranks whole passages by text and vector, nothing else."""

    def __init__(self, store: Store, embedder: Embedder | None) -> None:
        """Load every vector of the store."""
        self._store = store
        self._embedder = embedder
        found = load_vectors(store, "p", embedder.model_id) if embedder is not None else []
        self._ids = [one[0] for one in found]
        blobs: Sequence[bytes] = [one[2] for one in found]
        self._rows = rows_from_blobs(blobs, embedder.dimension).astype(np.float32) if embedder and blobs else None

    @property
    def names(self) -> list[str]:
        """The methods that work here."""
        return [name for name, (_, vector) in METHODS.items() if not vector or self._rows is not None]

    def search(self, method: str, query: Query) -> list[Hit]:
        """The best passages by one method."""
        text_share, vector_share = METHODS[method]
        texts = dict(search_passages(self._store, terms_of(query.text), _ALL, weights=(1.0, 0.0, 0.0)))
        ids = np.array(self._ids or sorted(texts), dtype=np.int64)
        score = text_share * scaled(np.array([texts.get(int(one), 0.0) for one in ids]))
        if vector_share and self._rows is not None and self._embedder is not None:
            score = score + vector_share * scaled((self._rows @ self._embedder.embed_query(query.text)).astype(float))
        best = [place for place in np.argsort(-score, kind="stable")[: query.limit] if score[place] > 0]
        rows = passage_rows(self._store, [int(ids[place]) for place in best])
        places = passage_places(self._store, list(rows))
        return [
            Hit(
                id=str(ids[place]),
                kind="turn",
                text=rows[int(ids[place])].text,
                score=float(score[place]),
                parts={},
                evidence=(places[int(ids[place])].place,),
            )
            for place in best
        ]


def scaled(values: Column) -> Column:
    """Values from 0, the least, to 1, the largest; all 0 where they are alike."""
    low, high = (float(values.min()), float(values.max())) if len(values) else (0.0, 0.0)
    return (values - low) / (high - low) if high > low else np.zeros(len(values))
