"""The memory of a task's earlier sessions, made by rules, from recorded answers, or from gold memories."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from bench.gold import read_gold, store_gold
from bench.homes import NO_LIMIT
from bench.memories import embed_all, last_turn_ms
from bench.tasks.recorded import SessionAnswers
from bench.tasks.repository import make_place
from bench.tasks.task import Task
from engram.consolidation.consolidation_run import consolidate, join_waiting, settle_session
from engram.consolidation.git_staleness import read_branches
from engram.embedding.embedder import Embedder
from engram.extraction.candidate import Extractor
from engram.extraction.extracting import extract_session
from engram.extraction.local.local_extractor import LocalExtractor
from engram.extraction.model.model_extractor import ModelExtractor
from engram.extraction.model.provider import Budget
from engram.ingest.read_sources import ingest_all
from engram.models.engine.transaction import Store
from engram.models.open_memory import open_store
from engram.models.sessions.sessions import list_sessions
from engram.redaction import redact
from engram.search.searcher import Searcher
from engram.search.vectors.loaded_vectors import similar_pairs
from engram.settings import Settings
from engram.system.clock import FixedClock

#: Time between the last session of the history and the task, in milliseconds.
_TASK_AFTER_MS = 86_400_000
#: Minimum cosine of two memories that say the same, used if there is no embedding model.
_DUPLICATE_COSINE = 0.92


@dataclass(frozen=True, slots=True)
class TaskMemory:
    """The open memory of a task."""

    store: Store
    settings: Settings
    searcher: Searcher
    embedder: Embedder | None
    #: The working folder of the sessions.
    place: Path
    #: When the task is worked on, in milliseconds since 1970.
    now_ms: int


@contextmanager
def make_memory(task: Task, home: Path, base: Settings, embedder: Embedder | None) -> Iterator[TaskMemory]:
    """Read a task's history and the state of its git branches into a new memory, without extracting anything.

    The memory's clock is fixed at one day after the last session.

    Args:
        task: the task.
        home: where the memory is made; the sessions' working folder is made next to it.
        base: the settings of the memory.
        embedder: None for text search only.
    """
    place, history = make_place(task, home.with_name(f"{home.name}-sessions"))
    settings = replace(
        base,
        home=home,
        claude_folder=history,
        codex_folder=history,
        gemini_folder=history,
        exclude=(),
        capture=True,
        inject=True,
        hourly_memories=NO_LIMIT,
        llm_calls_per_hour=NO_LIMIT,
    )
    settings.places.prepare()
    clock = FixedClock()
    with open_store(settings.places.memory_db, driver=settings.sqlite_driver, clock=clock) as store:
        ingest_all(store, settings=settings, redact=redact)
        clock.at_ms = last_turn_ms(store) + _TASK_AFTER_MS
        read_branches(store, settings, only_lively=False)
        searcher = Searcher(store, settings, embedder=embedder)
        memory = TaskMemory(store, settings, searcher, embedder, place, clock.now_ms())
        bring_up_to_date(memory)
        yield memory


def extract_by_rules(memory: TaskMemory) -> None:
    """Make the memories with the local extractor."""
    _extract(memory, LocalExtractor())


def extract_by_answers(memory: TaskMemory, task: Task, answers: SessionAnswers) -> None:
    """Make the memories from recorded answers, up to the first request without an answer.

    Raises:
        Unanswered: a request has no answer; it was written to the folder of answers.
        BadRequest: a request has no answer.
    """
    answers.places[str(memory.place)] = task.cwd
    budget = Budget(memory.store, memory.settings)
    _extract(memory, ModelExtractor("recorded-1", answers, budget, LocalExtractor()))


def take_gold(memory: TaskMemory, task: Task) -> None:
    """Store the task's gold memories."""
    store_gold(memory.store, read_gold(task.gold))
    bring_up_to_date(memory)


def tidy_up(memory: TaskMemory) -> None:
    """Consolidate as the worker does before the next session."""
    embedder = memory.embedder
    consolidate(
        memory.store,
        memory.settings,
        similar=None if embedder is None else partial(similar_pairs, memory.store, embedder.model_id),
        duplicate_cosine=_duplicate_cosine(memory),
    )
    bring_up_to_date(memory)


def bring_up_to_date(memory: TaskMemory) -> None:
    """Embed texts without a vector, and load the vectors."""
    embed_all(memory.store, memory.embedder)
    memory.searcher.refresh()


def _extract(memory: TaskMemory, extractor: Extractor) -> None:
    """Extract the sessions in order, each followed by what the worker does after an extraction."""
    store, settings, embedder = memory.store, memory.settings, memory.embedder
    for session in sorted(list_sessions(store), key=lambda session: (session.first_at_ms, session.session_id)):
        extract_session(
            store,
            session.session_id,
            extractor=extractor,
            embedder=embedder,
            settings=settings,
        )
        settle_session(store, settings, session.session_id)
        bring_up_to_date(memory)
        join_waiting(store, settings, memory.searcher, embedder)
    bring_up_to_date(memory)


def _duplicate_cosine(memory: TaskMemory) -> float:
    return _DUPLICATE_COSINE if memory.embedder is None else memory.embedder.thresholds.duplicate
