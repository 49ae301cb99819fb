"""The text that a memory returns for a question, within a budget of words: by recall, search, both, or plain FTS5."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from bench.baselines import PassageBaselines
from engram.models.engine.transaction import Store
from engram.search.answer import answer_question
from engram.search.hit_lines import answer_text
from engram.search.hits import Hit
from engram.search.question import Query
from engram.search.searcher import Searcher
from engram.system.clock import day_of

#: Maximum number of memories: the default of ``memory_recall``.
MAX_MEMORIES = 5
#: Number of passages that are requested from search and the baseline; the budget of words ends the list earlier.
MAX_PASSAGES = 40
#: Minimum number of words in a passage that is cut at the end of the budget; a shorter remainder is left out.
MIN_CUT_WORDS = 15
#: The text that is returned if nothing is found.
NOTHING = "(nothing found)"

#: Returns the text for a question, within a number of words.
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
        """Return every way to query the memory, by name."""
        return {"recall": self.recall, "search": self.search, "both": self.both, "fts5": self.fts5}

    def recall(self, question: str, words: int) -> str:
        """Return the answer of ``memory_recall``, without passages."""
        return self._answer(question, words, with_passages=False)

    def both(self, question: str, words: int) -> str:
        """Return the answer of ``memory_recall``: memories and passages."""
        return self._answer(question, words, with_passages=True)

    def search(self, question: str, words: int) -> str:
        """Return the best passages of the transcripts, as ``memory_search`` ranks them."""
        hits = self.searcher.search(self._query(question, MAX_PASSAGES))
        return within_words(map(_passage_line, hits), words)

    def fts5(self, question: str, words: int) -> str:
        """Return the best passages by SQLite's full-text index alone, as the baseline."""
        hits = PassageBaselines(self.store, None).search("FTS5 alone", self._query(question, MAX_PASSAGES))
        return within_words(map(_passage_line, hits), words)

    def _answer(self, question: str, words: int, *, with_passages: bool) -> str:
        query = self._query(question, MAX_MEMORIES)
        answer = answer_question(self.store, self.searcher, query, max_words=words, with_passages=with_passages)
        return answer_text(answer.hits) or NOTHING

    def _query(self, question: str, limit: int) -> Query:
        return Query(question, project_id=self.project_id, limit=limit, now_ms=self.now_ms)


def within_words(lines: Iterable[str], words: int) -> str:
    """Return numbered lines with at most ``words`` words in total; the last one may be cut."""
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


def _passage_line(hit: Hit) -> str:
    about = ", ".join(part for part in (day_of(hit.created_at_ms) if hit.created_at_ms else "", hit.role) if part)
    return f"({about}) {hit.text}" if about else hit.text
