"""What one kind of row (passages, notes) is searched in."""

from __future__ import annotations

from dataclasses import dataclass

from engram.models.store import Store
from engram.search.question.terms import TermCounts
from engram.search.vectors.cache import LoadedVectors


@dataclass(frozen=True, slots=True)
class Source:
    """The store, its vectors in memory, and how often terms come in its text index."""

    store: Store
    #: None where there is no model.
    index: LoadedVectors | None
    counts: TermCounts
    #: The model's cosine below which a text has nothing to do with a question.
    relevance_floor: float = 0.0
