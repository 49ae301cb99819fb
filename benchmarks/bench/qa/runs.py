"""The texts of each arm for each question, from memories made by recorded answers, people or rules, or from a file."""

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

#: Name of an arm → how the memory is queried, and who made the memories: recorded answers, a person, or rules.
WAYS: Mapping[str, tuple[str, str]] = {
    "recall": ("recall", "model"),
    "search": ("search", "model"),
    "both": ("both", "model"),
    "fts5": ("fts5", "model"),
    "gold": ("recall", "gold"),
    "rules": ("both", "rules"),
}


#: Replaces words in a file's texts that would reveal the program.
HIDDEN = "memory"
#: Marks the end of a shortened text.
CUT = " […]"


@dataclass(frozen=True, slots=True)
class Arm:
    """A way to query the memory, or a file of another program's answers; and the number of words that a reader gets."""

    way: str
    words: int
    #: JSON lines with ``question`` (an id) and ``answer``, as ``benchmarks/rivals/run.py --work`` writes them.
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
                f"unknown arm {text!r}: write one of {', '.join(WAYS)}, or another name with =FILE, followed by a "
                "colon and the number of words"
            )
        return cls(way, int(words), Path(file) if file else None)

    def texts_of_file(self, questions: Sequence[ReaderQuestion], hidden: Sequence[str] = ()) -> dict[str, str]:
        """Return the text from this arm's file for each question: question's id → text.

        Texts are cut to the arm's number of words; line breaks are kept. The words in ``hidden``, in any case, are
        replaced with ``HIDDEN``.

        Raises:
            BadRequest: the file can't be read, or has no answer to a question.
        """
        lines = read_lines(self.file) if self.file else []
        answers = {str(line["question"]): str(line.get("answer") or "") for line in lines if "question" in line}
        if missing := [question.id for question in questions if question.id not in answers]:
            raise BadRequest(
                f"{self.file} lacks {len(missing)} of {len(questions)} answers (first missing: {missing[0]})"
            )
        return {question.id: self._shown(answers[question.id], hidden) for question in questions}

    def _shown(self, answer: str, hidden: Sequence[str]) -> str:
        for word in sorted(hidden, key=len, reverse=True):
            answer = re.sub(rf"\b{re.escape(word)}\b", HIDDEN, answer, flags=re.IGNORECASE)
        words = list(re.finditer(r"\S+", answer))
        if len(words) > self.words:
            answer = answer[: words[self.words - 1].end()] + CUT
        return answer.strip() or NOTHING


#: The default arms of a run.
DEFAULT_ARMS = ("recall:150", "gold:150", "both:400", "search:800", "fts5:800")


@dataclass(slots=True)
class GivenTexts:
    """Queries the memories of several projects."""

    homes: BenchHomes
    corpus: Path
    answers: RecordedProvider
    #: The file with gold memories; None if no arm needs it.
    gold: Path | None

    def collect(
        self, questions: Sequence[ReaderQuestion], arms: Sequence[Arm]
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        """Ask every question in every arm.

        Returns:
            Arm's name → question's id → text, and how many of the extraction requests have an answer.

        Raises:
            BadRequest: an arm needs gold memories, but no file is specified.
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
        """Yield a memory with a project's turns and its gold memories."""
        if self.gold is None:
            raise BadRequest("the arm gold needs gold memories: specify their file with --memories")
        memories = [memory for memory in read_gold(self.gold) if memory["project"] == project]
        with copy_of_turns(self.homes, self.corpus, project, "gold") as (store, settings):
            store_gold(store, memories)
            yield store, ready_searcher(self.homes, store, settings)

    @contextmanager
    def _rules(self, project: str) -> Iterator[tuple[Store, Searcher]]:
        """Yield a memory with a project's turns and the memories that rules make from them."""
        with copy_of_turns(self.homes, self.corpus, project, "rules") as (store, settings):
            extract_all(store, settings, None)
            yield store, ready_searcher(self.homes, store, settings)


def _questioned(store: Store, searcher: Searcher, settings: Settings) -> QuestionedMemory:
    project = scope_of_folder(store, settings, usual_folder(store)).project
    return QuestionedMemory(store, searcher, project.id if project else None, question_time_ms(store))
