"""Baselines to compare the ranking with: text alone, vectors alone, and plain hybrids of both."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from bench.loose_texts import LooseTexts, said_texts
from bench.storing import load_vectors
from engram.embedding.embedder import Embedder
from engram.models.engine.transaction import Store
from engram.models.search.fulltext import search_passages
from engram.models.sessions.passage_rows import EvidencePlace, passage_places, passage_rows, passage_spots
from engram.search.hits import Hit
from engram.search.question import Query
from engram.search.ranking import Column
from engram.text.words import terms_of

#: Method of ``PassageBaselines`` → weights of text and vector, both of which are scaled to 0..1 over all passages.
METHODS: Mapping[str, tuple[float, float]] = {
    "FTS5 alone": (1, 0),
    "vectors alone": (0, 1),
    "60-word sum": (0.25, 0.75),
}
#: Name of ``ChunkBaseline`` in a table.
CHUNK_METHOD = "100-word sum"
_CHUNK_WORDS = 100
#: Number of texts embedded at a time.
_BATCH = 256
#: No limit on the matches of the text index.
_ALL = 1_000_000


class PassageBaselines:
    """Ranks whole passages only by text and vector."""

    def __init__(self, store: Store, embedder: Embedder | None) -> None:
        """Load every vector of the store."""
        self._store = store
        self._embedder = embedder
        loaded = load_vectors(store, "p", embedder.model_id) if embedder is not None else []
        self._ids = [row_id for row_id, _, _ in loaded]
        blobs: Sequence[bytes] = [blob for _, _, blob in loaded]
        self._rows = (
            np.frombuffer(b"".join(blobs), np.float16).reshape(len(blobs), -1).astype(np.float32) if blobs else None
        )

    @property
    def names(self) -> list[str]:
        """Return the methods that work with what is stored."""
        return [name for name, (_, vector) in METHODS.items() if not vector or self._rows is not None]

    def search(self, method: str, query: Query) -> list[Hit]:
        """Return the best passages by one method."""
        text_weight, vector_weight = METHODS[method]
        bm25 = dict(search_passages(self._store, terms_of(query.text), _ALL, weights=(1.0, 0.0, 0.0)))
        if query.project_id is not None:
            own = {spot[0] for spot in passage_spots(self._store, list(bm25), query.project_id)}
            bm25 = {row_id: score for row_id, score in bm25.items() if row_id in own}
        ids = np.array(self._ids or sorted(bm25), dtype=np.int64)
        score = text_weight * _min_max(np.array([bm25.get(int(row_id), 0.0) for row_id in ids]))
        if vector_weight and self._rows is not None and self._embedder is not None:
            cosines = (self._rows @ self._embedder.embed_query(query.text)).astype(float)
            score = score + vector_weight * _min_max(cosines)
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


class ChunkBaseline:
    """The simplest hybrid: entries cut into chunks of 100 words, with cosine and BM25 each scaled to 0..1 and added."""

    def __init__(self, store: Store, embedder: Embedder) -> None:
        """Cut, embed and index everything."""
        self._embedder = embedder
        self._chunks: list[tuple[str, str]] = []
        for uuid, text in said_texts(store):
            words = text.split()
            self._chunks += [
                (uuid, " ".join(words[start : start + _CHUNK_WORDS])) for start in range(0, len(words), _CHUNK_WORDS)
            ]
        texts = [text for _, text in self._chunks]
        batches = [embedder.embed(texts[start : start + _BATCH]) for start in range(0, len(texts), _BATCH)]
        self._rows = np.concatenate(batches) if batches else np.zeros((0, embedder.dimension), dtype=np.float32)
        self._texts = LooseTexts(texts)

    def search(self, query: Query) -> list[Hit]:
        """Return the best chunks; every word of the question counts."""
        bm25 = self._texts.search(query.text)
        text = np.array([bm25.get(place, 0.0) for place in range(len(self._chunks))])
        vector = (self._rows @ self._embedder.embed_query(query.text)).astype(np.float64)
        score = _min_max(text) + _min_max(vector)
        best = np.argsort(-score, kind="stable")[: query.limit]
        return [self._hit(int(place), float(score[place])) for place in best]

    def _hit(self, place: int, score: float) -> Hit:
        uuid, text = self._chunks[place]
        evidence = (EvidencePlace(session_id="", uuid=uuid, path="", line=0),)
        return Hit(id=str(place), kind="turn", text=text, score=score, parts={}, evidence=evidence)


def _min_max(values: Column) -> Column:
    """Return the values scaled from 0 (the smallest) to 1 (the largest); all 0 if they are equal."""
    low, high = (float(values.min()), float(values.max())) if len(values) else (0.0, 0.0)
    return (values - low) / (high - low) if high > low else np.zeros(len(values))
