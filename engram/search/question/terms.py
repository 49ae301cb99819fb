"""Select the terms of a question to query a text index with: few, and the rarest."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from engram.models.fulltext import Term, document_counts
from engram.models.search_rows import count_documents
from engram.models.store import Store

#: Maximum number of terms in a query of a text index.
MAX_TERMS = 12
#: In a large index, terms in more than this share of the rows are left out if there are rarer ones.
MAX_TERM_SHARE = 0.05
#: So are terms in more than this number of rows.
MAX_TERM_ROWS = 40_000
#: Beyond this number of rows an index is large: the number of rows to score is bounded.
LARGE_INDEX_ROWS = 20_000
#: In a large index, about how many rows the terms that match alone may bring: scoring a row takes a microsecond.
MAX_SINGLE_TERM_ROWS = 8_000
#: Maximum number of terms whose counts are cached.
_MAX_CACHED_TERMS = 20_000
#: The cache is dropped when the index has grown by this factor.
_MAX_GROWTH = 1.1


@dataclass(slots=True)
class TermCounts:
    """In how many rows of a text index each term occurs; cached until the index has grown by a tenth."""

    #: The text index: passage_fts, episode_fts or note_fts.
    table: str
    _counts: dict[str, int] = field(default_factory=dict)
    _total: int = 0
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def count(self, store: Store, terms: Sequence[str]) -> tuple[dict[str, int], int]:
        """Return the number of rows with each term, and the number of all rows."""
        total = count_documents(store, self.table)
        with self._lock:
            if total > self._total * _MAX_GROWTH or total < self._total or len(self._counts) > _MAX_CACHED_TERMS:
                self._counts, self._total = {}, total
            known = {term: self._counts[term] for term in terms if term in self._counts}
        missing = [term for term in terms if term not in known]
        if missing:
            known |= document_counts(store, self.table, missing, total)
            with self._lock:
                self._counts |= {term: known.get(term, 0) for term in missing}
        return {term: known.get(term, 0) for term in terms}, total


def select_terms(terms: Sequence[str], counts: Mapping[str, int], total: int) -> list[Term]:
    """Return at most ``MAX_TERMS`` terms that occur, the rarest first.

    In a large index common terms are left out if there are rarer ones. There the rarest terms match alone, until they
    bring ``MAX_SINGLE_TERM_ROWS`` rows; the others match in pairs, both in one row.
    """
    known = sorted((term for term in terms if counts.get(term, 0) > 0), key=lambda term: counts[term])
    if total <= LARGE_INDEX_ROWS:
        return list(known[:MAX_TERMS])
    rare = [term for term in known if counts[term] <= min(MAX_TERM_SHARE * total, MAX_TERM_ROWS)] or known[:1]
    rare = rare[:MAX_TERMS]
    rows, single = 0, 0
    while single < len(rare) and (not single or rows + counts[rare[single]] <= MAX_SINGLE_TERM_ROWS):
        rows += counts[rare[single]]
        single += 1
    paired = rare[single:]
    return [*rare[:single], *zip(paired[::2], paired[1::2], strict=False)]
