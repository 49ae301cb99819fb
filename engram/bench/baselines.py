"""The plainest hybrid there is, over entries cut into 100 words: cosine and BM25, each scaled to 0..1, added."""

from __future__ import annotations

import numpy as np

from engram.bench.simple import scaled
from engram.embedding.embedder import Embedder
from engram.models.loose_texts import LooseTexts, said_texts
from engram.models.store import Store
from engram.models.turns import EvidencePlace
from engram.search.hits import Hit
from engram.search.question.query import Query

#: Its name in a table.
NAME = "100-word sum"
_WORDS = 100
#: Texts embedded at a time.
_BATCH = 256


class HundredWords:
    """Ranks pieces of 100 words of everything that was said, by text and vector alike; bare texts, all words asked."""

    def __init__(self, store: Store, embedder: Embedder) -> None:
        """Cut, embed and index everything."""
        self._embedder = embedder
        self._pieces: list[tuple[str, str]] = []
        for uuid, text in said_texts(store):
            words = text.split()
            self._pieces += [(uuid, " ".join(words[at : at + _WORDS])) for at in range(0, len(words), _WORDS)]
        texts = [text for _, text in self._pieces]
        batches = [embedder.embed(texts[at : at + _BATCH]) for at in range(0, len(texts), _BATCH)]
        self._rows = np.concatenate(batches) if batches else np.zeros((0, embedder.dimension), dtype=np.float32)
        self._texts = LooseTexts(texts)

    def search(self, query: Query) -> list[Hit]:
        """The best pieces."""
        found = self._texts.search(query.text)
        text = np.array([found.get(place, 0.0) for place in range(len(self._pieces))])
        vector = (self._rows @ self._embedder.embed_query(query.text)).astype(np.float64)
        score = scaled(text) + scaled(vector)
        best = np.argsort(-score, kind="stable")[: query.limit]
        return [self._hit(int(place), float(score[place])) for place in best]

    def _hit(self, place: int, score: float) -> Hit:
        uuid, text = self._pieces[place]
        evidence = (EvidencePlace("", uuid, "", 0),)
        return Hit(id=str(place), kind="turn", text=text, score=score, parts={}, evidence=evidence)
