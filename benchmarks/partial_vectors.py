"""Search while only some of the texts have a vector: is the result ever worse than a search by words alone?

    python benchmarks/partial_vectors.py --corpus DIR --questions FILE [--homes DIR]

For each share of vectors, drawn with a seed, it prints how much of the questions' evidence is among the first ten
passages (as ``python -m bench code`` counts it), and how many of 40 sentences from the sessions are found by their own
words, as in a person's search: without weak matches. ``--homes`` keeps the memories for a second run.
"""

from __future__ import annotations

import argparse
import random
from collections.abc import Sequence
from pathlib import Path

from bench.datasets import Question, read_code_questions
from bench.homes import open_homes, read_transcripts
from bench.memories import question_time_ms
from engram.embedding.embedder import Embedder
from engram.models.engine.transaction import Store
from engram.models.search.vector_rows import vector_owner_ids
from engram.models.sessions.passage_rows import passage_rows
from engram.search.question import Query
from engram.search.searcher import Searcher
from engram.search.vectors.loaded_vectors import VectorCache
from engram.settings import Settings, load
from engram.text.splitting import sentence_spans

#: Shares of the texts that have a vector; None searches without a model.
SHARES = (None, 0.0, 0.01, 0.1, 0.5, 0.9, 1.0)
#: Number of sentences that are searched for in all, and their minimum and maximum length, in words.
SENTENCES, MIN_WORDS, MAX_WORDS = 40, 7, 25
#: Number of hits among which the evidence must be.
LIMIT = 10


class PartialCache(VectorCache):
    """The vectors of a memory, except those of some rows."""

    def drop(self, ids: Sequence[int]) -> None:
        """Drop the vectors of these rows."""
        self._index.remove(ids)


def searcher_with(store: Store, settings: Settings, embedder: Embedder, share: float | None, seed: int) -> Searcher:
    """Return a searcher that has the vectors of this share of the passages."""
    if share is None:
        return Searcher(store, settings)
    caches = {owner: PartialCache(owner, embedder.model_id, embedder.dimension) for owner in "pen"}
    for owner, cache in caches.items():
        cache.refresh(store)
        ids = sorted(set(vector_owner_ids(store, owner)))
        cache.drop(random.Random(seed).sample(ids, round((1 - share) * len(ids))))
    return Searcher(store, settings, embedder=embedder, vectors=caches)


def sentences_of(store: Store, count: int, seed: int) -> list[tuple[str, int]]:
    """Return sentences from passages, each with the row id of its passage."""
    drawn = random.Random(seed)
    rows = passage_rows(store, sorted(set(vector_owner_ids(store, "p"))))
    found: list[tuple[str, int]] = []
    for row_id in drawn.sample(sorted(rows), len(rows)):
        text = rows[row_id].text
        sentences = [text[start:stop].strip() for start, stop in sentence_spans(text)]
        fitting = [one for one in sentences if MIN_WORDS <= len(one.split()) <= MAX_WORDS]
        if fitting and len(found) < count:
            found.append((drawn.choice(fitting), row_id))
    return found


def recall(searcher: Searcher, questions: Sequence[Question], now_ms: int) -> float:
    """Return the sum over questions of the share of the evidence in the first hits."""
    total = 0.0
    for question in questions:
        if question.wanted:
            hits = searcher.search(Query(question.text, now_ms=now_ms, limit=LIMIT, thorough=True))
            found = {place.uuid for hit in hits for place in hit.evidence}
            total += len(question.wanted & found) / len(question.wanted)
    return total


def found_sentences(searcher: Searcher, store: Store, sentences: Sequence[tuple[str, int]], now_ms: int) -> int:
    """Return how many of the sentences are found by their own words, and not as doubtful hits."""
    count = 0
    for text, _ in sentences:
        hits = searcher.search(Query(text, now_ms=now_ms, limit=LIMIT))
        words = " ".join(text.split())
        count += any(words in " ".join(hit.text.split()) and not hit.is_doubtful for hit in hits)
    return count


def main() -> None:
    """Measure every share over all projects and print a line for each."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--corpus", type=Path, required=True)
    parser.add_argument("--questions", type=Path, required=True)
    parser.add_argument("--homes", type=Path)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    by_project = read_code_questions(options.questions)
    recalled, found = dict.fromkeys(SHARES, 0.0), dict.fromkeys(SHARES, 0)
    asked, told = 0, 0
    with open_homes(load().settings, no_model=False, keep=options.homes) as homes:
        assert homes.embedder is not None
        for number, (project, questions) in enumerate(by_project.items()):
            with homes.memory(project, read_transcripts(options.corpus / project)) as (store, _):
                now_ms = question_time_ms(store)
                sentences = sentences_of(store, SENTENCES // len(by_project), options.seed + number)
                asked += sum(bool(question.wanted) for question in questions)
                told += len(sentences)
                for share in SHARES:
                    searcher = searcher_with(store, homes.settings, homes.embedder, share, options.seed)
                    recalled[share] += recall(searcher, questions, now_ms)
                    found[share] += found_sentences(searcher, store, sentences, now_ms)
    print(f"vectors     evidence in the first {LIMIT} of {asked} questions     of {told} sentences found")
    for share in SHARES:
        name = "no model" if share is None else f"{share:.0%}"
        print(f"{name:>8} {recalled[share]:12.1f} ({100 * recalled[share] / asked:.1f} %) {found[share]:24}")


if __name__ == "__main__":
    main()
