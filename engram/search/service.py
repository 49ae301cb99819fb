"""The search service: candidates from memory.db, ranked, chosen and shown with their evidence."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np

from engram.embedding.embedder import Embedder
from engram.models.episodes import episodes_by_row, evidence_of, latest_episodes
from engram.models.fulltext import Term, search_episodes
from engram.models.search_rows import EpisodeRow, episode_rows
from engram.models.store import Store
from engram.models.turns import places_of
from engram.models.vectors import vectors_of
from engram.search.episodes.abstain import fitting
from engram.search.episodes.classic import NEWEST, rank_classic
from engram.search.episodes.pool import Column, Pool, pool_of_episodes
from engram.search.episodes.ranking import Ranked, rank
from engram.search.episodes.weights import EPISODE_WEIGHTS
from engram.search.hits import Hit
from engram.search.passages.note_search import note_hits
from engram.search.passages.search import passage_hits
from engram.search.passages.source import Source
from engram.search.question.coverage import Coverage
from engram.search.question.parsed import Asked, take_apart
from engram.search.question.query import Query
from engram.search.question.terms import TermCounts, informative
from engram.search.vectors.cache import Floats, LoadedVectors
from engram.settings import Settings

__all__ = ["Hit", "Query", "Searcher"]

#: Vectors of questions that are remembered.
_REMEMBERED = 16
#: Threads that embed questions while their words are looked up.
_BESIDE = 2
#: Episodes that text and vectors bring, each.
CANDIDATES = 100
#: Memories that a new one is compared with, at most.
NEIGHBOURS = 40


class Searcher:
    """Answers queries over one store. Any thread may call any method.

    Without an embedder it searches by text alone.
    """

    def __init__(
        self, store: Store, settings: Settings, *, embedder: Embedder | None = None,
        index: Mapping[str, LoadedVectors] | None = None,
    ) -> None:  # fmt: skip
        """``index`` holds the vectors of each owner kind (p, e, n); made and filled by ``refresh`` where it is None."""
        self._store = store
        self._settings = settings
        self._embedder = embedder
        if index is None and embedder is not None:
            index = {owner: LoadedVectors(owner, embedder.model_id, embedder.dimension) for owner in "pen"}
        self._index = index or {}
        #: True while the vectors are read for the first time.
        self._is_filling = False
        self._vectors: dict[str, Floats] = {}
        self._beside = ThreadPoolExecutor(_BESIDE, thread_name_prefix="embed") if embedder is not None else None
        self._lock = threading.Lock()
        self._counts = {table: TermCounts(table) for table in ("passage_fts", "episode_fts", "note_fts")}

    def refresh(self) -> int:
        """Bring the vectors in memory up to date; returns how many rows were read.

        While another thread does so for the first time nobody waits for it: 0.
        """
        if self._is_filling:
            return 0
        self._is_filling = not all(vectors.is_filled for vectors in self._index.values())
        try:
            return sum(vectors.refresh(self._store) for vectors in self._index.values())
        finally:
            self._is_filling = False

    def catch_up(self) -> int:
        """Read the vectors that are new, in no time where none are; what was forgotten goes with the next ``refresh``.

        Nothing forgotten is ever shown: every hit is read from memory.db.
        """
        if self._is_filling:
            return 0
        return sum(vectors.catch_up(self._store) for vectors in self._index.values())

    @property
    def index_bytes(self) -> int:
        """Memory of the vectors, in bytes."""
        return sum(vectors.bytes_used for vectors in self._index.values())

    def recall(self, query: Query) -> list[Hit]:
        """The best episodes, best first; own project and global ones only where a project is named.

        None that is not near the question, unless the query is thorough or the ranking classic.
        """
        asked, vector = self._take_apart(query), self._vector_coming(query)
        is_classic = self._settings.ranking == "classic"
        pool = self._newest_pool(query, asked, vector()) if is_classic else self._episode_pool(query, asked, vector)
        ranked = rank_classic(pool, asked.now_ms) if is_classic else rank(pool, asked, EPISODE_WEIGHTS)
        if is_classic or query.thorough:
            return self._episode_hits(pool, ranked, _best(ranked.score, query.limit))
        coverage = Coverage(asked.terms, *self._counts["episode_fts"].of(self._store, asked.terms))
        fits, is_far = fitting(pool, asked, coverage, self._relevance_floor)
        best = _best(np.where(fits, ranked.score, -np.inf), query.limit)
        return [replace(hit, is_doubtful=is_far) for hit in self._episode_hits(pool, ranked, best)]

    def _episode_pool(self, query: Query, asked: Asked, coming: Callable[[], Floats | None]) -> Pool:
        """The candidates that text and vectors bring; the text is asked while the question is being embedded."""
        terms = self._terms(asked, "episode_fts")
        bm25 = dict(
            search_episodes(self._store, terms, CANDIDATES, project_id=query.project_id, with_global=query.with_global)
        )
        vector = coming()
        ids = sorted({*bm25, *self._nearest("e", vector, query)})
        rows = {
            row_id: row
            for row_id, row in episode_rows(self._store, ids).items()
            if row.status != "suspect" and _may_see(query, row)
        }
        return pool_of_episodes(rows, bm25, self._cosines("e", vector, sorted(rows)))

    def _newest_pool(self, query: Query, asked: Asked, vector: Floats | None) -> Pool:
        """The newest memories in force, for the older formula."""
        newest = latest_episodes(self._store, project_id=query.project_id, with_global=query.with_global, limit=NEWEST)
        rows = episode_rows(self._store, [episode.id for episode in newest])
        bm25 = dict(search_episodes(self._store, self._terms(asked, "episode_fts"), 1000 * CANDIDATES))
        return pool_of_episodes(rows, bm25, self._cosines("e", vector, sorted(rows)))

    def search(self, query: Query, *, without: Collection[str] = ()) -> list[Hit]:
        """The best passages of turns and chunks of notes, word for word, best first.

        ``without`` leaves steps of the ranking out by name, to see what each brings.
        """
        asked, vector = self._take_apart(query), self._vector_of(query)
        floor = self._relevance_floor
        source = Source(self._store, self._index.get("p"), self._counts["passage_fts"], floor)
        found = passage_hits(source, query, asked, vector, without=without)
        if query.project_id is None or query.with_global:
            source = Source(self._store, self._index.get("n"), self._counts["note_fts"], floor)
            found += note_hits(source, query, asked, vector)
        return sorted(found, key=lambda hit: -hit.score)[: query.limit]

    def similar_episodes(self, row_ids: Sequence[int], least_cosine: float) -> list[tuple[int, int, float]]:
        """``(one of row_ids, another row id, cosine)`` of memories at least so alike, the most alike first.

        Pairs within ``row_ids`` are left out: what was kept together is one statement. Nothing without an embedder.
        """
        index = self._index.get("e")
        if index is None or self._embedder is None:
            return []
        mine = set(row_ids)
        pairs = []
        for row_id, _, data in vectors_of(self._store, "e", self._embedder.model_id, list(mine)):
            vector = np.frombuffer(data, dtype=np.float16).astype(np.float32)
            found = index.search(vector, NEIGHBOURS, None)
            pairs += [(row_id, other, cosine) for other, cosine in found.items()
                      if other not in mine and cosine >= least_cosine]  # fmt: skip
        return sorted(pairs, key=lambda pair: -pair[2])

    # -- the question

    @property
    def _relevance_floor(self) -> float:
        """The model's cosine below which a text has nothing to do with a question; 0 without a model."""
        return self._embedder.thresholds.relevance_floor if self._embedder is not None else 0.0

    def _take_apart(self, query: Query) -> Asked:
        return take_apart(query, self._store.now_ms() if query.now_ms is None else query.now_ms)

    def _vector_of(self, query: Query) -> Floats | None:
        """The question's vector; the last few are remembered, since a prompt is mostly asked more than once."""
        if self._embedder is None or not query.text.strip():
            return None
        with self._lock:
            known = self._vectors.get(query.text)
        if known is not None:
            return known
        vector: Floats = self._embedder.embed_query(query.text)
        with self._lock:
            self._vectors[query.text] = vector
            while len(self._vectors) > _REMEMBERED:
                del self._vectors[next(iter(self._vectors))]
        return vector

    def _vector_coming(self, query: Query) -> Callable[[], Floats | None]:
        """Begin to embed the question in another thread; call what is returned for its vector.

        Both the model and SQLite let other threads run meanwhile.
        """
        with self._lock:
            known = self._vectors.get(query.text)
        if known is not None or self._beside is None:
            return lambda: self._vector_of(query)
        return self._beside.submit(self._vector_of, query).result

    def _nearest(self, owner: str, vector: Floats | None, query: Query) -> dict[int, float]:
        index = self._index.get(owner)
        if vector is None or index is None:
            return {}
        return index.search(vector, CANDIDATES, query.project_id, with_global=query.with_global)

    def _cosines(self, owner: str, vector: Floats | None, ids: Sequence[int]) -> dict[int, float]:
        index = self._index.get(owner)
        return {} if vector is None or index is None else index.scores_of(vector, ids)

    def _terms(self, asked: Asked, table: str) -> list[Term]:
        """The terms to ask the index for: few, and those that tell the most."""
        return informative(asked.terms, *self._counts[table].of(self._store, asked.terms))

    # -- the answer

    def _episode_hits(self, pool: Pool, ranked: Ranked, best: Sequence[int]) -> list[Hit]:
        episodes = episodes_by_row(self._store, [int(pool.ids[index]) for index in best])
        hits = []
        for index in best:
            episode = episodes.get(int(pool.ids[index]))
            if episode is None:
                continue
            evidence = evidence_of(self._store, episode.id)
            places = places_of(self._store, [entry.uuid for entry in evidence if entry.uuid])
            hits.append(
                Hit(
                    id=episode.episode_id,
                    kind=episode.kind,
                    text=episode.summary,
                    score=float(ranked.score[index]),
                    parts=ranked.parts_of(index),
                    project=episode.project,
                    created_at_ms=episode.created_at_ms,
                    evidence=tuple(places),
                    status=episode.status,
                    importance=episode.importance,
                    episode=episode,
                    session_id=episode.session_id,
                    turn_id=evidence[0].turn_id if evidence else None,
                    row_id=episode.id,
                    cosine=_cosine(pool, index),
                )
            )
        return hits


def _may_see(query: Query, row: EpisodeRow) -> bool:
    if query.project_id is None:
        return True
    return query.with_global if row.is_global else row.project_id == query.project_id


def _best(score: Column, limit: int) -> Sequence[int]:
    """Places of the best scores, best first; an infinitely low one is left out."""
    return [int(index) for index in np.argsort(-score, kind="stable")[:limit] if not np.isneginf(score[index])]


def _cosine(pool: Pool, index: int) -> float | None:
    value = float(pool.cosine[index])
    return None if np.isnan(value) else value
