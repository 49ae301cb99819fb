"""Measure what a question gets: is the memory with its answer among the first five, and how many hits if there is none?

    python benchmarks/recall.py --corpus DIR --questions FILE [--homes DIR]

The memories are those that the local extractor makes from a project's transcripts. Questions without an answer are
those in the set, those about another project, and those that are about no work at all. All rows are measured in one
run; ``--homes`` keeps the memories, so that a second run takes a minute.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean

from answerable import foreign_to
from rivals.asked import NOWHERE

from bench.datasets import Question, read_code_questions
from bench.homes import extract_all, open_homes, read_transcripts
from bench.memories import question_time_ms
from engram.search.hits import Hit
from engram.search.question import Query
from engram.search.searcher import Searcher
from engram.settings import load

#: Number of hits for a question: the default of ``recall``.
LIMIT = 5
#: Limit of ``search``.
MAX_PASSAGES = 40


@dataclass(frozen=True, slots=True)
class Answered:
    """A question with its hits, before and after dropping weak matches."""

    kind: str
    wanted: frozenset[str]
    every: Sequence[Hit]
    shown: Sequence[Hit]
    #: Number of hits from ``search``.
    passages: int

    def is_right(self, hits: Sequence[Hit]) -> bool:
        """Return whether the evidence of a hit contains the answer."""
        return any(place.uuid in self.wanted for hit in hits for place in hit.evidence)


def main() -> None:
    """Ask everything and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--corpus", type=Path, required=True)
    parser.add_argument("--questions", type=Path, required=True)
    parser.add_argument("--homes", type=Path)
    options = parser.parse_args()
    by_project = read_code_questions(options.questions)
    answered: list[Answered] = []
    with open_homes(load().settings, no_model=False, keep=options.homes) as homes:
        for project, own in by_project.items():
            with homes.memory(project, read_transcripts(options.corpus / project)) as (store, searcher):
                extract_all(store, homes.settings, homes.embedder)
                searcher.refresh()
                now_ms = question_time_ms(store)
                answered += [
                    ask(searcher, question, now_ms, "with" if question.wanted else "without") for question in own
                ]
                answered += [ask(searcher, question, now_ms, "foreign") for question in foreign_to(project, by_project)]
                nowhere = [Question(text, text, "", frozenset()) for text in NOWHERE]
                answered += [ask(searcher, question, now_ms, "nowhere") for question in nowhere]
    report(answered)


def ask(searcher: Searcher, question: Question, now_ms: int, kind: str) -> Answered:
    """Ask a question, with and without weak matches."""
    query = Query(question.text, now_ms=question.now_ms or now_ms, limit=LIMIT)
    wanted = frozenset(question.wanted) if kind == "with" else frozenset()
    every, shown = searcher.recall(replace(query, thorough=True)), searcher.recall(query)
    return Answered(kind, wanted, every, shown, len(searcher.search(replace(query, limit=MAX_PASSAGES))))


def report(answered: Sequence[Answered]) -> None:
    """Print a line for each kind of question."""
    kinds = {
        "with": "with an answer",
        "without": "without one",
        "foreign": "of another project",
        "nowhere": "of no work",
    }
    for kind, name in kinds.items():
        of_kind = [result for result in answered if result.kind == kind]
        line = f"{name:20} {len(of_kind):4}   hits {fmean(len(result.every) for result in of_kind):.2f} -> "
        line += (
            f"{fmean(len(result.shown) for result in of_kind):.2f}   none "
            f"{100 * fmean(not result.shown for result in of_kind):.0f} %"
        )
        line += f"   doubtful {100 * fmean(any(hit.is_doubtful for hit in result.shown) for result in of_kind):.0f} %"
        line += f"   search {fmean(result.passages for result in of_kind):.2f}"
        if kind == "with":
            every, shown = (
                fmean(result.is_right(result.every) for result in of_kind),
                fmean(result.is_right(result.shown) for result in of_kind),
            )
            line += f"   right among them {100 * every:.1f} % -> {100 * shown:.1f} %"
        print(line)


if __name__ == "__main__":
    main()
