"""Fit the model that finds a user's rules in prompts, and measure it on writers who were held out.

    python benchmarks/user_rules.py [--write] [--misses]

``answers/rules`` has one file per writer, with prompts and the sentences in them that are rules for later, and with
prompts that only resemble such prompts or are ordinary. Each writer's prompts are judged by a model that was fitted on
the other writers' prompts. A rule counts as found if a kept sentence says all of it, and as cut if one says only a
part, such as the half before a semicolon; a prompt without a rule counts as wrong if any of its sentences is kept.
``--misses`` prints both kinds of errors. ``--write`` fits on everything and writes
``engram/extraction/rule_weights.json``.
"""

from __future__ import annotations

import argparse
import json
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from linear_fit import Weights, fit, write

from engram.extraction.user_rules import WEIGHTS, RuleRefusal, judge, sentences_in
from engram.text.linear_model import LinearModel
from engram.trust.voice import typed_text

ANSWERS = Path(__file__).parent / "answers" / "rules"
#: Kinds that are recognised by other sentences or by the form of the prompt, not by the words of the sentence.
BY_CONTEXT = ("list", "taken-back")
#: Maximum share of prompts that only resemble rules and from which something may be kept.
MAX_KEPT = 0.03
#: Minimum share of a rule's letters in a sentence that says all of it; only a word such as "hey" may be missing.
NEARLY_ALL = 0.9
#: The floors to try.
FLOORS = [step / 4 for step in range(-8, 17)]
#: How far below a rule's floor these may score: a sentence that begins like a rule, an order that becomes a rule when
#: it is repeated, and a sentence that still sounds like a rule.
BELOW = {"unmistakable": 2.0, "sure": 8.25, "order": 3.25, "unsure": 2.75}


class Prompt(NamedTuple):
    """A prompt, who wrote it, what the user typed next, its rules, and its kind."""

    writer: str
    text: str
    following: str
    rules: tuple[str, ...]
    is_global: bool
    kind: str

    def is_rule(self, sentence: str) -> bool:
        """Return whether a sentence of the prompt is one of its rules."""
        return any(_alike(rule, sentence) for rule in self.rules)


def read_prompts() -> list[Prompt]:
    """Return the prompts of all writers."""
    return [
        Prompt(
            path.stem,
            typed_text(record["prompt"]),
            typed_text(record["next"]),
            tuple(record["rules"]),
            record["scope"] == "global",
            record["kind"],
        )
        for path in sorted(ANSWERS.glob("*.jsonl"))
        for record in map(json.loads, path.read_text(encoding="utf-8").splitlines())
    ]


def labelled(prompts: Iterable[Prompt]) -> Iterator[tuple[str, bool]]:
    """Yield the sentences that say something on their own, each with whether it is a rule.

    Plain orders are left out, because they become rules when they are repeated.
    """
    for prompt in prompts:
        for sentence, _ in sentences_in(prompt.text):
            if prompt.rules or prompt.kind not in (*BY_CONTEXT, "order"):
                yield sentence, prompt.is_rule(sentence)


def held_back(prompts: Sequence[Prompt]) -> dict[str, Weights]:
    """Return weights for each writer that were fitted on all others."""
    writers = dict.fromkeys(prompt.writer for prompt in prompts)
    return {writer: fit(labelled(one for one in prompts if one.writer != writer)) for writer in writers}


def floor_of(prompts: Sequence[Prompt], weights: dict[str, Weights]) -> float:
    """Return the lowest floor at which at most ``MAX_KEPT`` of the prompts that resemble rules have something kept."""
    alike = [prompt for prompt in prompts if not prompt.rules and prompt.kind != "none"]
    for floor in FLOORS:
        models = {writer: one.model(**floors_from(floor)) for writer, one in weights.items()}
        kept = sum(
            any(
                one.refusal is None
                for one in judge(prompt.text, following=prompt.following, model=models[prompt.writer])
            )
            for prompt in alike
        )
        if kept <= MAX_KEPT * len(alike):
            return floor
    raise SystemExit("no floor is high enough")


def _keeps(prompt: Prompt, model: LinearModel) -> bool:
    return any(one.refusal is None for one in judge(prompt.text, following=prompt.following, model=model))


def floors_from(floor: float) -> dict[str, float]:
    """Return all floors of the model."""
    return {"rule": floor, **{name: floor - below for name, below in BELOW.items()}}


def measure(prompts: Sequence[Prompt], weights: dict[str, Weights], floor: float, *, shows_misses: bool) -> None:
    """Print what is found and what is wrongly kept, by writer and by kind."""
    counts: dict[str, Counter[str]] = {}
    models = {writer: one.model(**floors_from(floor)) for writer, one in weights.items()}
    for prompt in prompts:
        judged = judge(prompt.text, following=prompt.following, model=models[prompt.writer])
        kept = [one for one in judged if one.refusal is None]
        alike = [rule for rule in prompt.rules if any(_alike(rule, one.sentence) for one in kept)]
        found = [rule for rule in alike if any(_says_all(rule, one.sentence) for one in kept)]
        others = [one.sentence for one in kept if not prompt.is_rule(one.sentence)]
        for name in (prompt.writer, f"kind: {prompt.kind}", "all"):
            count = counts.setdefault(name, Counter())
            count["rules"] += len(prompt.rules)
            count["found"] += len(found)
            count["cut"] += len(alike) - len(found)
            count["others"] += not prompt.rules
            count["wrong"] += bool(others)
            count["orders"] += any(one.refusal is RuleRefusal.ORDER for one in judged)
        if shows_misses:
            for rule in prompt.rules:
                if rule not in found:
                    print(f"{'cut' if rule in alike else 'missed':6}  {rule}")
            for sentence in others:
                print(f"wrong   {prompt.kind}: {sentence}")
    print(f"floor {floor:.2f}\n{'':24}{'rules':>7}{'found':>9}{'cut':>6}{'others':>8}{'wrong':>8}{'orders':>8}")
    for name, count in counts.items():
        share = f"{100 * count['found'] / count['rules']:.0f} %" if count["rules"] else ""
        wrong = f"{100 * count['wrong'] / count['others']:.1f} %" if count["others"] else f"{count['wrong']}"
        print(f"{name:24}{count['rules']:7}{share:>9}{count['cut']:6}{count['others']:8}{wrong:>8}{count['orders']:8}")


def _alike(rule: str, sentence: str) -> bool:
    wanted, said = _bare(rule), _bare(sentence)
    return bool(said) and (wanted in said or said in wanted)


def _says_all(rule: str, sentence: str) -> bool:
    wanted, said = _bare(rule), _bare(sentence)
    return wanted in said or (said in wanted and len(said) >= NEARLY_ALL * len(wanted))


def _bare(text: str) -> str:
    return " ".join(text.split()).strip(" .!;:,。！-–—*")


def main() -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true", help="fit on everything and write the weights")
    parser.add_argument("--misses", action="store_true", help="print what is missed and wrongly kept")
    given = parser.parse_args()
    prompts = read_prompts()
    weights = held_back(prompts)
    floor = floor_of(prompts, weights)
    measure(prompts, weights, floor, shows_misses=given.misses)
    if given.write:
        write(fit(labelled(prompts)), WEIGHTS, "python benchmarks/user_rules.py --write", floors_from(floor))


if __name__ == "__main__":
    main()
