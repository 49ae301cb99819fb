"""What recollection needs of a search; the worker's own searcher has it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from engram.search.hits import Hit
from engram.search.question.query import Query

#: Stands for "no project" in a query: only memories of global scope belong to it. (None would search all.)
NO_PROJECT = -1


class Searcher(Protocol):
    """Ranks memories. Any thread may call it."""

    def recall(self, query: Query) -> Sequence[Hit]:
        """Episodes, the best first."""

    def search(self, query: Query) -> Sequence[Hit]:
        """Passages of turns, the best first."""
