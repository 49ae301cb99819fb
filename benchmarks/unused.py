"""Measure how ranking unused memories lower affects prompts, by sending the development prompts repeatedly.

    python benchmarks/unused.py --corpus DIR --bench DIR --answers DIR [--homes DIR] [--rounds 12]

Every prompt is a new session in every round. A relevant bite is expanded with some probability, and an irrelevant one
never is; uses are counted as ``engram.models.memories.judgements`` counts them. The output shows the figures of the
first round, in which nothing ranks lower yet, and of the last one. With probability 0, nothing is ever expanded: the
worst case.
"""

from __future__ import annotations

import argparse
import random
import tempfile
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from recollection import MODEL, RULES, Asked, ask_all, figures

from engram.enums import Importance, Verdict
from engram.models.memories.judgements import Usefulness
from engram.recollection.choose_bites import Bite, RatedHit, Thresholds, bites_of, deduplicate, load_weights, logistic
from engram.recollection.render_bites import bite_head, shown_words
from engram.settings import Settings

#: Probabilities that a relevant bite is expanded.
EXPANDED = (0.0, 0.1, 0.3, 1.0)
#: Seed of the expansions.
SEED = 14


def main() -> None:
    """Send the prompts, simulate and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--corpus", type=Path, required=True)
    parser.add_argument("--bench", type=Path, required=True, help="folder with score_prompts.py, match.py and code/")
    parser.add_argument("--answers", type=Path, required=True, help="recorded answers of a language model")
    parser.add_argument("--homes", type=Path, help="keep (and use again) the memories here")
    parser.add_argument("--rounds", type=int, default=12)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        asked = ask_all(options, options.homes or Path(temporary))
    for maker in (MODEL, RULES):
        for probability in EXPANDED:
            simulate(maker, asked[maker, "with_model"], probability, options.rounds)


def simulate(maker: str, asked: Sequence[Asked], probability: float, rounds: int) -> None:
    """Send every prompt once per round; print the figures of the first and the last round."""
    chance = random.Random(SEED)
    unused: Counter[tuple[str, str]] = Counter()
    for number in range(rounds):
        labels = []
        for prompt in asked:
            shown = shown_bites(prompt, unused)
            labels.append([prompt.judge(f"{bite_head(bite)}: {words}", bite.evidence) for bite, words in shown])
            for (bite, _), is_relevant in zip(shown, labels[-1], strict=True):
                key = (prompt.project, bite.episode_id)
                unused[key] = 0 if is_relevant and chance.random() < probability else unused[key] + 1
        if number in (0, rounds - 1):
            low = sum(Usefulness(unused=count).sink > 0 for count in unused.values())
            print(f"{maker}, expanded {probability:.0%}, round {number + 1}: {figures(asked, labels)}, sunk {low}")


def shown_bites(prompt: Asked, unused: Counter[tuple[str, str]]) -> list[tuple[Bite, str]]:
    """Return the bites of a prompt with the words that are shown, given how far the memories have sunk."""
    rated = [sunk(one, unused[prompt.project, one.hit.id]) for one in prompt.rated]
    rated.sort(key=lambda one: -one.score)
    chosen = deduplicate(rated, prompt.request.bites, Thresholds().below_best)
    return shown_words(bites_of(chosen), Settings().bite_tokens)


def sunk(rated: RatedHit, times: int) -> RatedHit:
    """Return a memory as it is rated after this many sessions in a row were shown it without using it."""
    factor = Usefulness(unused=times).factor
    score, floor = logistic(load_weights(), rated.features) * factor, Thresholds().relevance
    if rated.hit.importance == Importance.HIGH:
        # An important memory only ranks lower than others.
        floor *= Thresholds().high_share * factor
    return replace(rated, score=score, floor=floor, verdict=Verdict.SHOWN if score >= floor else Verdict.BELOW_FLOOR)


if __name__ == "__main__":
    main()
