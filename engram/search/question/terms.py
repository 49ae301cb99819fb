"""Which words of a question are asked of a text index: few, and the rarest."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from engram.models.fulltext import Term, document_counts
from engram.models.search_rows import count_documents
from engram.models.store import Store

#: Terms that are asked of the text index at most.
MOST_TERMS = 12
#: A term that stands in more than this share of the passages tells little where there are rarer ones.
COMMON_SHARE = 0.05
#: So does one that stands in so many rows.
COMMON_ROWS = 40_000
#: From so many passages on, common terms are left out and rows are spared.
MANY_PASSAGES = 20_000
#: Rows that terms may bring each by itself in a large store, about: to score a row takes a microsecond.
ROWS_ALONE = 8_000
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
            known = {term: self._counts[term] for term in terms if term in self._counts}
        missing = [term for term in terms if term not in known]
        if missing:
            known |= document_counts(store, self.table, missing, total)
            with self._lock:
                self._counts |= {term: known.get(term, 0) for term in missing}
        return {term: known.get(term, 0) for term in terms}, total


def informative(terms: Sequence[str], counts: Mapping[str, int], total: int) -> list[Term]:
    """At most ``MOST_TERMS`` terms that occur, the rarest; in a large store without common ones where rare are left.

    There the rarest count alone, until they bring ``ROWS_ALONE`` rows; the others only two by two in one row.
    """
    known = sorted((term for term in terms if counts.get(term, 0) > 0), key=lambda term: counts[term])
    if total <= MANY_PASSAGES:
        return list(known[:MOST_TERMS])
    rare = [term for term in known if counts[term] <= min(COMMON_SHARE * total, COMMON_ROWS)] or known[:1]
    rare = rare[:MOST_TERMS]
    rows, alone = 0, 0
    while alone < len(rare) and (not alone or rows + counts[rare[alone]] <= ROWS_ALONE):
        rows += counts[rare[alone]]
        alone += 1
    rest = rare[alone:]
    return [*rare[:alone], *zip(rest[::2], rest[1::2], strict=False)]
