"""Train the weights of the ranking's features, cross-validated over conversations and projects, with the real code.

    python benchmarks/train_ranking.py --locomo FILE --corpus DIR --questions FILE --homes DIR [--write]

The training data are the features of each question's shortlist. The model is a softmax over the passages of a question
(with L2 regularisation), once with vectors and once for text alone. ``--homes`` keeps the memories, as ``python -m
bench … --keep`` does, so that a second run takes a minute. ``--write`` writes
``engram/search/passages/passage_weights.json``.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from bench.datasets import Chat, Question, read_code_questions, read_locomo
from bench.homes import open_homes, read_transcripts
from bench.measure import QuestionResult, ShownHit, summarise
from bench.memories import question_time_ms, write_chat
from engram.embedding.embedder import Embedder
from engram.models.engine.transaction import Store
from engram.search.passages import features as model
from engram.search.passages.candidate_set import SearchIndex, Shortlist, retrieve_passages
from engram.search.passages.features import FEATURE_GROUPS, extract_features
from engram.search.passages.passage_search import HitGroup, best_groups, passage_support
from engram.search.question import Coverage, Query, TermCounts, parse_query
from engram.search.searcher import QueryEmbedder
from engram.search.vectors.loaded_vectors import VectorCache
from engram.settings import Settings, load

#: Number of hits that are measured for each question.
LIMIT = 40
#: Number of passages that are used for training for each question.
CLOSE = 100
#: A question about code counts as much as this many about chats, because there are fewer of them.
CODE_WEIGHT = 5.0
L2, STEPS = 3.0, 120
#: Figures that are stored with the weights.
REPORTED = {
    "LoCoMo": ("recall@5", "recall@10", "ndcg@10"),
    "code": ("recall@3", "recall@10", "ndcg@10", "recall in 400 words", "recall in 800 words"),
}
Floats = NDArray[np.float64]


@dataclass
class Row:
    """One question with the features of its passages."""

    question: Question
    group: str
    is_code: bool
    features: Floats
    is_right: Floats
    evidence: list[str]
    shortlist: Shortlist
    coverage: Coverage
    #: How well the passages support the question, as weighted by the search.
    support: float


def main() -> None:
    """Collect, cross-validate, write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--locomo", type=Path, required=True)
    parser.add_argument("--corpus", type=Path, required=True)
    parser.add_argument("--questions", type=Path, required=True)
    parser.add_argument("--homes", type=Path, required=True)
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--ablation", action="store_true", help="train again without each feature group")
    options = parser.parse_args()
    found: dict[str, dict[str, float]] = {}
    measured: dict[str, dict[str, dict[str, float]]] = {}
    for name, no_model in (("with_model", False), ("text_alone", True)):
        rows = collect(options, no_model=no_model)
        measured[name] = report(name, rows)
        for group in dict.fromkeys(FEATURE_GROUPS.values()) if options.ablation else ():
            report(f"{name} without {group}", [without(row, group) for row in rows])
        weights = train(rows)
        found[name] = {
            feature: round(float(weight), 3) for feature, weight in zip(FEATURE_GROUPS, weights, strict=True)
        }
    if options.write:
        path = Path(model.__file__).with_name(model.WEIGHTS_FILE)
        path.write_text(
            json.dumps({"provenance": provenance_of(rows, measured), **found}, indent=1) + "\n", encoding="utf-8"
        )


def provenance_of(rows: list[Row], measured: dict[str, dict[str, dict[str, float]]]) -> dict[str, object]:
    """Return where the weights come from, and how good they are on data that they were not trained on."""
    chats = [row for row in rows if not row.is_code]
    code = [row for row in rows if row.is_code and row.question.wanted]
    return {
        "trained_by": "benchmarks/train_ranking.py --write",
        "on": f"{len({row.group for row in chats})} conversations of LoCoMo ({len(chats)} questions) and {len(code)} "
        f"questions over coding sessions of {len({row.group for row in code})} projects, a coding question counting "
        f"{CODE_WEIGHT:.0f}",
        "method": f"softmax over the first {CLOSE} candidates of a question, L2 {L2:.0f}, {STEPS} steps of Adam",
        "cross_validated_over_conversations_and_projects": measured,
    }


def collect(options: argparse.Namespace, *, no_model: bool) -> list[Row]:
    """Return every question of both sets."""
    rows: list[Row] = []
    with open_homes(load().settings, no_model=no_model, keep=options.homes) as homes:
        for chat in read_locomo(options.locomo):
            with homes.memory(chat.name, partial(fill_chat, chat)) as (store, _):
                rows += rows_of(store, homes.embedder, chat.questions, chat.name, is_code=False)
        for project, questions in read_code_questions(options.questions).items():
            with homes.memory(project, read_transcripts(options.corpus / project)) as (store, _):
                rows += rows_of(store, homes.embedder, questions, project, is_code=True)
    return rows


def fill_chat(chat: Chat, store: Store, _: Settings) -> None:
    """Write a chat into a new memory."""
    write_chat(store, chat)


