"""The input of every program: the questions of the code set, and prompts that fit, fit elsewhere, or fit nothing."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

#: Prompts that could occur in any project; no memory of another project helps with them.
ROUTINE = (
    "fix the lint errors please",
    "run the full test suite and fix what fails",
    "write unit tests for this function",
    "refactor this into smaller functions",
    "rename the variable to something clearer",
    "explain what this regex matches",
    "rebase onto main and resolve the conflicts",
    "make the button blue and center it",
    "add type hints to the module",
    "remove the unused imports",
    "delete the temporary files",
    "profile the startup time",
    "translate the docs to German",
    "create a Dockerfile for the app",
)
#: Questions that are about no work at all.
NOWHERE = (
    "What is the capital of France?",
    "recipe for pancakes",
    "How long should I boil an egg?",
    "Which films won the Oscar in 1994?",
    "When does the next train to Hamburg leave?",
    "How do I fold a paper crane?",
    "Who painted the Mona Lisa and when?",
    "What is a good name for a dog?",
    "How far is the moon from the earth?",
    "Why is the sky blue in the evening?",
    "Which vitamins are in oranges?",
    "how to plant tomatoes on a balcony",
    "What did the doctor say about my knee?",
    "Which mortgage rate did the bank offer us?",
    "Where did we park the car at the airport?",
    "What time is grandma's birthday party?",
    "What are the rules of chess castling?",
    "How many legs does a spider have?",
    "best hiking trail near the lake",
    "Did we book the hotel in Lisbon yet?",
)


@dataclass(frozen=True)
class Question:
    """A question about a project; without evidence it has no answer there."""

    id: str
    project: str
    text: str
    reference: str
    evidence: tuple[str, ...]


@dataclass(frozen=True)
class Prompt:
    """A prompt typed in a project."""

    id: str
    #: Where it is typed.
    project: str
    #: fits, nothing (fits), foreign (written for another project), or routine.
    kind: str
    text: str
    #: Summaries of the gold memories that should be shown, and the entries that they rest on.
    summaries: tuple[str, ...] = ()
    evidence: tuple[str, ...] = ()


def read_questions(code: Path) -> list[Question]:
    """Read the questions of the code set, and add those about no work, which are asked in its first project."""
    asked = [
        Question(
            line["id"],
            line["project"],
            line["question"],
            line["answer"],
            tuple(dict.fromkeys(one["uuid"] for one in line["evidence"])),
        )
        for line in _lines(code / "questions.jsonl")
    ]
    return asked + [
        Question(f"nowhere-{number}", asked[0].project, text, "", ()) for number, text in enumerate(NOWHERE)
    ]


def read_prompts(code: Path) -> list[Prompt]:
    """Read the prompts of the code set. Each is also typed in every other project, and the routine ones in all."""
    gold = {line["id"]: line for line in _lines(code / "memories.jsonl") if "id" in line}
    lines = list(_lines(code / "prompts.jsonl"))
    projects = sorted({line["project"] for line in lines})
    prompts = []
    for line in lines:
        fitting = [gold[name] for name in line["relevant"] if name in gold]
        own = Prompt(
            line["id"],
            line["project"],
            "fits" if line["relevant"] else "nothing",
            line["prompt"],
            tuple(memory["summary"] for memory in fitting),
            tuple(dict.fromkeys(uuid for memory in fitting for uuid in memory["evidence"])),
        )
        others = [project for project in projects if project != line["project"]]
        foreign = [Prompt(f"{own.id}@{project}", project, "foreign", own.text) for project in others]
        prompts += [own, *foreign]
    return prompts + [
        Prompt(f"routine-{number}@{project}", project, "routine", text)
        for project in projects
        for number, text in enumerate(ROUTINE)
    ]


def _lines(path: Path) -> Iterator[dict[str, Any]]:
    return map(json.loads, path.read_text(encoding="utf-8").splitlines())
