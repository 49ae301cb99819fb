"""Embed questions: the last few vectors are cached, and embedding can run beside a text search."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from engram.embedding.embedder import Embedder
from engram.search.vectors.cache import Floats

#: Maximum number of vectors in the cache.
_MAX_CACHED = 16
#: Threads that embed questions while their words are looked up.
_THREADS = 2


class QueryEmbedder:
    """Embeds questions. Any thread may call any method. Without an embedder every vector is None."""

    def __init__(self, embedder: Embedder | None) -> None:
        """Start no thread before the first question."""
        self._embedder = embedder
        self._vectors: dict[str, Floats] = {}
        self._lock = threading.Lock()
        self._pool = ThreadPoolExecutor(_THREADS, thread_name_prefix="embed") if embedder is not None else None

    def embed(self, text: str) -> Floats | None:
        """Return the vector of a question; a prompt is usually asked more than once, so the last few are cached."""
        if self._embedder is None or not text.strip():
            return None
        with self._lock:
            cached = self._vectors.get(text)
        if cached is not None:
            return cached
        vector: Floats = self._embedder.embed_query(text)
        with self._lock:
            self._vectors[text] = vector
            while len(self._vectors) > _MAX_CACHED:
                del self._vectors[next(iter(self._vectors))]
        return vector

    def start(self, text: str) -> Callable[[], Floats | None]:
        """Start to embed a question in another thread; call the result to wait for its vector.

        Both the model and SQLite let other threads run meanwhile.
        """
        with self._lock:
            is_cached = text in self._vectors
        if is_cached or self._pool is None:
            return lambda: self.embed(text)
        return self._pool.submit(self.embed, text).result
