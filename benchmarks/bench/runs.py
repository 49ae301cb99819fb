"""The runs of ``python -m bench``: make the memories, ask the questions, compare with baselines."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias

from bench.baselines import CHUNK_METHOD, ChunkBaseline, PassageBaselines
from bench.datasets import Chat, Question, read_code_questions
from bench.gold import read_gold
from bench.homes import BenchHomes, read_transcripts
from bench.measure import QuestionResult, compare
from bench.memories import Search, ask_questions, question_time_ms, write_chat
from bench.prompts import inject_all, read_prompts
from engram.models.engine.transaction import Store
from engram.search.passages.features import FEATURE_GROUPS
from engram.search.searcher import Searcher
from engram.settings import Settings

#: The name of Engram's own run.
OWN = "Engram"
#: The category of questions about something that has changed, for which the latest statement counts.
LATEST = "superseded"
#: Number of hits for each question about a chat.
CHAT_LIMIT = 25

#: Method → the results of its questions.
Runs: TypeAlias = dict[str, list[QuestionResult]]
#: Runs a search for all the questions about a memory.
Asker: TypeAlias = Callable[[Search], list[QuestionResult]]


def run_chats(homes: BenchHomes, chats: Iterable[Chat], *, ablation: bool = False) -> Runs:
    """Ask the questions about every chat: with the full search, and with the baselines."""
    runs: Runs = {}
    for chat in chats:
        homes.progress(f"{chat.name}: {len(chat.units)} units, {len(chat.questions)} questions")
        with homes.memory(chat.name, partial(_fill, chat)) as (store, searcher):
            ask = _asker(store, chat.questions, chat.name, CHAT_LIMIT)
            _run_methods(runs, ask, homes, store, searcher, ablation=ablation)
    return runs


def _fill(chat: Chat, store: Store, _: Settings) -> None:
    write_chat(store, chat)


def run_code(homes: BenchHomes, corpus: Path, questions: Path, *, limit: int, ablation: bool) -> Runs:
    """Ask the questions about every project: with the full search, and with the baselines."""
    runs: Runs = {}
    for project, of_project in read_code_questions(questions).items():
        homes.progress(f"{project}: {len(of_project)} questions")
        with homes.memory(project, read_transcripts(corpus / project)) as (store, searcher):
            ask = _asker(store, of_project, project, limit)
            _run_methods(runs, ask, homes, store, searcher, ablation=ablation)
            if homes.embedder is not None:
                chunks = ChunkBaseline(store, homes.embedder)
                runs.setdefault(CHUNK_METHOD, []).extend(ask(chunks.search))
    return runs


def _asker(store: Store, questions: Sequence[Question], group: str, limit: int) -> Asker:
    """Return a function that runs a search for all the questions."""
    return partial(ask_questions, questions=questions, now_ms=question_time_ms(store), limit=limit, group=group)


def _run_methods(
    runs: Runs, ask: Asker, homes: BenchHomes, store: Store, searcher: Searcher, *, ablation: bool
) -> None:
    """Add the results of the full search, of the baselines, and of the search without each feature group."""
    runs.setdefault(OWN, []).extend(ask(searcher.search))
    baselines = PassageBaselines(store, homes.embedder)
    for method in baselines.names:
        runs.setdefault(method, []).extend(ask(partial(baselines.search, method)))
    for feature_group in dict.fromkeys(FEATURE_GROUPS.values()) if ablation else ():
        runs.setdefault(f"without {feature_group}", []).extend(ask(partial(searcher.search, without=(feature_group,))))


def paired(runs: Mapping[str, Sequence[QuestionResult]]) -> dict[str, Any]:
    """Return paired differences to every baseline: for all questions, and in 3 hits for those whose answer changed."""
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


def run_prompts(homes: BenchHomes, corpus: Path, prompts: Path) -> list[dict[str, Any]]:
    """Return what would be injected for every prompt."""
    return inject_all(homes, corpus, read_prompts(prompts))


def count_prompts(lines: Sequence[Mapping[str, Any]], prompts: Path, memories: Path | None) -> dict[str, Any]:
    """Return served prompts, false alarms and precision, by shared evidence. An external scorer also compares words.

    Args:
        lines: what was injected for each prompt.
        prompts: the file of prompts.
        memories: the file of gold memories; None if there is none.
    """
    relevant = {
        prompt["id"]: prompt["relevant"] for of_project in read_prompts(prompts).values() for prompt in of_project
    }
    gold = {memory["id"]: set(memory["evidence"]) for memory in read_gold(memories)} if memories is not None else {}

    def is_right(line: Mapping[str, Any], bite: Mapping[str, Any]) -> bool:
        return any(gold.get(name, set()) & set(bite["evidence"]) for name in relevant[line["id"]])

    with_memories = [line for line in lines if relevant[line["id"]]]
    without = [line for line in lines if not relevant[line["id"]]]
    bites = [(line, bite) for line in with_memories for bite in line["bites"]]
    served = sum(any(is_right(line, bite) for bite in line["bites"]) for line in with_memories)
    return {
        "prompts with memories": len(with_memories),
        "bites": len(bites),
        "precision by evidence": _percent(sum(is_right(line, bite) for line, bite in bites), len(bites)),
        "served by evidence": _percent(served, len(with_memories)),
        "prompts without": len(without),
        "false alarms": _percent(sum(bool(line["bites"]) for line in without), len(without)),
    }


def _percent(part: int, whole: int) -> float | None:
    return round(100 * part / whole, 1) if whole else None
