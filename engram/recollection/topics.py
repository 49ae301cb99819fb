"""Recognize a prompt about the topic of the last recollection, which needs no new one."""

from __future__ import annotations

import threading
from collections import OrderedDict
from dataclasses import dataclass
from typing import TYPE_CHECKING

from engram.embedding.embedder import Embedder
from engram.errors import EmbeddingError
from engram.text.recollection_stems import overlap, stems
from engram.text.topic_words import topic_words

if TYPE_CHECKING:
    from engram.embedding.embedder import Matrix

#: Maximum number of sessions whose topic is remembered.
MAX_SESSIONS = 500
#: Share of common words from which on two prompts have the same topic.
SAME_WORDS = 0.8


@dataclass(slots=True)
class _Topic:
    text: str
    words: frozenset[str]
    #: Computed at the first comparison.
    vector: Matrix | None = None


class Topics:
    """The topic of each session's last recollection. Any thread may call any method."""

    def __init__(self, embedder: Embedder | None = None, threshold: float = 0.0) -> None:
        """Start empty.

        Args:
            embedder: compares prompts; without it, only common words decide.
            threshold: cosine above which two prompts have the same topic; 0 for the model's own.
        """
        self._embedder = embedder
        self._threshold = threshold
        self._lock = threading.Lock()
        self._topics: OrderedDict[str, _Topic] = OrderedDict()

    def is_same(self, session_id: str, text: str) -> bool:
        """Return True if the session was reminded of something for a prompt on the same topic."""
        with self._lock:
            last = self._topics.get(session_id)
        if last is None:
            return False
        if len(last.words) > 3 and overlap(stems(topic_words(text)), last.words) >= SAME_WORDS:
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
        """Note that the session was reminded of something for this prompt."""
        with self._lock:
            self._topics[session_id] = _Topic(text, stems(topic_words(text)))
            self._topics.move_to_end(session_id)
            while len(self._topics) > MAX_SESSIONS:
                self._topics.popitem(last=False)

    def forget(self, session_id: str) -> None:
        """Forget the topic of a session."""
        with self._lock:
            self._topics.pop(session_id, None)
