"""Fit and measure the relevance of bites on prompts of real sessions: cross-validated, over the real path.

    python benchmarks/recollection.py --corpus DIR --bench DIR [--homes DIR]

Reads the sessions into a memory for each project, asks it with every prompt, labels the hits by the scorer's own rule,
and prints the weights for ``engram/recollection/relevance.py`` with what they reach: leaving out one fifth of the
prompts, leaving out one project, and with the weights that are in the source now.

Every project is also asked with the prompts of the others, as a person asks who begins something new: nothing that is
found for those is relevant. They are fitted with less weight than a project's own, and their alarms are told apart, as
are those of twenty prompts that could be said anywhere, which are never fitted.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from engram.embedding.load import load_embedder
from engram.extraction.local import LocalExtractor
from engram.extraction.service import extract_session
from engram.ingest.service import ingest_all
from engram.models import sessions
from engram.models.store import Store, open_store
from engram.recollection.choose import InjectionRequest, Thresholds, choose_bites
from engram.recollection.prompt_filter import search_text
from engram.recollection.recall import CANDIDATES, PASSAGES
from engram.recollection.relevance import (
    FEATURES,
    TEXT_ALONE,
    WITH_MODEL,
    FeatureContext,
    Support,
    Weights,
    features,
    logistic,
)
from engram.recollection.render import shown_words
from engram.redaction import redact
from engram.search.hits import Hit
from engram.search.question.query import Query
from engram.search.service import Searcher
from engram.search.vectors.backfill import embed_missing
from engram.settings import Settings

#: Thresholds that are tried.
FLOORS = (0.14, 0.18, 0.22, 0.26, 0.31, 0.35, 0.4, 0.45, 0.5)
#: What a hit for a prompt of another project weighs in the fit.
FOREIGN_WEIGHT = 0.6
#: Prompts that could be said in any project.
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
#: Features that mean nothing without a model; the place is that of the text score alone then.
NEEDS_MODEL = ("cosine", "both", "rank", "near")


@dataclass
class Asked:
    """One prompt of the set with what the memory answers."""

    project: str
    #: own, foreign or routine.
    kind: str
    text: str
    has_memories: bool
    hits: list[Hit]
    support: Support
    #: What is relevant, by the scorer's rule, hit by hit.
    labels: list[bool]
    judge: Callable[[str, list[str]], bool]


def main() -> None:
    """Fit, measure, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--corpus", type=Path, required=True)
    parser.add_argument("--bench", type=Path, required=True, help="folder with score_prompts.py, match.py and code/")
    parser.add_argument("--homes", type=Path, help="keep (and use again) the memories here")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        asked = ask_all(options, options.homes or Path(temporary))
    for name, weights, cosine in (("with model", WITH_MODEL, True), ("text alone", TEXT_ALONE, False)):
        report(name, asked if cosine else [without_cosine(one) for one in asked], weights)


def ask_all(options: argparse.Namespace, homes: Path) -> list[Asked]:
    """Every prompt with its hits and labels."""
    sys.path.insert(0, str(options.bench))
    words = __import__("match").words

    def read(name: str) -> list[dict[str, Any]]:
        return [json.loads(line) for line in (options.bench / "code" / name).open(encoding="utf-8")]

    gold = {one["id"]: one for one in read("memories.jsonl") if "id" in one}
    embedder = load_embedder("bundled", homes, compile_if_missing=False)
    prompts = [one for one in read("prompts.jsonl") if "id" in one]
    found = []
    for project in sorted({one["project"] for one in prompts}):
        searcher = open_searcher(options.corpus / project, homes / project, embedder)
        for prompt in prompts:
            is_own = prompt["project"] == project
            relevant = [gold[one] for one in prompt["relevant"] if one in gold and is_own]
            kind = "own" if is_own else "foreign"
            found.append(ask(searcher, project, kind, search_text(prompt["prompt"]), relevant, words))
        found += [ask(searcher, project, "routine", search_text(text), [], words) for text in ROUTINE]
    return found


def ask(
    searcher: Searcher, project: str, kind: str, text: str, relevant: list[dict[str, Any]], words: Callable[[str], Any]
) -> Asked:
    """One prompt with its hits, labelled by the scorer's rule; ``text`` is "" where the gate lets nothing through."""

    def judge(text: str, evidence: list[str]) -> bool:
        says = words(text)
        return any(
            set(evidence) & set(one["evidence"])
            and len(words(one["summary"]) & says) >= 0.25 * len(words(one["summary"]))
            for one in relevant
        )

    query = Query(text, limit=CANDIDATES, thorough=True)
    hits = list(searcher.recall(query)) if text else []
    support = Support.of(searcher.search(replace(query, limit=PASSAGES)) if text else [])
    labels = [judge(hit.text, [place.uuid for place in hit.evidence]) for hit in hits]
    return Asked(project, kind, text, bool(relevant), hits, support, labels, judge)


def open_searcher(claude_folder: Path, home: Path, embedder: Any) -> Searcher:
    """The memory of one project, made where it is missing."""
    settings = Settings(home=home, claude_folder=claude_folder, hourly_memories=1_000_000)
    is_new = not settings.places.memory_db.exists()
    settings.places.prepare()
    store = open_store(settings.places.memory_db)
    if is_new:
        fill(store, settings, embedder)
    searcher = Searcher(store, settings, embedder=embedder)
    searcher.refresh()
    return searcher


