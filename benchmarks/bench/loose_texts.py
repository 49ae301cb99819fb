"""A text index over texts outside the memory, with which a benchmark compares the search."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from engram.models import tables
from engram.models.engine.database import choose_driver, connect_plainly
from engram.models.engine.statement import unpack_uuid
from engram.models.engine.transaction import Reader

_WORD = re.compile(r"\w+", re.UNICODE)


def said_texts(store: Reader) -> Iterator[tuple[str, str]]:
    """Yield ``(uuid of the entry, what was said)`` for every text, in the order in which they were stored."""
    block = tables.TextBlock
    for row in store.fetch(block.select(block.uuid, block.text).order_by(block.id)):
        yield unpack_uuid(row.uuid), row.text


class LooseTexts:
    """FTS5 with stemming over texts in RAM, which are discarded with the object."""

    def __init__(self, texts: Sequence[str], *, driver: str = "auto") -> None:
        """Index the texts; their places are numbered from 0."""
        self._connection: Any = connect_plainly(Path(":memory:"), choose_driver(driver))
        self._connection.execute("CREATE VIRTUAL TABLE loose USING fts5(text, tokenize='porter unicode61')")
        self._connection.executemany("INSERT INTO loose(rowid, text) VALUES (?, ?)", list(enumerate(texts, 1)))

    def search(self, question: str) -> dict[int, float]:
        """Return place → BM25 of every text that contains any word of the question; higher is better."""
        expression = " OR ".join(f'"{word}"' for word in _WORD.findall(question))
        if not expression:
            return {}
        found = self._connection.execute("SELECT rowid - 1, -bm25(loose) FROM loose WHERE loose MATCH ?", (expression,))
        return {int(place): float(score) for place, score in found}
