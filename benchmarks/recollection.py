"""Measure the relevance of bites for written prompts with gold memories, through the real code path.

    python benchmarks/recollection.py --corpus DIR --bench DIR --answers DIR [--homes DIR]

This creates two memories for each project: one by the rules, and one from a language model's recorded answers. It sends
every prompt to each, labels the hits by the scorer's own rule, and prints what the weights achieve that ``gate.py``
fits.

Every project also gets the prompts of the others, as from a person who begins something new. Nothing that is found for
those is relevant; their false alarms are reported separately, as are those for twenty prompts that fit any project.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from bench.answers import AnsweredMemories
from bench.homes import BenchHomes, extract_all
from bench.prompts import as_one_project
from bench.recorded_provider import RecordedProvider
from engram.embedding.load_model import load_embedder
from engram.enums import Importance, Verdict
from engram.models.engine.transaction import Store
from engram.models.open_memory import open_store
from engram.models.sessions.sessions import list_sessions
from engram.recollection.choose_bites import (
    FeatureContext,
    InjectionRequest,
    RatedHit,
    Thresholds,
    bites_of,
    deduplicate,
    features,
    load_weights,
    logistic,
    rate_hits,
)
from engram.recollection.prompts import filter_prompt
from engram.recollection.quotation_bites import query_for
from engram.recollection.render_bites import bite_head, shown_words
from engram.search.searcher import Searcher
from engram.search.support import Support
from engram.settings import Settings

#: Thresholds to try.
FLOORS = (0.19, 0.22, 0.25, 0.28, 0.31, 0.34, 0.37, 0.4)
#: Kinds of memories, by what made them.
RULES, MODEL = "rules", "model"
#: Verdicts on memories that may be shown.
_ELIGIBLE = (Verdict.SHOWN, Verdict.BELOW_FLOOR, Verdict.NO_ROOM, Verdict.FAR_BELOW_BEST, Verdict.REPEATS)
#: Prompts that could occur in any project.
ROUTINE = (
    "fix the lint errors please",
    "run the full test suite and fix what fails",
    "write unit tests for this function",
    "refactor this into smaller functions",
    "update the README with the new flags",
    "bump the version and tag a release",
    "add error handling around the file read",
    "rename the variable to something clearer",
    "explain what this regex matches",
    "rebase onto main and resolve the conflicts",
    "open a pull request with a short description",
    "make the button blue and center it",
    "why does the build fail on CI?",
    "add type hints to the module",
    "remove the unused imports",
    "delete the temporary files",
    "is there a memory leak in the worker?",
    "profile the startup time",
    "translate the docs to German",
    "create a Dockerfile for the app",
)


@dataclass
class Asked:
    """A prompt from the set with the memory's answer."""

    project: str
    #: Who made the memories.
    maker: str
    #: own, foreign or routine.
    kind: str
    id: str
    request: InjectionRequest
    has_memories: bool
    rated: list[RatedHit]
    #: Whether each hit is relevant, by the scorer's rule.
    labels: list[bool]
    judge: Callable[[str, Sequence[str]], bool]


def main() -> None:
    """Fit, measure, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--corpus", type=Path, required=True)
    parser.add_argument("--bench", type=Path, required=True, help="folder with match.py and code/")
    parser.add_argument("--answers", type=Path, required=True, help="recorded answers of a language model")
    parser.add_argument("--homes", type=Path, help="keep the memories here, and use those that are there")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        asked = ask_all(options, options.homes or Path(temporary))
    for (maker, searcher), answers in asked.items():
        report(maker, searcher, answers)


def ask_all(options: argparse.Namespace, folder: Path) -> dict[tuple[str, str], list[Asked]]:
    """Return every prompt with its hits and labels, by what made the memories, with and without vectors."""
    sys.path.insert(0, str(options.bench))
    words = __import__("match").words
    gold = {memory["id"]: memory for memory in read_lines(options.bench / "code" / "memories.jsonl") if "id" in memory}
    prompts = list(read_lines(options.bench / "code" / "prompts.jsonl"))
    homes = BenchHomes(folder, Settings(home=folder), load_embedder("bundled"))
    asked: dict[tuple[str, str], list[Asked]] = {}
    for project in sorted({prompt["project"] for prompt in prompts}):
        for maker in (MODEL, RULES):
            with open_memory(options, homes, project, maker) as (store, searcher):
                searchers = {"with_model": searcher, "text_alone": Searcher(store, homes.settings)}
                for name, each_searcher in searchers.items():
                    answers = ask_project(store, each_searcher, project, prompts, gold, words)
                    asked.setdefault((maker, name), []).extend(replace(one, maker=maker) for one in answers)
        print(f"{project}: asked", file=sys.stderr)
    return asked


def read_lines(path: Path) -> Iterator[dict[str, Any]]:
    """Return the objects of a file of JSON lines."""
    return (json.loads(line) for line in path.read_text(encoding="utf-8").splitlines())


@contextmanager
def open_memory(
    options: argparse.Namespace, homes: BenchHomes, project: str, maker: str
) -> Iterator[tuple[Store, Searcher]]:
    """Open a project's memory; create it if it does not exist."""
    made = homes.folder / f"{project}-answers"
    if maker == RULES:
        with homes.memory(f"{project}-rules", as_one_project(options.corpus / project)) as (store, searcher):
            extract_all(store, replace(homes.settings, hourly_memories=1_000_000_000), homes.embedder)
            searcher.refresh()
            yield store, searcher
    elif not made.exists():
        answered = AnsweredMemories(homes, options.corpus, RecordedProvider(options.answers))
        with answered.memory(project) as opened:
            yield opened
    else:
        store = open_store(made / "memory.db")
        try:
            searcher = Searcher(store, replace(homes.settings, home=made), embedder=homes.embedder)
            searcher.refresh()
            yield store, searcher
        finally:
            store.close()