def fill(store: Store, settings: Settings, embedder: Any) -> None:
    """Read and extract every session."""
    ingest_all(store, settings=settings, redact=redact)
    for one in sessions.list_sessions(store):
        extract_session(store, one.session_id, extractor=LocalExtractor(), embedder=embedder, settings=settings)
    while embed_missing(store, embedder, 64):
        pass


def without_cosine(asked: Asked) -> Asked:
    """The same as it looks without a model: only hits by text, in the order of their text part."""
    kept = [(hit, label) for hit, label in zip(asked.hits, asked.labels, strict=True) if hit.parts.get("text", 0) > 0]
    kept.sort(key=lambda one: -one[0].parts["text"])
    hits = [replace(hit, cosine=None) for hit, _ in kept]
    return replace(asked, hits=hits, labels=[label for _, label in kept])


def report(name: str, asked: list[Asked], current: Weights) -> None:
    """Fitted weights and figures."""
    rows, labels, prompts = [], [], []
    for number, one in enumerate(asked):
        answer = FeatureContext.of(one.text, one.hits, one.support)
        for rank, (hit, label) in enumerate(zip(one.hits, one.labels, strict=True)):
            rows.append(features(hit, rank, answer))
            labels.append(label)
            prompts.append(number)
    x, y, of = np.array(rows), np.array(labels, dtype=float), np.array(prompts)
    if name == "text alone":
        x[:, [FEATURES.index(feature) for feature in NEEDS_MODEL]] = 0
    weight = np.array([FOREIGN_WEIGHT if asked[n].kind == "foreign" else float(asked[n].kind == "own") for n in of])
    fitted = fit(x, y, weight)
    print(f"\n{name}: {len(y)} hits, {int(y.sum())} relevant")
    print(
        "  fitted:",
        round(fitted.intercept, 2),
        dict(zip(FEATURES, (round(w, 2) for w in fitted.by_feature), strict=True)),
    )
    groups = {"fifths": of % 5, "projects": np.array([hash_of(asked[n].project) for n in of])}
    for how, group in groups.items():
        scores = np.zeros(len(y))
        for one in np.unique(group):
            weights = fit(x[group != one], y[group != one], weight[group != one])
            scores[group == one] = [logistic(weights, row) for row in x[group == one]]
        for floor in FLOORS:
            print(f"  left out by {how}, floor {floor}: {by_scores(asked, scores, of, floor)}")
    for floor in FLOORS:
        print(f"  as shipped, floor {floor}: {as_shipped(asked, floor)}")


def hash_of(project: str) -> int:
    """A number for a project."""
    return sum(project.encode())


def fit(x: Any, y: Any, weight: Any, ridge: float = 1.0) -> Weights:
    """Logistic regression over standardised features by Newton's method; ``weight`` says what each row counts."""
    mean, spread = x.mean(0), np.where(x.std(0) > 0, x.std(0), 1.0)
    z = np.column_stack([np.ones(len(x)), (x - mean) / spread])
    penalty = ridge * np.eye(z.shape[1])
    penalty[0, 0] = 0
    w = np.zeros(z.shape[1])
    for _ in range(30):
        p = 1 / (1 + np.exp(-z @ w))
        gradient = z.T @ (weight * (p - y)) + penalty @ w
        w -= np.linalg.solve((z * (weight * p * (1 - p))[:, None]).T @ z + penalty, gradient)
    slopes = np.where(x.std(0) > 0, w[1:] / spread, 0.0)
    return Weights(float(w[0] - (slopes * mean).sum()), tuple(float(one) for one in slopes))


def by_scores(asked: list[Asked], scores: Any, of: Any, floor: float) -> str:
    """Figures where the bites are the three best above the floor."""
    got = []
    for number, one in enumerate(asked):
        mine = np.flatnonzero(of == number)
        best = mine[np.argsort(-scores[mine])][:3]
        kept = [i for i in best if scores[i] >= floor and scores[i] >= Thresholds().below_best * scores[best[0]]]
        first = int(mine[0]) if len(mine) else 0
        got.append([one.labels[int(i) - first] for i in kept])
    return figures(asked, got)


def as_shipped(asked: list[Asked], floor: float) -> str:
    """Figures of the real choice, with the words as they are shown."""
    got = []
    for one in asked:
        # Every home holds one project's sessions only, under several names: all of it is the prompt's own.
        hits = [replace(hit, episode=replace(hit.episode, project_id=1)) for hit in one.hits if hit.episode is not None]
        bites = choose_bites(hits, InjectionRequest(one.text, project_id=1), one.support, Thresholds(relevance=floor))
        shown = shown_words(bites, Settings().bite_tokens)
        got.append([one.judge(text, list(bite.evidence)) for bite, text in shown])
    return figures(asked, got)


def figures(asked: list[Asked], got: list[list[bool]]) -> str:
    """Precision, served and false alarms in percent, over a project's own prompts; alarms of the others."""
    pairs = list(zip(asked, got, strict=True))
    own = [(one, labels) for one, labels in pairs if one.kind == "own"]
    bites = [label for one, labels in own if one.has_memories for label in labels]
    served = [any(labels) for one, labels in own if one.has_memories]
    alarms = {"false alarms": [bool(labels) for one, labels in own if not one.has_memories]}
    for kind in ("foreign", "routine"):
        alarms[kind] = [bool(labels) for one, labels in pairs if one.kind == kind]
    share = lambda values: round(100 * sum(values) / max(len(values), 1), 1)  # noqa: E731
    told = ", ".join(f"{name} {share(values)}" for name, values in alarms.items())
    return f"precision {share(bites)}, served {share(served)}, {told}, bites {len(bites) / len(served):.2f}"


if __name__ == "__main__":
    main()
