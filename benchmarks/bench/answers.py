"""Make memories for a benchmark from a language model's recorded answers, through the whole pipeline."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from bench.datasets import read_code_questions
from bench.homes import NO_LIMIT, BenchHomes
from bench.memories import embed_all
from bench.prompts import as_one_project, inject_for, read_prompts
from bench.recorded_provider import RecordedProvider, Unanswered
from engram.consolidation.step_context import Context
from engram.consolidation.tidying_steps import reconcile
from engram.extraction.extracting import extract_session
from engram.extraction.local.local_extractor import LocalExtractor
from engram.extraction.model.model_extractor import ModelExtractor
from engram.extraction.model.provider import Budget
from engram.extraction.model.reconcile import Reconciler
from engram.models.engine.transaction import Store
from engram.models.memories.memory_history import add_run
from engram.models.memories.memory_records import all_memories, evidence_of
from engram.models.open_memory import open_store
from engram.models.sessions.sessions import SessionRow, list_sessions
from engram.search.searcher import Searcher
from engram.settings import Settings

#: A project's sessions are extracted in this many waves, by time. Requests contain the memories that were current
#: before their wave, so that an answer does not change the request of another session in its wave.
WAVES = 2
#: Minimum share of a run's requests that must be answered, in percent.
MIN_ANSWERED = 95.0


@contextmanager
def copy_of_turns(homes: BenchHomes, corpus: Path, project: str, suffix: str) -> Iterator[tuple[Store, Settings]]:
    """Open a fresh copy of a memory that contains only a project's turns, with the settings to extract it.

    Args:
        homes: the folders of the memories.
        corpus: folder with one Claude configuration folder for each project.
        project: name of the project's folder.
        suffix: distinguishes this copy from others.
    """
    with homes.memory(f"{project}-turns", as_one_project(corpus / project)) as (store, _):
        turns_db = store.path
    fresh = replace(
        homes.settings,
        home=homes.folder / f"{project}-{suffix}",
        hourly_memories=NO_LIMIT,
        exclude=(),
        capture=True,
        llm_calls_per_hour=NO_LIMIT,
    )
    shutil.rmtree(fresh.home, ignore_errors=True)
    fresh.places.prepare()
    shutil.copy(turns_db, fresh.places.memory_db)
    store = open_store(fresh.places.memory_db, driver=fresh.sqlite_driver)
    try:
        yield store, fresh
    finally:
        store.close()


def ready_searcher(homes: BenchHomes, store: Store, settings: Settings) -> Searcher:
    """Embed what has no vector, and return a searcher with all vectors loaded."""
    embed_all(store, homes.embedder)
    searcher = Searcher(store, settings, embedder=homes.embedder)
    searcher.refresh()
    return searcher


@dataclass(slots=True)
class AnsweredMemories:
    """Memories of several projects, made from recorded answers."""

    homes: BenchHomes
    corpus: Path
    provider: RecordedProvider
    #: Session id → why it could not be extracted completely.
    waiting: dict[str, str] = field(default_factory=dict)
    #: Sessions of later waves that wait for earlier ones.
    held_back: int = 0

    @contextmanager
    def memory(self, project: str) -> Iterator[tuple[Store, Searcher]]:
        """Yield a new memory with a project's turns and the memories that the answers make from them."""
        with copy_of_turns(self.homes, self.corpus, project, "answers") as (store, settings):
            self._extract(store, settings)
            yield store, ready_searcher(self.homes, store, settings)

    def write_requests(self, project: str) -> None:
        """Write the requests of a project that have no answer, as far as the existing answers allow."""
        with copy_of_turns(self.homes, self.corpus, project, "answers") as (store, settings):
            self._extract(store, settings)

    def figures(self) -> dict[str, Any]:
        """Return the number of requests, and how many of them are answered."""
        asked = self.provider.asked
        share = 100 * sum(asked.values()) / len(asked) if asked else 100.0
        return {
            "requests": len(asked),
            "answered": sum(asked.values()),
            "answered share": round(share, 1),
            "sessions that wait for earlier ones": self.held_back,
            "counts": share >= MIN_ANSWERED and not self.held_back,
        }

    def _extract(self, store: Store, settings: Settings) -> None:
        extractor = ModelExtractor("recorded-1", self.provider, Budget(store, settings), LocalExtractor())
        waves = _waves(sorted(list_sessions(store), key=lambda s: (s.first_at_ms, s.session_id)))
        for number, wave in enumerate(waves):
            near = [memory for memory in all_memories(store) if memory.is_current]
            for session in wave:
                try:
                    extract_session(
                        store,
                        session.session_id,
                        extractor=extractor,
                        embedder=None,
                        settings=settings,
                        near_memories=near,
                    )
                except Unanswered as missing:
                    self.waiting[session.session_id] = str(missing)
            if any(session.session_id in self.waiting for session in wave):
                self.held_back += sum(len(later) for later in waves[number + 1 :])
                return
        with store.transaction() as tx:
            run_id = add_run(tx, "consolidate")
        reconcile(Context(store, settings, run_id, reconciling=Reconciler(extractor.model)))


def _waves(sessions: Sequence[SessionRow]) -> list[Sequence[SessionRow]]:
    size = -(-len(sessions) // WAVES)
    return [sessions[start : start + size] for start in range(0, len(sessions), size)] if sessions else []


def run_answers(
    homes: BenchHomes, corpus: Path, questions: Path, answers: Path, *, prompts: Path | None
) -> tuple[list[dict[str, Any]], list[dict[str, Any]], dict[str, Any]]:
    """Measure memories from recorded answers: what would be injected, the memories, and the answered share."""
    prompts_of_project = read_prompts(prompts) if prompts is not None else {}
    lines: list[dict[str, Any]] = []
    memories: list[dict[str, Any]] = []
    answered = AnsweredMemories(homes, corpus, RecordedProvider(answers))
    for project in read_code_questions(questions):
        with answered.memory(project) as (store, searcher):
            memories += kept_lines(store)
            if project in prompts_of_project:
                lines += inject_for(homes, store, searcher, prompts_of_project[project])
        homes.progress(f"{project}: {answered.figures()}")
    return lines, memories, answered.figures()


def write_requests(homes: BenchHomes, corpus: Path, questions: Path, folder: Path) -> dict[str, Any]:
    """Write the next round of requests to the folder with the answers to earlier rounds; return their numbers."""
    answered = AnsweredMemories(homes, corpus, RecordedProvider(folder))
    for project in read_code_questions(questions):
        answered.write_requests(project)
        homes.progress(f"{project}: {answered.figures()}")
    return answered.figures()


def kept_lines(store: Store) -> list[dict[str, Any]]:
    """Return every memory as a line of an export, for scorers."""
    return [
        {
            "id": memory.episode_id,
            "kind": memory.kind,
            "session": memory.session_id,
            "title": memory.shown_title,
            "summary": memory.summary,
            "content": memory.content,
            "evidence": [evidence.uuid for evidence in evidence_of(store, memory.id) if evidence.uuid],
            "importance": memory.importance,
            "status": memory.status,
            "superseded_by": memory.superseded_by,
        }
        for memory in all_memories(store)
    ]
