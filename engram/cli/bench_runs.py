"""The runs of ``engram bench``: make the memories, ask the questions, compare with baselines."""

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
from engram.search.passages.features import STEP_NAMES
from engram.search.service import Searcher
from engram.settings import Settings

#: The name of Engram's own run.
OWN = "Engram"
#: The category of questions about something that changed: the latest statement counts.
LATEST = "superseded"
#: Hits for each question about a chat.
CHAT_LIMIT = 25


def run_chats(
    workspace: Workspace, chats: Iterable[Chat], *, no_model: bool, keep: Path | None, ablation: bool = False
) -> dict[str, list[Asked]]:
    """Ask every chat its questions: by the full search, and by text only."""
    runs: dict[str, list[Asked]] = {}
    with open_homes(workspace, no_model=no_model, keep=keep) as homes:
        for chat in chats:
            click.echo(f"{chat.name}: {len(chat.units)} units, {len(chat.questions)} questions", err=True)
            with homes.memory(chat.name, partial(_fill, chat)) as (store, searcher):
                _ask(runs, homes, store, searcher, chat.questions, chat.name, CHAT_LIMIT, ablation)
    return runs


def _fill(chat: Chat, store: Store, _: Settings) -> None:
    write_chat(store, chat)


def run_code(
    workspace: Workspace,
    corpus: Path,
    questions: Path,
    *,
    no_model: bool,
    keep: Path | None,
    limit: int,
    ablation: bool,
) -> dict[str, list[Asked]]:
    """Ask every project its questions: by the full search, and by the baselines."""
    runs: dict[str, list[Asked]] = {}
    with open_homes(workspace, no_model=no_model, keep=keep) as homes:
        for project, of_project in read_code_questions(questions).items():
            click.echo(f"{project}: {len(of_project)} questions", err=True)
            with homes.memory(project, read_transcripts(corpus / project)) as (store, searcher):
                _ask(runs, homes, store, searcher, of_project, project, limit, ablation)
                if homes.embedder is not None:
                    hundred = HundredWords(store, homes.embedder)
                    runs.setdefault(NAME, []).extend(
                        ask_all(hundred.search, of_project, now_ms=last_said_ms(store), limit=limit, group=project)
                    )
    return runs


def _ask(
    runs: dict[str, list[Asked]],
    homes: Homes,
    store: Store,
    searcher: Searcher,
    questions: Sequence[Question],
    group: str,
    limit: int,
    ablation: bool,
) -> None:
    ask = partial(ask_all, questions=questions, now_ms=last_said_ms(store), limit=limit, group=group)
    runs.setdefault(OWN, []).extend(ask(searcher.search))
    simple = SimpleMethods(store, homes.embedder)
    for method in simple.names:
        runs.setdefault(method, []).extend(ask(partial(simple.search, method)))
    for step in STEP_NAMES if ablation else ():
        runs.setdefault(f"without {step}", []).extend(ask(partial(searcher.search, without=(step,))))


def paired(runs: Mapping[str, Sequence[Asked]]) -> dict[str, Any]:
    """Paired differences to every baseline: over all questions, and in the first three hits if an answer changed."""
    figures = ("recall@3", "recall@10", "recall in 400 words", "recall in 800 words")
    latest = [answer for answer in runs[OWN] if answer.category == LATEST]
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
    """Served prompts, false alarms and precision, by shared evidence (an external scorer also reads the words)."""
    asked = {prompt["id"]: prompt for of_project in read_prompts(prompts).values() for prompt in of_project}
    gold: dict[str, set[str]] = {}
    if memories is not None:
        for line in memories.read_text(encoding="utf-8").splitlines():
            prompt = json.loads(line)
            if "id" in prompt:
                gold[prompt["id"]] = set(prompt["evidence"])
    with_memories = [prompt for prompt in lines if asked[prompt["id"]]["relevant"]]
    without = [prompt for prompt in lines if not asked[prompt["id"]]["relevant"]]
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
