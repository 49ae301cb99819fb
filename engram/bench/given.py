"""The text that a memory gives for a question, within a budget of words: by recall, by search, by both, by FTS5."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TypeAlias

from engram.bench.baselines import PassageBaselines
from engram.models.store import Store
from engram.search.hit_lines import remarks_of
from engram.search.hits import Hit
from engram.search.public_hits import PublicHit
from engram.search.question.query import Query
from engram.search.service import Searcher

#: Number of memories, and of passages, that are asked for; the words end the list earlier.
MAX_MEMORIES, MAX_PASSAGES = 25, 40
#: Number of memories that stand before the passages when both are given.
MEMORIES_OF_BOTH = 5
#: Minimum number of words of a hit that is cut at the end of the budget; a shorter rest is left out.
MIN_CUT_WORDS = 15
#: What is given if nothing is found.
NOTHING = "(nothing found)"

#: Returns what is given for a question within a number of words.
Giver: TypeAlias = Callable[[str, int], str]


@dataclass(frozen=True, slots=True)
class QuestionedMemory:
    """An open memory that answers questions about one project."""

    store: Store
    searcher: Searcher
    project_id: int | None
    #: When the questions are asked, in milliseconds since 1970.
    now_ms: int

    def givers(self) -> Mapping[str, Giver]:
        """Return every way to ask, by its name."""
        return {"recall": self.recall, "search": self.search, "both": self.both, "fts5": self.fts5}

    def recall(self, question: str, words: int) -> str:
        """Return the best memories."""
        hits = self.searcher.recall(self._query(question, MAX_MEMORIES))
        return within_words(map(_memory_line, hits), words)

    def search(self, question: str, words: int) -> str:
        """Return the best passages of the transcripts."""
        hits = self.searcher.search(self._query(question, MAX_PASSAGES))
        return within_words(map(_passage_line, hits), words)

    def both(self, question: str, words: int) -> str:
        """Return the best memories, then passages up to the budget."""
        memories = self.searcher.recall(self._query(question, MEMORIES_OF_BOTH))
        passages = self.searcher.search(self._query(question, MAX_PASSAGES))
        return within_words([*map(_memory_line, memories), *map(_passage_line, passages)], words)

    def fts5(self, question: str, words: int) -> str:
        """Return the best passages by SQLite's full-text index alone: the baseline."""
        hits = PassageBaselines(self.store, None).search("FTS5 alone", self._query(question, MAX_PASSAGES))
        return within_words(map(_passage_line, hits), words)

    def _query(self, question: str, limit: int) -> Query:
        return Query(question, project_id=self.project_id, limit=limit, now_ms=self.now_ms)


def within_words(lines: Iterable[str], words: int) -> str:
    """Return numbered lines of at most ``words`` words together; the last one may be cut."""
    kept: list[str] = []
    left = words
    for line in lines:
        of_line = line.split()
        if len(of_line) > left:
            if left >= MIN_CUT_WORDS:
                kept.append(" ".join(of_line[:left]) + " […]")
            break
        kept.append(" ".join(of_line))
        left -= len(of_line)
    return "\n".join(f"[{number}] {line}" for number, line in enumerate(kept, 1)) or NOTHING


def _memory_line(hit: Hit) -> str:
    about = ", ".join([_day(hit), hit.kind, *remarks_of(PublicHit.of(hit))])
    return f"({about}) {hit.text}"


def _passage_line(hit: Hit) -> str:
    about = [_day(hit), hit.role] if hit.created_at_ms else [hit.role]
    shown = ", ".join(part for part in about if part)
    return f"({shown}) {hit.text}" if shown else hit.text


def _day(hit: Hit) -> str:
    return f"{datetime.fromtimestamp(hit.created_at_ms / 1000, UTC):%Y-%m-%d}" if hit.created_at_ms else "no date"
