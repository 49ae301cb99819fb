"""Print and write the figures of a benchmark."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import click

from bench.json_lines import write_lines
from bench.measure import QuestionResult, Summary, summarise
from engram.cli.output import print_json, print_table

#: Figures of the table, with their headings.
_COLUMNS = {
    "recall@3": "R@3",
    "recall@5": "R@5",
    "recall@10": "R@10",
    "ndcg@10": "nDCG@10",
    "recall in 400 words": "in 400 words",
    "recall in 800 words": "in 800 words",
}


def report(
    title: str,
    runs: Mapping[str, Sequence[QuestionResult]],
    *,
    as_json: bool,
    run_file: Path | None,
    more: Mapping[str, Any] | None = None,
) -> None:
    """Print the figures of every run. The first run is Engram's own; its hits are written to ``run_file``."""
    summaries = {name: summarise(run) for name, run in runs.items()}
    own = next(iter(runs.values()))
    if run_file is not None:
        write_run(run_file, own)
    if as_json:
        figures = {name: dataclasses.asdict(summary) for name, summary in summaries.items()}
        print_json({"bench": title, "runs": figures, **(more or {})})
        return
    click.echo(f"{title}: {summaries[next(iter(runs))].questions} questions with an answer")
    print_table(["method", *(f"{column}#" for column in _COLUMNS.values())], _rows(summaries, more or {}), empty="")
    first = next(iter(summaries.values()))
    click.echo("\nBy category:")
    print_table(
        ["category", "questions#", *(f"{column}#" for column in _COLUMNS.values())],
        [
            (name, figures["questions"], *(figures[key] for key in _COLUMNS))
            for name, figures in first.by_category.items()
        ],
        empty="",
    )
    for line in paired_lines(more or {}):
        click.echo(line)
    for name, summary in summaries.items():
        if summary.hits_unanswerable is not None:
            click.echo(f"Hits for questions without an answer, {name}: {summary.hits_unanswerable}")
    click.echo(f"One search: {', '.join(f'{name} {value} ms' for name, value in first.latency_ms.items())}")


def _rows(summaries: Mapping[str, Summary], more: Mapping[str, Any]) -> list[tuple[object, ...]]:
    rows: list[tuple[object, ...]] = [
        (name, *(f"{summary.figures.get(key, 0)} ± {summary.intervals.get(key, 0)}" for key in _COLUMNS))
        for name, summary in summaries.items()
    ]
    for row in more.get("published", ()):
        rows.append((row["model"], *(row.get(key, "–") for key in _COLUMNS)))
    return rows


def paired_lines(more: Mapping[str, Any]) -> list[str]:
    """Return a line for each baseline with the paired difference in the first three hits, where an answer changed."""
    return [
        f"{title}, to {name}: {figure} {difference['difference']:+} ({difference['low']} to {difference['high']})"
        for title, methods in more.items()
        if title.startswith("paired, ")
        for name, figures in methods.items()
        for figure, difference in figures.items()
        if difference
    ]


def write_run(path: Path, run: Sequence[QuestionResult]) -> None:
    """Write one line for each question: ``{"id", "hits": [{"evidence", "text"}]}``."""
    lines = [
        {"id": answer.id, "hits": [{"evidence": list(hit.evidence), "text": hit.text} for hit in answer.hits]}
        for answer in run
    ]
    write_lines(path, lines)


def published_rows(path: Path | None, count: int = 5) -> list[dict[str, Any]]:
    """Return the best rows of a file of published scores (model, and r5, r10, n10 as shares), in percent."""
    if path is None:
        return []
    published = sorted(json.loads(path.read_text(encoding="utf-8")), key=lambda row: -float(row["r10"]))
    names = {"r5": "recall@5", "r10": "recall@10", "n10": "ndcg@10"}
    chosen = [*published[:count], *(row for row in published[count:] if "MiniLM-L6" in row["model"])]
    return [
        {"model": row["model"]} | {long: round(100 * float(row[short]), 1) for short, long in names.items()}
        for row in chosen
    ]
