"""The runs of ``engram bench``: memories made, questions asked, simple methods beside."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import click

from engram.bench.baselines import NAME, HundredWords
from engram.bench.datasets import Chat, Question, read_code_questions
from engram.bench.measure import Asked, compare
from engram.bench.memories import ask_all, last_said_ms, write_chat
from engram.bench.simple import SimpleMethods
from engram.cli.bench_homes import Homes, open_homes, read_transcripts
from engram.cli.bench_prompts import inject_all, read_prompts
from engram.cli.workspace import Workspace
from engram.models.store import Store
from engram.search.passages.features import GROUP_NAMES
from engram.search.service import Searcher

#: What Engram's own run is called.
OWN = "Engram"
#: The category of questions whose answer changed: what was said last is asked for.
LATEST = "superseded"
#: Hits for a question of a chat.
CHAT_LIMIT = 25


def run_chats(
    workspace: Workspace, chats: Iterable[Chat], *, no_model: bool, keep: Path | None, ablation: bool = False
) -> dict[str, list[Asked]]:
    """Ask every chat its questions: by the search, and by text alone."""
    runs: dict[str, list[Asked]] = {}
    with open_homes(workspace, no_model=no_model, keep=keep) as homes:
        for chat in chats:
            click.echo(f"{chat.name}: {len(chat.units)} units, {len(chat.questions)} questions", err=True)
            with homes.memory(chat.name, lambda store, _, chat=chat: write_chat(store, chat)) as (store, searcher):  # type: ignore[misc]
                _ask(runs, homes, store, searcher, chat.questions, chat.name, CHAT_LIMIT, ablation)
    return runs


def run_code(
    workspace: Workspace, corpus: Path, questions: Path, *, no_model: bool, keep: Path | None, limit: int,
    ablation: bool,
) -> dict[str, list[Asked]]:  # fmt: skip
    """Ask every project its questions: by the search, and by the simple methods."""
    runs: dict[str, list[Asked]] = {}
    with open_homes(workspace, no_model=no_model, keep=keep) as homes:
        for project, some in read_code_questions(questions).items():
            click.echo(f"{project}: {len(some)} questions", err=True)
            with homes.memory(project, read_transcripts(corpus / project)) as (store, searcher):
                _ask(runs, homes, store, searcher, some, project, limit, ablation)
                if homes.embedder is not None:
                    hundred = HundredWords(store, homes.embedder)
                    runs.setdefault(NAME, []).extend(
                        ask_all(hundred.search, some, now_ms=last_said_ms(store), limit=limit, group=project)
                    )
    return runs


def _ask(
    runs: dict[str, list[Asked]], homes: Homes, store: Store, searcher: Searcher, questions: Sequence[Question],
    group: str, limit: int, ablation: bool,
) -> None:  # fmt: skip
    ask = partial(ask_all, questions=questions, now_ms=last_said_ms(store), limit=limit, group=group)
    runs.setdefault(OWN, []).extend(ask(searcher.search))
    simple = SimpleMethods(store, homes.embedder)
    for method in simple.names:
        runs.setdefault(method, []).extend(ask(partial(simple.search, method)))
    for step in GROUP_NAMES if ablation else ():
        runs.setdefault(f"without {step}", []).extend(ask(partial(searcher.search, without=(step,))))


def paired(runs: Mapping[str, Sequence[Asked]]) -> dict[str, Any]:
    """Paired differences to every simple method: over all questions, and the first three hits where an answer changed."""
    figures = ("recall@3", "recall@10", "recall in 400 words", "recall in 800 words")
    latest = [one for one in runs[OWN] if one.category == LATEST]
    others = {name: run for name, run in runs.items() if name != OWN}
    return {
        "paired": {
            name: {figure: compare(runs[OWN], run, figure) for figure in figures} for name, run in others.items()
        },
        f"paired, {LATEST}": {
            name: {"recall@3": compare(latest, run, "recall@3")} for name, run in others.items() if latest
        },
    }


def run_prompts(
    workspace: Workspace, corpus: Path, prompts: Path, *, no_model: bool, keep: Path | None
) -> list[dict[str, Any]]:
    """What would be injected for every prompt."""
    with open_homes(workspace, no_model=no_model, keep=keep) as homes:
        return inject_all(homes, corpus, read_prompts(prompts))


def count_prompts(lines: Sequence[Mapping[str, Any]], prompts: Path, memories: Path | None) -> dict[str, Any]:
    """Served prompts, false alarms and precision, by shared evidence alone (an outside scorer also reads the words)."""
    asked = {one["id"]: one for some in read_prompts(prompts).values() for one in some}
    gold: dict[str, set[str]] = {}
    if memories is not None:
        for line in memories.read_text(encoding="utf-8").splitlines():
            one = json.loads(line)
            if "id" in one:
                gold[one["id"]] = set(one["evidence"])
    with_memories = [one for one in lines if asked[one["id"]]["relevant"]]
    without = [one for one in lines if not asked[one["id"]]["relevant"]]
    right: Callable[[Mapping[str, Any], Mapping[str, Any]], bool] = lambda line, bite: any(  # noqa: E731
        gold.get(name, set()) & set(bite["evidence"]) for name in asked[line["id"]]["relevant"]
    )
    bites = [(line, bite) for line in with_memories for bite in line["bites"]]
    return {
        "prompts with memories": len(with_memories),
        "bites": len(bites),
        "precision by evidence": _percent(sum(right(line, bite) for line, bite in bites), len(bites)),
        "served by evidence": _percent(
            sum(any(right(line, bite) for bite in line["bites"]) for line in with_memories), len(with_memories)
        ),
        "prompts without": len(without),
        "false alarms": _percent(sum(bool(line["bites"]) for line in without), len(without)),
    }


def _percent(part: int, whole: int) -> float | None:
    return round(100 * part / whole, 1) if whole else None
