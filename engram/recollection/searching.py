"""The interface of the search that recollection uses."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from engram.search.episodes.support import Support
from engram.search.hits import Hit
from engram.search.question.query import Query

#: Project id of a query that sees only memories of global scope. (None would search all projects.)
NO_PROJECT = -1


class Searcher(Protocol):
    """Ranks memories. Any thread may call it."""

    def recall(self, query: Query) -> Sequence[Hit]:
        """Return episodes, the best first."""

    def support(self, query: Query, hits: Sequence[Hit]) -> Support:
        """Return what passages, other memories and rare words say about memories that were found for a prompt."""
