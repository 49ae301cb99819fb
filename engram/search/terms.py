"""Which words of a question are asked of a text index: few, and the rarest."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from engram.models.fulltext import document_counts
from engram.models.search_rows import count_documents
from engram.models.store import Store

#: Terms that are asked of the text index at most.
MOST_TERMS = 12
#: A term that stands in more than this share of the passages tells little where there are rarer ones.
COMMON_SHARE = 0.05
#: From so many passages on, common terms are left out.
MANY_PASSAGES = 20_000
_KEPT_COUNTS = 20_000


@dataclass(slots=True)
class TermCounts:
    """In how many rows of a text index a term stands; remembered until the store has grown by a tenth."""

    #: Text index: passage_fts, episode_fts or note_fts.
    table: str
    _counts: dict[str, int] = field(default_factory=dict)
    _total: int = 0
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def of(self, store: Store, terms: Sequence[str]) -> tuple[dict[str, int], int]:
        """Term → rows that hold it, and how many rows there are."""
        total = count_documents(store, self.table)
        with self._lock:
            if total > self._total * 1.1 or total < self._total or len(self._counts) > _KEPT_COUNTS:
                self._counts, self._total = {}, total
            known = dict(self._counts)
        missing = [term for term in terms if term not in known]
        if missing:
            known |= document_counts(store, self.table, missing)
            with self._lock:
                self._counts |= {term: known.get(term, 0) for term in missing}
        return {term: known.get(term, 0) for term in terms}, total


def informative(terms: Sequence[str], counts: Mapping[str, int], total: int) -> list[str]:
    """At most ``MOST_TERMS`` terms that occur, the rarest; in a large store without common ones where rare are left."""
    known = sorted((term for term in terms if counts.get(term, 0) > 0), key=lambda term: counts[term])
    if total > MANY_PASSAGES:
        rare = [term for term in known if counts[term] <= COMMON_SHARE * total]
        known = rare or known[:1]
    return known[:MOST_TERMS]
