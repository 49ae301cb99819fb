"""Measure what the sinking of unused memories does to prompts: the development prompts, asked again and again.

    python benchmarks/unused.py --corpus DIR --bench DIR [--homes DIR] [--rounds 12]

Every prompt is a new session in every round. A relevant bite is expanded with some probability, an irrelevant one
never; that is counted as ``engram.models.usefulness`` counts it. Printed are the figures of the first round, in which
nothing has sunk, and of the last. With probability 0 nobody ever expands anything: the worst case.
"""

from __future__ import annotations

import argparse
import random
import tempfile
from collections import Counter
from dataclasses import replace
from pathlib import Path

from recollection import Asked, ask_all, figures

from engram.models.usefulness import Usefulness
from engram.recollection.choose import Bite, InjectionRequest, choose_bites
from engram.recollection.render import shown_words
from engram.settings import Settings

#: Probabilities that a relevant bite is expanded.
EXPANDED = (0.0, 0.1, 0.3, 1.0)
#: Seed of the expansions.
SEED = 14


def main() -> None:
    """Ask, simulate, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--corpus", type=Path, required=True)
    parser.add_argument("--bench", type=Path, required=True, help="folder with score_prompts.py, match.py and code/")
    parser.add_argument("--homes", type=Path, help="keep (and use again) the memories here")
    parser.add_argument("--rounds", type=int, default=12)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        asked = ask_all(options, options.homes or Path(temporary))
    for probability in EXPANDED:
        simulate(asked, probability, options.rounds)


def simulate(asked: list[Asked], probability: float, rounds: int) -> None:
    """Ask every prompt once a round; print the figures of the first and the last round."""
    chance = random.Random(SEED)
    unused: Counter[tuple[str, str]] = Counter()
    for number in range(rounds):
        labels = []
        for prompt in asked:
            shown = bites_of(prompt, unused)
            labels.append([prompt.judge(text, list(bite.evidence)) for bite, text in shown])
            for (bite, _), is_relevant in zip(shown, labels[-1], strict=True):
                key = (prompt.project, bite.episode_id)
                unused[key] = 0 if is_relevant and chance.random() < probability else unused[key] + 1
        if number in (0, rounds - 1):
            sunk = sum(Usefulness(unused=count).sink > 0 for count in unused.values())
            print(f"expanded {probability:.0%}, round {number + 1}: {figures(asked, labels)}, sunk {sunk}")


def bites_of(prompt: Asked, unused: Counter[tuple[str, str]]) -> list[tuple[Bite, str]]:
    """Return the bites of a prompt as they are shown, with the memories as far sunk as they are."""
    hits = [
        replace(
            hit,
            episode=replace(hit.episode, project_id=1),
            use_factor=Usefulness(unused=unused[prompt.project, hit.id]).factor,
        )
        for hit in prompt.hits
        if hit.episode is not None
    ]
    bites = choose_bites(hits, InjectionRequest(prompt.text, project_id=1), prompt.support)
    return shown_words(bites, Settings().bite_tokens)


if __name__ == "__main__":
    main()
