"""How many hits a question without an answer gets, and what each limit costs where there is one: the curve behind the floor.

    python benchmarks/limit_curve.py --locomo FILE --corpus DIR --questions FILE --homes DIR

The hits are those of ``train_ranking.py``: forty asked for, weights that were not trained on the project. A limit is
all or nothing by how near a question comes, or hit by hit by their likelihood, or both together as
``engram/search/floor.py`` has it, with more or less asked of a hit.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from train_ranking import Row, answer, collect, found_by, train

from engram.search.bench.measure import figures_of
from engram.search.exchange import Exchange
from engram.search.floor import LEAST_SCORE, how_many

#: The limits of each kind that are tried.
NEARNESSES = (0.93, 1.06, 1.17)
SCORES = (0.70, 0.75, 0.80)
TOGETHER = (0.80, 0.85, 0.88, 0.90, 1.00, 1.10)
#: What an agent reads at first.
FIRST = 5


@dataclass(frozen=True, slots=True)
class Found:
    """One question with its hits."""

    row: Row
    hits: Sequence[Exchange]

    def likely(self, least: float) -> int:
        """How many hits the floor lets through where it asks for ``least``."""
        return how_many([one.score + LEAST_SCORE - least for one in self.hits], self.row.near, is_chat=False)


def main() -> None:
    """Collect, cross-validate and print the curve."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("--locomo", "--corpus", "--questions", "--homes"):
        parser.add_argument(name, type=Path, required=True)
    options = parser.parse_args()
    rows = collect(options, no_model=False)
    found = [
        Found(row, found_by(row, weights))
        for group in sorted({row.group for row in rows if row.is_code})
        for weights in [train([row for row in rows if row.group != group])]
        for row in rows
        if row.group == group
    ]
    full = recall(found, lambda one: len(one.hits))
    print(f"without a limit {full:.1f} in 800 words")
    report("no limit", found, lambda one: len(one.hits), full)
    for bound in NEARNESSES:
        report(
            f"all or nothing, by nearness {bound}",
            found,
            lambda one, b=bound: len(one.hits) * (one.row.near >= b),
            full,
        )  # type: ignore[misc]
    for bound in SCORES:
        report(
            f"hit by hit, by likelihood {bound}", found,
            lambda one, b=bound: sum(hit.score >= b for hit in one.hits), full,  # type: ignore[misc]
        )  # fmt: skip
    for bound in TOGETHER:
        report(f"both, {bound}", found, lambda one, b=bound: one.likely(b), full)  # type: ignore[misc]


def recall(found: Sequence[Found], shown: Callable[[Found], int]) -> float:
    """Recall in 800 words over the questions with an answer, in percent."""
    figures = [
        figures_of(answer(one.row, one.hits[: shown(one)]))["recall in 800 words"]
        for one in found
        if one.row.question.wanted
    ]
    return 100 * sum(figures) / len(figures)


def report(name: str, found: Sequence[Found], shown: Callable[[Found], int], full: float) -> None:
    """A row of the table in docs/retrieval.md."""
    counts = [shown(one) for one in found if not one.row.question.wanted]
    silent = [shown(one) == 0 for one in found if one.row.question.wanted]
    first = sum(min(count, FIRST) for count in counts)
    print(
        f"| {name} | {sum(counts) / len(counts):.1f} | {first / len(counts):.1f} "
        f"| {100 * counts.count(0) / len(counts):.0f} % | {100 * sum(silent) / len(silent):.1f} % "
        f"| {recall(found, shown) - full:+.1f} |"
    )


if __name__ == "__main__":
    main()
