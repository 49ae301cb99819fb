"""Fit the model that finds sentences directing their reader, and measure it on writers who were held out.

    python benchmarks/trust.py [--write] [--memories FILE]

``answers/trust`` has one file per writer, with colleagues' sentences about a project ("plain") and sentences that
direct the agent or the user ("hostile"). Each writer's sentences are judged by a model that was fitted on the other
writers' sentences, and each project's recorded memories, all of them plain, by one that was fitted without them.
``--memories`` adds memories to judge, as JSON lines with a ``summary``; nothing is fitted on them. The floor is the
lowest one at which the model alone holds back at most 6.25 % of the plain sentences. The rules were developed on the
files ``early-…``, so their figures for those prove nothing. ``--write`` fits on everything and writes
``engram/trust/directive_weights.json``.
"""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple, TypeAlias

from linear_fit import Weights, fit, write

from engram.trust.addressed import WEIGHTS, is_addressed, passages
from engram.trust.suspicion import why_suspect

ANSWERS = Path(__file__).parent / "answers"
#: Maximum share of plain sentences that the model alone may hold back.
MAX_HELD_BACK = 0.0625
#: How much lower the floor is for sentences that the rules also suspect.
LOWER_WITH_RULES = 1.4
#: Number of groups of writers and projects that are held out in turn.
FOLDS = 10


class Sentence(NamedTuple):
    """A text, who wrote it, and whether it directs its reader."""

    writer: str
    text: str
    is_hostile: bool


#: See ``judge``.
Score: TypeAlias = tuple[float, float]


def read_sentences() -> list[Sentence]:
    """Return the sentences of all writers."""
    return [
        Sentence(path.stem, record["text"], record["label"] == "hostile")
        for path in sorted((ANSWERS / "trust").glob("*.jsonl"))
        for record in map(json.loads, path.read_text(encoding="utf-8").splitlines())
    ]


def read_memories() -> list[Sentence]:
    """Return the summaries and questions of memories that a language model wrote from real sessions."""
    return [
        Sentence(path.stem, text, False)
        for path in sorted(ANSWERS.glob("*.jsonl"))
        for record in map(json.loads, path.read_text(encoding="utf-8").splitlines())
        for memory in record["answer"].get("memories", [])
        if memory.get("summary")
        for text in (memory["summary"], *memory.get("questions", []))
    ]


def fit_on(sentences: Iterable[Sentence]) -> Weights:
    """Return the weights fitted on sentences, passage by passage."""
    return fit((passage, one.is_hostile) for one in sentences for passage in passages(one.text))


def judge(weights: Weights, text: str) -> tuple[float, float]:
    """Return the score of a text's worst passage, and the same minus what chance alone yields (see ``directs``)."""
    scores = [weights.score(passage) for passage in passages(text)]
    greatest = max(scores, default=-math.inf)
    return greatest, greatest - math.log(len(scores) or 1)


def held_back(sentences: Sequence[Sentence], memories: Sequence[Sentence]) -> tuple[list[Score], list[Score]]:
    """Return the scores of all sentences and memories, each from a model without its writer or project."""
    every = [*sentences, *memories]
    writers = list(dict.fromkeys(one.writer for one in every))
    fold_of = {writer: number % FOLDS for number, writer in enumerate(writers)}
    scores = [(0.0, 0.0)] * len(every)
    for fold in range(FOLDS):
        weights = fit_on(one for one in every if fold_of[one.writer] != fold)
        for place, one in enumerate(every):
            if fold_of[one.writer] == fold:
                scores[place] = judge(weights, one.text)
    return scores[: len(sentences)], scores[len(sentences) :]


def _print_shares(name: str, judged: Sequence[tuple[Sentence, Score]], floor: float) -> None:
    """Print how many texts are held back: by the model alone, and with the rules."""
    alone = [corrected >= floor for _, (_, corrected) in judged]
    others = [bool(why_suspect(one.text, is_typed=False)) for one, _ in judged]
    found = [is_addressed(one.text) for one, _ in judged]
    rules = [is_found or is_other for is_found, is_other in zip(found, others, strict=True)]
    both = [
        is_alone or is_other or (is_found and greatest >= floor - LOWER_WITH_RULES)
        for is_alone, is_other, is_found, (_, (greatest, _)) in zip(alone, others, found, judged, strict=True)
    ]
    shares = "".join(f"{100 * sum(held) / len(judged):10.1f} %" for held in (rules, alone, both))
    print(f"{name:30}{len(judged):6}{shares}")


def main() -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true", help="fit on everything and write the weights")
    parser.add_argument("--memories", type=Path, help="more memories to judge")
    given = parser.parse_args()
    sentences, memories = read_sentences(), read_memories()
    scores, memory_scores = held_back(sentences, memories)
    judged = list(zip(sentences, scores, strict=True))
    plain = sorted(score for one, (_, score) in judged if not one.is_hostile)
    floor = plain[math.ceil(len(plain) * (1 - MAX_HELD_BACK))]
    print(f"floor {floor:.2f}\n{'held back by':36}{'rules':>12}{'model':>12}{'both':>12}")
    for is_early in (False, True):
        for is_hostile in (True, False):
            name = ("hostile" if is_hostile else "plain") + (", early" if is_early else "")
            chosen = [
                (one, score)
                for one, score in judged
                if one.is_hostile == is_hostile and one.writer.startswith("early") == is_early
            ]
            _print_shares(name, chosen, floor)
    for is_question in (False, True):
        chosen = [
            (one, score)
            for one, score in zip(memories, memory_scores, strict=True)
            if one.text.endswith("?") == is_question
        ]
        _print_shares("questions of memories" if is_question else "recorded memories", chosen, floor)
    weights = fit_on([*sentences, *memories])
    if given.memories:
        lines = map(json.loads, given.memories.read_text(encoding="utf-8").splitlines())
        more = [Sentence("", line["summary"], False) for line in lines if line.get("summary")]
        _print_shares(given.memories.name, [(one, judge(weights, one.text)) for one in more], floor)
    if given.write:
        floors = {"alone": floor, "with_rules": floor - LOWER_WITH_RULES}
        write(weights, WEIGHTS, "python benchmarks/trust.py --write", floors)


if __name__ == "__main__":
    main()
