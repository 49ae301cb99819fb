"""What each arm gives for each question: from memories made of recorded answers, of people or rules, or from a file."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from bench.answers import AnsweredMemories, copy_of_turns, ready_searcher
from bench.given import NOTHING, QuestionedMemory
from bench.gold import read_gold, store_gold
from bench.homes import BenchHomes, extract_all
from bench.json_lines import read_lines
from bench.memories import question_time_ms
from bench.prompts import usual_folder
from bench.qa.questions import ReaderQuestion
from bench.recorded_provider import RecordedProvider
from engram.errors import BadRequest
from engram.ingest.session_project import scope_of_folder
from engram.models.engine.transaction import Store
from engram.search.searcher import Searcher
from engram.settings import Settings

#: Name of an arm → way to ask, and who made the memories: a language model's recorded answers, a person, or rules.
WAYS: Mapping[str, tuple[str, str]] = {
    "recall": ("recall", "model"),
    "search": ("search", "model"),
    "both": ("both", "model"),
    "fts5": ("fts5", "model"),
    "gold": ("recall", "gold"),
    "rules": ("both", "rules"),
}


#: What stands in a file's texts for a word that would name the program.
HIDDEN = "memory"
#: Ends a text that was cut.
CUT = " […]"


@dataclass(frozen=True, slots=True)
class Arm:
    """A way to ask the memory, or a file of what another program answered, with the number of words for the reader."""

    way: str
    words: int
    #: JSON lines with ``question`` (an id) and ``answer``, as ``benchmarks/rivals/run.py --work`` keeps them.
    file: Path | None = None

    @property
    def name(self) -> str:
        """``recall:150``."""
        return f"{self.way}:{self.words}"

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read ``recall:150``, or ``NAME=FILE:150``. Raises BadRequest."""
        source, _, words = text.rpartition(":")
        way, _, file = source.partition("=")
        is_own = way in WAYS
        if not way or is_own == bool(file) or not words.isdigit() or not int(words):
            raise BadRequest(
                f"arm {text!r} is not known: write one of {', '.join(WAYS)}, or another name with =FILE, a colon and a "
                "number of words"
            )
        return cls(way, int(words), Path(file) if file else None)

    def texts_of_file(self, questions: Sequence[ReaderQuestion], hidden: Sequence[str] = ()) -> dict[str, str]:
        """Return what the file of this arm has for each question: question's id → text.

        A text ends after the arm's number of words; its lines are kept. Words of ``hidden`` become ``HIDDEN``, whatever
        their case.

        Raises:
            BadRequest: the file can't be read, or has no answer to a question.
        """
        lines = read_lines(self.file) if self.file else []
        answers = {str(line["question"]): str(line.get("answer") or "") for line in lines if "question" in line}
        if missing := [question.id for question in questions if question.id not in answers]:
            raise BadRequest(f"{self.file} has no answer to {len(missing)} questions, {missing[0]} among them")
        return {question.id: self._shown(answers[question.id], hidden) for question in questions}

    def _shown(self, answer: str, hidden: Sequence[str]) -> str:
        for word in sorted(hidden, key=len, reverse=True):
            answer = re.sub(rf"\b{re.escape(word)}\b", HIDDEN, answer, flags=re.IGNORECASE)
        words = list(re.finditer(r"\S+", answer))
        if len(words) > self.words:
            answer = answer[: words[self.words - 1].end()] + CUT
        return answer.strip() or NOTHING


#: The arms of a run unless others are named.
DEFAULT_ARMS = ("recall:150", "gold:150", "both:400", "search:800", "fts5:800")


@dataclass(slots=True)
class GivenTexts:
    """Asks the memories of several projects."""

    homes: BenchHomes
    corpus: Path
    answers: RecordedProvider
    #: The file of gold memories; None if no arm needs it.
    gold: Path | None

    def collect(
        self, questions: Sequence[ReaderQuestion], arms: Sequence[Arm]
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        """Ask every question in every arm.

        Returns:
            Arm's name → question's id → text; and how many of the extraction requests are answered.

        Raises:
            BadRequest: an arm needs gold memories, and there is no file of them.
        """
        answered = AnsweredMemories(self.homes, self.corpus, self.answers)
        given: dict[str, dict[str, str]] = {arm.name: {} for arm in arms}
        for project in dict.fromkeys(question.project for question in questions):
            of_project = [question for question in questions if question.project == project]
            memories = {"model": answered.memory, "gold": self._gold, "rules": self._rules}
            for maker, make in memories.items():
                of_memory = [arm for arm in arms if WAYS[arm.way][1] == maker]
                if not of_memory:
                    continue
                with make(project) as (store, searcher):
                    givers = _questioned(store, searcher, self.homes.settings).givers()
                    for arm in of_memory:
                        for question in of_project:
                            given[arm.name][question.id] = givers[WAYS[arm.way][0]](question.text, arm.words)
            self.homes.progress(f"{project}: {len(of_project)} questions")
        return given, answered.figures()

    @contextmanager
    def _gold(self, project: str) -> Iterator[tuple[Store, Searcher]]:
        """A memory of a project's turns and its gold memories."""
        if self.gold is None:
            raise BadRequest("the arm gold needs gold memories: name their file with --memories")
        memories = [memory for memory in read_gold(self.gold) if memory["project"] == project]
        with copy_of_turns(self.homes, self.corpus, project, "gold") as (store, settings):
            store_gold(store, memories)
            yield store, ready_searcher(self.homes, store, settings)

    @contextmanager
    def _rules(self, project: str) -> Iterator[tuple[Store, Searcher]]:
        """A memory of a project's turns and what the local writer keeps of them."""
        with copy_of_turns(self.homes, self.corpus, project, "rules") as (store, settings):
            extract_all(store, settings, None)
            yield store, ready_searcher(self.homes, store, settings)


def _questioned(store: Store, searcher: Searcher, settings: Settings) -> QuestionedMemory:
    project = scope_of_folder(store, settings, usual_folder(store)).project
    return QuestionedMemory(store, searcher, project.id if project else None, question_time_ms(store))
