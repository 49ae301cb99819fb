"""Measure limits on hits: what a question without an answer gets, and what the limit costs a question with an answer.

    python benchmarks/limit_curve.py --locomo FILE --corpus DIR --questions FILE --homes DIR

The hits are those of ``train_ranking.py``: forty are requested, with weights that were not trained on the project. A
limit shows all hits or none, by the support of the question; decides hit by hit, by their likelihood; or combines both
as ``engram/search/abstain.py`` does, with different requirements for a hit.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from train_ranking import Row, answer, collect, cross_validated

from bench.measure import question_figures
from engram.search.abstain import MIN_SCORE, count_likely
from engram.search.passages.passage_search import HitGroup

#: The limits of each kind to try.
SUPPORTS = (0.93, 1.06, 1.17)
SCORES = (0.70, 0.75, 0.80)
TOGETHER = (0.80, 0.85, 0.88, 0.90, 1.00, 1.10)
#: Number of hits that an agent reads first.
FIRST = 5


@dataclass(frozen=True, slots=True)
class ScoredQuestion:
    """One question with its hits."""

    row: Row
    hits: Sequence[HitGroup]


#: Returns how many of a question's hits are shown.
Limit: TypeAlias = Callable[[ScoredQuestion], int]


def main() -> None:
    """Collect, cross-validate and print the curve."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("--locomo", "--corpus", "--questions", "--homes"):
        parser.add_argument(name, type=Path, required=True)
    options = parser.parse_args()
    rows = collect(options, no_model=False)
    projects = {row.group for row in rows if row.is_code}
    questions = [ScoredQuestion(row, hits) for row, hits in cross_validated(rows, projects)]
    full = recall(questions, everything)
    print(f"without a limit {full:.1f} in 800 words")
    report("no limit", questions, everything, full)
    for bound in SUPPORTS:
        report(f"all or nothing, by support {bound:.2f}", questions, all_or_nothing(bound), full)
    for bound in SCORES:
        report(f"hit by hit, by likelihood {bound:.2f}", questions, hit_by_hit(bound), full)
    for bound in TOGETHER:
        report(f"both, {bound:.2f}", questions, together(bound), full)


def everything(question: ScoredQuestion) -> int:
    """Return how many hits are shown without a limit."""
    return len(question.hits)


def all_or_nothing(bound: float) -> Limit:
    """Return a limit that shows all hits of a question with enough support, and none otherwise."""
    return lambda question: len(question.hits) if question.row.support >= bound else 0


def hit_by_hit(bound: float) -> Limit:
    """Return a limit that shows each hit that is likely enough."""
    return lambda question: sum(hit.score >= bound for hit in question.hits)


def together(bound: float) -> Limit:
    """Return the limit of ``count_likely`` with the threshold ``bound``."""
    return lambda question: count_likely(
        [hit.score + MIN_SCORE - bound for hit in question.hits], question.row.support, is_chat=False
    )


def recall(questions: Sequence[ScoredQuestion], shown: Limit) -> float:
    """Return the recall in 800 words for the questions with an answer, in percent."""
    figures = [
        question_figures(answer(question.row, question.hits[: shown(question)]))["recall in 800 words"]
        for question in questions
        if question.row.question.wanted
    ]
    return 100 * sum(figures) / len(figures)


def report(name: str, questions: Sequence[ScoredQuestion], shown: Limit, full: float) -> None:
    """Print a row of the table in docs/retrieval.md."""
    counts = [shown(question) for question in questions if not question.row.question.wanted]
    silent = [shown(question) == 0 for question in questions if question.row.question.wanted]
    first = sum(min(count, FIRST) for count in counts)
    print(
        f"| {name} | {sum(counts) / len(counts):.1f} | {first / len(counts):.1f} "
        f"| {100 * counts.count(0) / len(counts):.0f} % | {100 * sum(silent) / len(silent):.1f} % "
        f"| {recall(questions, shown) - full:+.1f} |"
    )


if __name__ == "__main__":
    main()
