"""Is a prompt still about what the session was last reminded of? Then the last recollection stands."""

from __future__ import annotations

import threading
from collections import OrderedDict
from dataclasses import dataclass
from typing import TYPE_CHECKING

from engram.embedding.embedder import Embedder
from engram.errors import EmbeddingError
from engram.recollection.prompt_filter import telling_words
from engram.text.stems import overlap, stems

if TYPE_CHECKING:
    from engram.embedding.embedder import Matrix

#: Sessions whose last topic is kept in mind.
KEPT_SESSIONS = 500
#: Share of the words of two prompts from which on they are about one topic.
SAME_WORDS = 0.8


@dataclass(slots=True)
class _Topic:
    text: str
    words: frozenset[str]
    #: Made when it is first compared, so that nobody waits for it.
    vector: Matrix | None = None


class Topics:
    """The topic of each session's last recollection. Any thread may call any method."""

    def __init__(self, embedder: Embedder | None = None, threshold: float = 0.0) -> None:
        """Make an empty one.

        Args:
            embedder: without one shared words tell.
            threshold: cosine above which two prompts are about one topic; 0 takes the model's own.
        """
        self._embedder = embedder
        self._threshold = threshold
        self._lock = threading.Lock()
        self._found: OrderedDict[str, _Topic] = OrderedDict()

    def is_same(self, session_id: str, text: str) -> bool:
        """True where the session was reminded of something for a prompt about the same topic."""
        with self._lock:
            last = self._found.get(session_id)
        if last is None:
            return False
        if len(last.words) > 3 and overlap(stems(telling_words(text)), last.words) >= SAME_WORDS:
            return True
        if self._embedder is None:
            return False
        try:
            if last.vector is None:
                last.vector = self._embedder.embed_query(last.text)
            threshold = self._threshold or self._embedder.thresholds.same_topic
            return float(self._embedder.embed_query(text) @ last.vector) > threshold
        except EmbeddingError:
            return False

    def note(self, session_id: str, text: str) -> None:
        """The session has just been reminded of something for this prompt."""
        with self._lock:
            self._found[session_id] = _Topic(text, stems(telling_words(text)))
            self._found.move_to_end(session_id)
            while len(self._found) > KEPT_SESSIONS:
                self._found.popitem(last=False)

    def forget(self, session_id: str) -> None:
        """The session's context is empty again."""
        with self._lock:
            self._found.pop(session_id, None)
