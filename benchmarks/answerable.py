"""Measure which features distinguish a question that has an answer from one that has none, before anything is read.

    python benchmarks/answerable.py --corpus DIR --questions FILE [--homes DIR]

For each feature, the table shows how well it distinguishes (AUC) the questions that have an answer from those that have
none, and from every fourth question of another project. It also shows how many questions with an answer would get none
at the threshold that silences three quarters of those without: with the question as asked, with only its informative
words, and with half of these, as a person in a hurry types them. A feature that only reflects how this set was written
fails in one of these columns.
"""

from __future__ import annotations

import argparse
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from pathlib import Path

import numpy as np

from bench.datasets import Question, read_code_questions
from bench.homes import open_homes, read_transcripts
from bench.memories import question_time_ms
from engram.embedding.embedder import Embedder
from engram.models.engine.transaction import Store
from engram.search.abstain import TOP_COSINES, mean_top_cosine
from engram.search.passages.candidate_set import SearchIndex, retrieve_passages
from engram.search.passages.passage_search import best_groups, passage_support, rank_passages
from engram.search.question import Query, TermCounts, parse_query
from engram.search.vectors.loaded_vectors import VectorCache
from engram.settings import load
from engram.text.words import terms_of

#: Every question of another project with this index is also asked: 4 for every fourth.
EVERY_FOREIGN = 4
#: Share of the questions without an answer that a threshold must silence.
SILENCED = 0.75
#: Minimum number of words in a shortened question.
MIN_WORDS = 3


@dataclass(frozen=True, slots=True)
class QuestionFeatures:
    """The features of one question in one wording; a larger value means that an answer is more likely."""

    #: asked, words or half; foreign: as asked, of another project.
    way: str
    has_answer: bool
    values: Mapping[str, float]


class Asker:
    """Computes features of questions from one project's memory."""

    def __init__(self, store: Store, embedder: Embedder) -> None:
        """Read the vectors of ``store``."""
        self._vectors = VectorCache("p", embedder.model_id, embedder.dimension)
        self._vectors.refresh(store)
        self._embedder, self._now_ms = embedder, question_time_ms(store)
        floor = embedder.thresholds.relevance_floor
        self._index = SearchIndex(store, self._vectors, TermCounts("passage_fts"), floor)

    def features(self, text: str) -> dict[str, float]:
        """Return every feature of a question."""
        query = Query(text, now_ms=self._now_ms, limit=TOP_COSINES)
        parsed = parse_query(query, self._now_ms)
        shortlist, coverage = retrieve_passages(self._index, query, parsed, partial(self._embedder.embed_query, text))
        groups = best_groups(shortlist, coverage, rank_passages(shortlist, parsed, coverage).score, TOP_COSINES)
        cosines = shortlist.candidates.cosine[shortlist.candidates.cosine > 0]
        return {
            "support, as shipped": passage_support(shortlist, parsed, coverage, self._index.relevance_floor),
            "cosine of the nearest": mean_top_cosine(cosines.tolist()),
            "share of words that are known": 1 - len(coverage.unknown_terms) / max(len(parsed.terms), 1),
            "score of the best hits": float(np.mean([group.score for group in groups])) if groups else 0.0,
            "weakest two pairs of words": self._weakest_pairs(text),
            "number of telling words": float(len(parsed.terms)),
        }

    def _weakest_pairs(self, text: str) -> float:
        """Return the cosine of the closest passages to the two pairs of neighbouring words that are worst matched."""
        words = terms_of(text)
        pairs = [" ".join(pair) for pair in pairwise(words)] or [text]
        cosines = [self._vectors.search(vector, TOP_COSINES, None).values() for vector in self._embedder.embed(pairs)]
        return float(np.mean(sorted(map(mean_top_cosine, cosines))[:2]))


def ways_of(question: Question) -> Iterator[tuple[str, str]]:
    """Yield a question as asked, then only its informative words, then half of them."""
    words = terms_of(question.text)
    some = random.Random(question.id).sample(range(len(words)), min(len(words), max(MIN_WORDS, len(words) // 2)))
    yield "asked", question.text
    yield "words", " ".join(words)
    yield "half", " ".join(words[place] for place in sorted(some))


def foreign_to(project: str, by_project: Mapping[str, Sequence[Question]]) -> list[Question]:
    """Return every fourth question that has an answer in another project."""
    questions_elsewhere = [
        question
        for name, questions in by_project.items()
        if name != project
        for question in questions
        if question.wanted
    ]
    return questions_elsewhere[::EVERY_FOREIGN]


def collect(options: argparse.Namespace) -> list[QuestionFeatures]:
    """Return the features of every question in every wording."""
    by_project = read_code_questions(options.questions)
    rows: list[QuestionFeatures] = []
    with open_homes(load().settings, no_model=False, keep=options.homes) as homes:
        assert homes.embedder is not None
        for project, own in by_project.items():
            with homes.memory(project, read_transcripts(options.corpus / project)) as (store, _):
                asker = Asker(store, homes.embedder)
                for question in own:
                    rows += [
                        QuestionFeatures(way, bool(question.wanted), asker.features(text))
                        for way, text in ways_of(question)
                    ]
                rows += [
                    QuestionFeatures("foreign", False, asker.features(question.text))
                    for question in foreign_to(project, by_project)
                ]
    return rows


def auc(some: Sequence[float], others: Sequence[float]) -> float:
    """Return how often one of ``some`` is larger than one of ``others``."""
    first, second = np.array(some)[:, np.newaxis], np.array(others)[np.newaxis]
    return float(np.mean((first > second) + 0.5 * (first == second)))


def report(rows: Sequence[QuestionFeatures]) -> None:
    """Print one line per feature."""
    print(f"{'':32}AUC: without an answer, of another project; silent with an answer: asked, words, half of them")
    for name in rows[0].values:

        def values(way: str, has_answer: Callable[[bool], bool], name: str = name) -> list[float]:
            return [row.values[name] for row in rows if row.way == way and has_answer(row.has_answer)]

        asked, without = values("asked", bool), values("asked", lambda it: not it)
        bound = float(np.quantile(without, SILENCED))
        silent = [np.mean(np.array(values(way, bool)) < bound) for way in ("asked", "words", "half")]
        foreign = values("foreign", lambda it: not it)
        shares = "   ".join(f"{100 * share:3.0f} %" for share in silent)
        print(f"{name:32}{auc(asked, without):.2f}   {auc(asked, foreign):.2f}   {shares}")


def main() -> None:
    """Ask everything and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--corpus", type=Path, required=True)
    parser.add_argument("--questions", type=Path, required=True)
    parser.add_argument("--homes", type=Path)
    report(collect(parser.parse_args()))


if __name__ == "__main__":
    main()