def ask_project(
    store: Store,
    searcher: Searcher,
    project: str,
    prompts: Sequence[dict[str, Any]],
    gold: dict[str, Any],
    words: Callable[[str], set[str]],
) -> Iterator[Asked]:
    """Send a project's own prompts, those of the others and the routine ones to its memory."""
    counted = Counter(session.project_id for session in list_sessions(store) if session.project_id is not None)
    project_id = counted.most_common(1)[0][0]
    for prompt in prompts:
        is_own = prompt["project"] == project
        relevant = [gold[name] for name in prompt["relevant"] if name in gold and is_own]
        request = InjectionRequest(filter_prompt(prompt["prompt"]).text, project_id=project_id)
        kind = "own" if is_own else "foreign"
        yield ask(searcher, project, kind, prompt["id"], request, relevant, words)
    for number, text in enumerate(ROUTINE):
        request = InjectionRequest(filter_prompt(text).text, project_id=project_id)
        yield ask(searcher, project, "routine", f"routine-{number}", request, [], words)


def ask(
    searcher: Searcher,
    project: str,
    kind: str,
    name: str,
    request: InjectionRequest,
    relevant: Sequence[dict[str, Any]],
    words: Callable[[str], set[str]],
) -> Asked:
    """Return a prompt with its hits; the text is "" if the filter lets nothing through."""

    def judge(text: str, evidence: Sequence[str]) -> bool:
        says = words(text)
        return any(
            set(evidence) & set(memory["evidence"])
            and len(words(memory["summary"]) & says) >= 0.25 * len(words(memory["summary"]))
            for memory in relevant
        )

    query = query_for(request)
    hits = list(searcher.recall(query)) if request.text else []
    support = searcher.support(query, hits) if hits else Support()
    context = FeatureContext.of(request.text, support)
    rated = [
        replace(rated_hit, features=features(rated_hit.hit, context))
        for rated_hit in rate_hits(hits, request, support, Thresholds(relevance=0.0))
        if is_eligible(rated_hit)
    ]
    labels = [judge(rated_hit.hit.text, [place.uuid for place in rated_hit.hit.evidence]) for rated_hit in rated]
    return Asked(project, "", kind, name, request, bool(relevant), rated, labels, judge)


def is_eligible(rated_hit: RatedHit) -> bool:
    """Return whether a memory may be shown at all."""
    return rated_hit.verdict in _ELIGIBLE


def report(maker: str, searcher: str, asked: Sequence[Asked]) -> None:
    """Print what the shipped weights achieve with one kind of memory, with vectors or by words alone."""
    print(f"\nmemories by {maker}, {searcher}: {sum(len(one.rated) for one in asked)} hits,", end=" ")
    print(f"{sum(map(sum, (one.labels for one in asked)))} relevant")
    for floor in FLOORS:
        print(f"  floor {floor}: {figures(asked, [choose(one, floor) for one in asked])}")


def choose(asked: Asked, floor: float) -> list[bool]:
    """Return whether each bite is relevant, by its words as they are shown."""
    thresholds = Thresholds(relevance=floor)
    rescored = []
    for rated in asked.rated:
        score = logistic(load_weights(), rated.features)
        least = floor * (thresholds.high_share if rated.hit.importance == Importance.HIGH else 1.0)
        verdict = Verdict.SHOWN if score >= least else Verdict.BELOW_FLOOR
        rescored.append(replace(rated, score=score, floor=least, verdict=verdict))
    rescored.sort(key=lambda rated: -rated.score)
    bites = bites_of(deduplicate(rescored, asked.request.bites, thresholds.below_best))
    shown = shown_words(bites, Settings().bite_tokens)
    return [asked.judge(f"{bite_head(bite)}: {words}", bite.evidence) for bite, words in shown]


def figures(asked: Sequence[Asked], chosen: Sequence[list[bool]]) -> str:
    """Return precision, served prompts and false alarms in percent, for a project's own prompts; alarms for others."""
    pairs = list(zip(asked, chosen, strict=True))
    own = [(one, labels) for one, labels in pairs if one.kind == "own"]
    bites = [label for one, labels in own if one.has_memories for label in labels]
    served = [any(labels) for one, labels in own if one.has_memories]
    alarms = {"false alarms": [bool(labels) for one, labels in own if not one.has_memories]}
    for kind in ("foreign", "routine"):
        alarms[kind] = [bool(labels) for one, labels in pairs if one.kind == kind]
    told = ", ".join(f"{name} {share(values)}" for name, values in alarms.items())
    return (
        f"precision {share(bites)} ± {spread(bites)}, served {share(served)} ± {spread(served)}, {told}, "
        f"bites {len(bites) / len(served):.2f}"
    )


def share(values: Sequence[bool]) -> float:
    """Return the share of true values in percent."""
    return round(100 * sum(values) / max(len(values), 1), 1)


def spread(values: Sequence[bool]) -> float:
    """Return half of the 95 % interval of a share, in percentage points."""
    p = sum(values) / max(len(values), 1)
    return round(196 * math.sqrt(p * (1 - p) / max(len(values), 1)), 1)


if __name__ == "__main__":
    main()