def rows_of(
    store: Store,
    embedder: Embedder | None,
    questions: list[Question] | tuple[Question, ...],
    group: str,
    *,
    is_code: bool,
) -> list[Row]:
    """Return each question with the features of its shortlist."""
    vectors, floor = None, 0.0
    if embedder is not None:
        floor = embedder.thresholds.relevance_floor
        vectors = VectorCache("p", embedder.model_id, embedder.dimension)
        vectors.refresh(store)
    index = SearchIndex(store, vectors, TermCounts("passage_fts"), floor)
    now_ms, questions_embedder = question_time_ms(store), QueryEmbedder(embedder)
    rows = []
    for question in questions:
        query = Query(question.text, now_ms=now_ms, limit=LIMIT)
        parsed = parse_query(query, now_ms)
        shortlist, coverage = retrieve_passages(index, query, parsed, questions_embedder.start(question.text))
        if not len(shortlist):
            continue
        features = extract_features(shortlist, parsed, coverage)
        passages = [shortlist.row_at(int(place)) for place in shortlist.places]
        evidence = [uuid_of(store, passage.said_id) for passage in passages]
        rows.append(
            Row(
                question=question,
                group=group,
                is_code=is_code,
                features=np.stack([features[name] for name in FEATURE_GROUPS], axis=1),
                is_right=np.array([float(uuid in question.wanted) for uuid in evidence]),
                evidence=evidence,
                shortlist=shortlist,
                coverage=coverage,
                support=passage_support(shortlist, parsed, coverage, floor),
            )
        )
    return rows


def without(row: Row, group: str) -> Row:
    """Return the same question with the features of a group set to 0."""
    kept = np.array([float(own_group != group) for own_group in FEATURE_GROUPS.values()])
    return replace(row, features=row.features * kept)


def uuid_of(store: Store, said_id: int) -> str:
    """Return the uuid of an entry, given the row id of its text."""
    from engram.models.engine.statement import unpack_uuid

    return unpack_uuid(store.value("SELECT uuid FROM said WHERE id = ?", (said_id,)))


def train(rows: list[Row]) -> Floats:
    """Return the weights that make the passages with the answer the most likely ones for each question."""
    some = [row for row in rows if row.is_right[:CLOSE].any()]
    size, width = max(min(len(row.is_right), CLOSE) for row in some), len(FEATURE_GROUPS)
    features, right = np.zeros((len(some), size, width)), np.zeros((len(some), size))
    masked = np.full((len(some), size), -1e9)
    count = np.array([CODE_WEIGHT if row.is_code else 1.0 for row in some])
    for place, row in enumerate(some):
        known = min(len(row.is_right), CLOSE)
        features[place, :known] = row.features[:known]
        right[place, :known] = row.is_right[:known] / row.is_right[:known].sum()
        masked[place, :known] = 0.0
    flat, wanted = features.reshape(-1, width), np.einsum("qk,qkf,q->f", right, features, count)
    weights, first, second = np.zeros(width), np.zeros(width), np.zeros(width)
    for step in range(1, STEPS + 1):
        logits = (flat @ weights).reshape(masked.shape) + masked
        likely = np.exp(logits - logits.max(axis=1, keepdims=True))
        likely /= likely.sum(axis=1, keepdims=True)
        slope = ((likely * count[:, None]).reshape(-1) @ flat - wanted) / count.sum() + L2 * weights / len(some)
        first, second = 0.9 * first + 0.1 * slope, 0.99 * second + 0.01 * slope**2
        rate = 0.3 if step < STEPS // 2 else 0.1
        weights = weights - rate * (first / (1 - 0.9**step)) / (np.sqrt(second / (1 - 0.99**step)) + 1e-8)
    return weights


def report(name: str, rows: list[Row]) -> dict[str, dict[str, float]]:
    """Print and return figures with weights that were not trained on the measured conversation or project."""
    runs: dict[str, list[QuestionResult]] = {"LoCoMo": [], "code": []}
    for row, hits in cross_validated(rows, {row.group for row in rows}):
        runs["code" if row.is_code else "LoCoMo"].append(answer(row, hits))
    found: dict[str, dict[str, float]] = {}
    for data, run in runs.items():
        summary = summarise(run)
        print(name, data, dict(summary.figures), dict(summary.intervals))
        found[data] = {figure: summary.figures[figure] for figure in REPORTED[data]}
        for figure in ("recall@3", "recall in 800 words"):
            print(f"  {figure}:", {one: figures[figure] for one, figures in summary.by_category.items()})
    latest = summarise([one for one in runs["code"] if one.category == "superseded"])
    found["code"]["recall@3 of superseded"] = latest.figures["recall@3"]
    return found


def cross_validated(rows: list[Row], groups: Collection[str]) -> Iterator[tuple[Row, list[HitGroup]]]:
    """Yield each question with all its ranked hits, by weights that were not trained on its own group."""
    for group in sorted(groups):
        weights = train([row for row in rows if row.group != group])
        for row in rows:
            if row.group == group:
                score = model.SCORE_SCALE * (row.features @ weights)
                yield row, best_groups(row.shortlist, row.coverage, score, LIMIT)


def answer(row: Row, found: Sequence[HitGroup]) -> QuestionResult:
    """Return the hits of a question in the form in which they are measured."""
    shown = tuple(ShownHit(tuple(row.evidence[index] for index in one.indexes), " ".join(one.texts)) for one in found)
    question = row.question
    return QuestionResult(question.id, question.category, question.wanted, shown, row.group)


if __name__ == "__main__":
    main()
