"""Count LoCoMo as others do: whether a session with the evidence is found, in addition to the messages themselves.

    make bench ARGS="locomo --data locomo10.json --run run.jsonl"
    python benchmarks/session_level.py --data locomo10.json --run run.jsonl

A published figure is comparable only with the column that counts the same: one message in ten, or one session in ten,
of about twenty to thirty in a conversation. Sessions are ranked by their best message. Only questions of categories 1
to 4 with evidence are counted. The fifth category, "adversarial", which some published figures include, is about the
same sessions, and is left out here as in the rest of this repository.
"""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from statistics import fmean

#: Numbers of messages, or sessions, that are considered.
RANKS = (1, 5, 10)
#: Evidence ids such as D8:6, some of them malformed.
_MESSAGE = re.compile(r"D:?\s*(\d+)\s*:\s*0*(\d+)")
#: Categories with an answer.
_ANSWERED = (1, 2, 3, 4)


def main() -> None:
    """Print both counts."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="LoCoMo's JSON file")
    parser.add_argument("--run", type=Path, required=True, help="the file that the benchmark `locomo` wrote with --run")
    given = parser.parse_args()
    wanted = read_wanted(json.loads(given.data.read_text(encoding="utf-8")))
    lines = map(json.loads, given.run.read_text(encoding="utf-8").splitlines())
    ranked = {line["id"]: [name for hit in line["hits"] for name in hit["evidence"]] for line in lines}
    counted = [(wanted[name], found) for name, found in ranked.items() if name in wanted]
    print(f"{len(counted)} questions, in percent")
    for title, count in (("messages", list), ("sessions", sessions_of)):
        print(f"{title:9} " + "   ".join(f"{name} {value:.1f}" for name, value in figures(counted, count).items()))


def read_wanted(samples: Iterable[Mapping[str, object]]) -> dict[str, set[str]]:
    """Return the messages with the evidence of each question, by the question's id in a run."""
    wanted: dict[str, set[str]] = {}
    for sample in samples:
        name = str(sample["sample_id"])
        questions: Iterable[Mapping[str, object]] = sample["qa"]  # type: ignore[assignment]
        for number, question in enumerate(questions):
            evidence: Iterable[str] = question.get("evidence") or ()  # type: ignore[assignment]
            messages = {f"{name}/D{int(a)}:{int(b)}" for text in evidence for a, b in _MESSAGE.findall(text)}
            if messages and question["category"] in _ANSWERED:
                wanted[f"{name}-{number}"] = messages
    return wanted


def sessions_of(messages: Iterable[str]) -> list[str]:
    """Return the sessions of ranked messages, each at the rank of its best message."""
    return list(dict.fromkeys(message.rpartition(":")[0] for message in messages))


def figures(
    counted: Sequence[tuple[set[str], Sequence[str]]], count: Callable[[Iterable[str]], list[str]]
) -> dict[str, float]:
    """Return how often any of the wanted ones is among the first, and their mean share there, in percent."""
    pairs = [(set(count(sorted(wanted))), list(dict.fromkeys(count(found)))) for wanted, found in counted]
    shown: dict[str, float] = {}
    for rank in RANKS:
        shown[f"one of them in {rank}"] = 100 * fmean(bool(wanted & set(found[:rank])) for wanted, found in pairs)
    for rank in RANKS[1:]:
        shown[f"share in {rank}"] = 100 * fmean(
            len(wanted & set(found[:rank])) / len(wanted) for wanted, found in pairs
        )
    return shown


if __name__ == "__main__":
    main()
