"""Rank CodeMemo's pool with Engram: how much of each reference answer is in the first words that are returned?

    python benchmarks/codememo.py RESULTS.json

RESULTS.json is a result file of the CodeMemo benchmark (``codememo_detailed.json`` in synapt-dev/recall). For each
question, it contains the reference answer and the dated chunks that synapt returned, best first. The transcripts are
not published. All chunks of a project together form the pool from which Engram and a plain full-text index select here.

Comparable: the shares of the reference answers' informative words (four letters or more, not in the question) that are
found in the same number of words. Not comparable: synapt selected the pool from a larger one, for all questions; this
spares the other programs what it left out, and withholds from them what it missed. No answers are judged here, so the
figures can't be compared with published scores.
"""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np

from bench.datasets import Chat, Unit
from bench.given import MAX_PASSAGES, QuestionedMemory, within_words
from bench.homes import open_homes
from bench.memories import question_time_ms, write_chat
from engram.models.engine.transaction import Store
from engram.models.projects.projects import list_projects
from engram.settings import Settings, load

#: Number of words that are returned for a question.
BUDGETS = (200, 400)
_CHUNK = re.compile(r"^--- \[(\d{4}-\d\d-\d\d \d\d:\d\d) session (\S+)\] turn (\d+)[^\n]* ---$", re.MULTILINE)
_SPEAKER = re.compile(r"^(?:User|Assistant): ", re.MULTILINE)
_WORD = re.compile(r"\w{4,}")


def _writer_of(chat: Chat) -> Callable[[Store, Settings], None]:
    return lambda store, _: write_chat(store, chat)


def main() -> None:
    """Print the shares."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("results", type=Path)
    parser.add_argument("--no-model", action="store_true", help="without the embedding model")
    options = parser.parse_args()
    records = json.loads(options.results.read_text(encoding="utf-8"))
    shares: dict[tuple[str, int], list[float]] = {}
    with open_homes(load().settings, no_model=options.no_model, keep=None) as homes:
        for project in dict.fromkeys(str(record["project"]) for record in records):
            of_project = [record for record in records if record["project"] == project]
            chat = Chat(project, tuple(pool_of(of_project)), ())
            with homes.memory(project, _writer_of(chat)) as (store, searcher):
                (stored,) = [one for one in list_projects(store) if one.name == project]
                memory = QuestionedMemory(store, searcher, stored.id, question_time_ms(store))
                for record in of_project:
                    for name, give in givers(memory, record).items():
                        for words in BUDGETS:
                            shares.setdefault((name, words), []).append(share(record, give(words)))
    print(f"{len(records)} questions")
    for words in BUDGETS:
        for name in ("published order", "full-text search", "Engram, passages", "memory_recall"):
            values = shares[name, words]
            against = np.array(values) - np.array(shares["published order", words])
            error = 196 * against.std() / len(against) ** 0.5
            print(f"{words} words, {name}: {100 * fmean(values):.1f} % ({100 * against.mean():+.1f} ± {error:.1f})")


def pool_of(records: Sequence[dict[str, Any]]) -> Iterator[Unit]:
    """Yield every chunk once, in the order of its session."""
    found = {(session, turn): (at, text) for record in records for at, session, turn, text in chunks_of(record)}
    for (session, turn), (at, text) in sorted(found.items()):
        at_ms = int(datetime.strptime(at, "%Y-%m-%d %H:%M").replace(tzinfo=UTC).timestamp() * 1000) + turn
        yield Unit(f"{session}/{turn}", session, "", text, at_ms, is_first=False)


def chunks_of(record: dict[str, Any]) -> Iterator[tuple[str, str, int, str]]:
    """Yield the time, session, turn and text of the chunks that were returned for a question, best first."""
    parts = _CHUNK.split(str(record["context"]))
    for place in range(1, len(parts), 4):
        at, session, turn, text = parts[place : place + 4]
        if said := _SPEAKER.sub("", text).strip():
            yield at, session, int(turn), said


def givers(memory: QuestionedMemory, record: dict[str, Any]) -> dict[str, Callable[[int], str]]:
    """Return the programs by name, each as a function that returns a number of words for the question."""
    question = str(record["question"])
    published = [text for _, _, _, text in chunks_of(record)][:MAX_PASSAGES]
    return {
        "published order": lambda words: within_words(published, words),
        "full-text search": lambda words: memory.fts5(question, words),
        "Engram, passages": lambda words: memory.search(question, words),
        "memory_recall": lambda words: memory.both(question, words),
    }


def share(record: dict[str, Any], given: str) -> float:
    """Return the share of the reference answer's informative words that are in the returned text."""
    asked, answer, said = (
        set(_WORD.findall(text.lower())) for text in (record["question"], record["gold_answer"], given)
    )
    return len((answer - asked) & said) / len(answer - asked) if answer - asked else 1.0


if __name__ == "__main__":
    main()
