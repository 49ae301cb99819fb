"""What each task does: flush extracts below the threshold, a stop does not, a scan runs once, failures come again."""

from __future__ import annotations

import dataclasses
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from planting import plant
from repositories import repository
from transcript_lines import say

from engram.embedding.hashed import HashedEmbedder
from engram.enums import Kind
from engram.errors import BudgetReached, EngramError, StoreError
from engram.extraction.candidate import Candidate
from engram.ingest.project_moves import sort_projects
from engram.ingest.read_sources import ingest_path
from engram.models.engine.transaction import Store
from engram.models.projects.notes import Owner, is_seen_by
from engram.models.projects.projects import list_projects
from engram.models.search.vector_rows import missing_vectors
from engram.models.sessions.sessions import find_session
from engram.models.work.task_runs import list_stages, note_failure
from engram.models.work.work import BACK_OFF_SECONDS, WorkState, find_work, take_lease
from engram.notes.daily_log import log_session
from engram.notes.note_index import index_notes as update_index
from engram.recollection.recollection_service import RecollectionService
from engram.redaction import redact
from engram.search.searcher import Searcher
from engram.settings import Settings
from engram.system.clock import FixedClock, iso_time
from engram.tasks.drain import drain
from engram.tasks.queue import EngramQueue, huey
from engram.tasks.runtime import (
    MAX_ATTEMPTS,
    Runtime,
    current_runtime,
    make_runtime,
    recover_from_crash,
    run_guarded,
    set_runtime,
)
from engram.tasks.session_tasks import extract, flush, ingest, read_session, run_embed
from engram.tasks.upkeep_tasks import index_notes, scan_now, scan_under_lease
from engram.transcripts.turns import Turn
from tests.empty_memory import open_empty

NOW_MS = 1_780_000_000_000
SESSION = "11111111-2222-3333-4444-555555555555"


class EachTurn:
    """An extractor that keeps each prompt."""

    name = "each-1"
    error: Exception | None = None

    def propose(self, turns: Any, context: Any) -> list[Candidate]:
        if self.error is not None:
            raise self.error
        return [self._of(turn) for turn in turns]

    def _of(self, turn: Turn) -> Candidate:
        return Candidate(Kind.TURN, turn.prompt, turn.reply or "-", tuple(s.uuid for s in turn.said), (turn.key,))


class Bench:
    """A worker's runtime without its threads: what waits in the queue is run by hand."""

    def __init__(self, settings: Settings, store: Store, clock: FixedClock) -> None:
        self.settings, self.store, self.clock = settings, store, clock
        self.embedder, self.extractor = HashedEmbedder(), EachTurn()
        searcher = Searcher(store, settings, embedder=self.embedder)
        recollection = RecollectionService(store, searcher, settings, embedder=self.embedder)
        self.runtime = Runtime(settings, store, searcher, recollection, self.embedder, self.extractor)
        self.queue: EngramQueue = huey.bind(settings.places, settings.sqlite_driver)

    def talk(self, messages: int, session: str = SESSION) -> Path:
        path = self.settings.projects_folder / "-work-demo" / f"{session}.jsonl"
        for number in range(messages):
            text = f"Message {uuid.uuid4()} about the importer."
            say(path, "assistant" if number % 2 else "user", text, at=iso_time(self.clock.now_ms()))
        return path

    def run_all(self) -> list[str]:
        """Run what waits, and what that enqueues; the names in order."""
        ran = []
        while (task := self.queue.dequeue()) is not None:
            ran.append(task.name)
            self.queue.execute(task)
        return ran

    def memories(self) -> int:
        return int(self.store.value("SELECT count(*) FROM episode"))


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    settings = Settings(home=tmp_path / "home", claude_folder=tmp_path / "claude", embedding_model="hashed")
    settings.places.prepare()
    clock = FixedClock(NOW_MS)
    with open_empty(settings.places.memory_db, clock=clock) as store:
        bench = Bench(settings, store, clock)
        set_runtime(bench.runtime)
        yield bench
        set_runtime(None)
    huey.storage.close()


def test_a_session_of_three_messages_that_ends_is_extracted(bench: Bench) -> None:
    bench.talk(3)

    flush(SESSION)
    bench.run_all()

    assert bench.memories() == 2
    assert bench.store.value("SELECT count(*) FROM turn WHERE is_closed = 0") == 0


def test_what_was_extracted_is_found_by_its_meaning_without_waiting_for_a_scan(bench: Bench) -> None:
    bench.talk(3)

    flush(SESSION)
    ran = bench.run_all()

    assert "scan" not in ran
    assert bench.memories() == 2
    assert missing_vectors(bench.store, bench.embedder.model_id, 1) == []


def test_a_stop_alone_closes_the_turn_and_extracts_nothing_before_the_threshold(bench: Bench) -> None:
    bench.talk(3)

    ingest(SESSION)
    ran = bench.run_all()

    assert "extract" not in ran
    assert bench.memories() == 0
    assert bench.store.value("SELECT count(*) FROM turn WHERE is_closed = 0") == 0


def test_a_stop_at_the_threshold_extracts(bench: Bench) -> None:
    bench.talk(5)

    ingest(SESSION)

    assert "extract" in bench.run_all()
    assert bench.memories() == 3


def test_a_session_that_never_falls_silent_is_extracted_20_minutes_after_the_last_time(bench: Bench) -> None:
    bench.talk(5)
    ingest(SESSION)
    bench.run_all()
    assert bench.memories() == 3

    for minutes in (9, 18):
        bench.clock.advance(9 * 60)
        bench.talk(1)
        ingest(SESSION)
        bench.run_all()
        assert bench.memories() == 3, f"after {minutes} minutes"
    bench.clock.advance(3 * 60)
    scan_now(bench.runtime)
    bench.run_all()

    assert bench.memories() == 5


def test_a_flush_of_a_forged_or_unknown_session_is_nothing(bench: Bench) -> None:
    for session in ("../../etc/passwd", "*", "", "nobody"):
        flush(session)
    bench.run_all()

    assert bench.store.value("SELECT count(*) FROM turn") == 0


def test_running_a_task_twice_changes_nothing_more(bench: Bench) -> None:
    bench.talk(6)
    for task in (flush, ingest, extract):
        task(SESSION)
    bench.run_all()
    before = bench.store.rows("SELECT * FROM episode ORDER BY id")

    for task in (extract, flush, ingest):
        task(SESSION)
    bench.run_all()

    assert bench.store.rows("SELECT * FROM episode ORDER BY id") == before


def test_a_failed_extraction_comes_again_after_15_30_60_and_120_seconds(bench: Bench) -> None:
    bench.extractor.error = BudgetReached("the cap of the day")
    bench.talk(3)
    flush(SESSION)
    waits = []
    for _ in range(6):
        bench.run_all()
        work = find_work(bench.store, "extract", SESSION)
        assert work is not None
        assert (work.state, work.last_error) == (WorkState.DUE, "the cap of the day")
        waits.append((work.due_at_ms - bench.clock.now_ms()) // 1000)
        bench.clock.advance(waits[-1] + 1)
        extract(SESSION)

    bench.extractor.error = None
    bench.run_all()

    assert waits == [*BACK_OFF_SECONDS, 120, 120]
    assert bench.memories() == 2
    done = find_work(bench.store, "extract", SESSION)
    assert done is not None
    assert (done.state, done.attempts, done.last_error) == (WorkState.DONE, 0, "")


def test_work_that_breaks_again_and_again_is_set_aside(bench: Bench) -> None:
    bench.extractor.error = ValueError("a fault of the program")
    bench.talk(3)
    flush(SESSION)
    for _ in range(MAX_ATTEMPTS):
        bench.run_all()
        extract(SESSION)

    work = find_work(bench.store, "extract", SESSION)

    assert work is not None
    assert work.state is WorkState.DEAD
    assert "a fault of the program" in work.last_error


def test_a_failure_is_noted_and_never_leaves_the_task(bench: Bench) -> None:
    def fail() -> None:
        raise StoreError("disk full")

    assert not run_guarded(bench.runtime, "embed", "", fail)
    assert {stage.name: stage.last_error for stage in list_stages(bench.store)}["embed"] == "disk full"

    assert run_guarded(bench.runtime, "log", "", lambda: None)
    assert {stage.name: stage.last_error for stage in list_stages(bench.store)}["embed"] == "disk full"


def test_work_that_finds_nothing_to_do_ends_a_failure(bench: Bench) -> None:
    note_failure(bench.store, "index_notes", "the folder can't be read")

    index_notes()
    bench.run_all()

    assert not any(stage.last_error for stage in list_stages(bench.store))


def test_a_scan_finds_everything_without_a_queue(bench: Bench) -> None:
    bench.talk(6)
    ingest(SESSION)
    bench.queue.execute(bench.queue.dequeue())
    bench.queue.storage.flush_queue()

    scan_under_lease(bench.runtime)
    ran = bench.run_all()

    assert {"extract", "embed", "consolidate", "index_notes"} <= set(ran)
    assert bench.memories() == 3
    assert missing_vectors(bench.store, bench.embedder.model_id, 1) == []


def test_of_two_workers_one_scans(bench: Bench) -> None:
    assert scan_under_lease(bench.runtime) is not None
    assert scan_under_lease(bench.runtime) is None

    bench.clock.advance(60)
    assert scan_under_lease(bench.runtime) is not None


def test_a_lease_of_a_killed_worker_is_given_back_at_the_next_start(bench: Bench) -> None:
    dead_pid = 2**22 + 7
    assert take_lease(bench.store, "scan", f"{dead_pid}-1", 60)
    assert scan_under_lease(bench.runtime) is None

    recover_from_crash(bench.store)

    assert scan_under_lease(bench.runtime) is not None


def test_an_overdue_consolidation_runs_once_and_then_waits_four_hours(bench: Bench) -> None:
    def consolidations() -> int:
        bench.clock.advance(60)
        scan_under_lease(bench.runtime)
        bench.run_all()
        return int(bench.store.value("SELECT count(*) FROM run"))

    assert consolidations() == 1
    assert consolidations() == 1
    bench.clock.advance(bench.settings.consolidate_seconds)
    assert consolidations() == 2


def test_without_an_extractor_turns_wait(bench: Bench) -> None:
    bench.runtime.extractor = None
    bench.talk(6)

    flush(SESSION)
    bench.run_all()

    assert bench.memories() == 0
    assert bench.store.value("SELECT count(*) FROM turn WHERE extracted_revision < revision") == 3


def test_a_drain_does_all_that_is_due_in_this_process(bench: Bench) -> None:
    bench.talk(6)
    bench.talk(2, session="short")
    for session in (SESSION, "short"):
        read_session(bench.runtime, session)

    first = drain(bench.runtime)
    assert bench.memories() == 3
    second = drain(bench.runtime, with_waiting=True)

    assert (first.sessions, second.sessions, bench.memories()) == (1, 1, 4)
    assert missing_vectors(bench.store, bench.embedder.model_id, 1) == []


def test_a_drain_ends_although_something_keeps_failing(bench: Bench) -> None:
    bench.extractor.error = RuntimeError("always")
    bench.talk(6)
    ingest(SESSION)
    bench.queue.execute(bench.queue.dequeue())

    assert drain(bench.runtime).failed == 1


def test_tasks_need_a_runtime() -> None:
    set_runtime(None)
    with pytest.raises(EngramError, match="worker"):
        current_runtime()


def test_a_model_that_cannot_be_used_leaves_everything_else_working(bench: Bench, tmp_path: Path) -> None:
    settings = Settings(
        home=bench.settings.home, claude_folder=bench.settings.claude_folder, embedding_model=str(tmp_path / "nowhere")
    )
    runtime = make_runtime(settings, bench.store)

    assert runtime.embedder is None
    assert runtime.extractor is not None
    assert {s.name: bool(s.last_error) for s in list_stages(bench.store)}["embed"]
    assert runtime.index_mb() == 0

    run_embed(runtime)
    runtime.executor.close()
    assert {s.name: bool(s.last_error) for s in list_stages(bench.store)}["embed"]


@pytest.mark.parametrize("task", [flush, ingest, extract])
def test_arguments_are_ids(bench: Bench, task: Callable[[Any], None]) -> None:
    task("x" * 10_000)

    assert bench.queue.dequeue() is None


@pytest.mark.parametrize("extractor", ["off", "local"])
@pytest.mark.parametrize("own", [True, False], ids=["the session stays", "nothing stays"])
def test_a_log_never_tells_of_what_was_sorted_into_another_project(
    bench: Bench, tmp_path: Path, extractor: str, own: bool
) -> None:
    store, settings = bench.store, dataclasses.replace(bench.settings, extractor=extractor)
    bench.runtime.settings = settings
    bench.runtime.extractor = bench.extractor if extractor == "local" else None
    src, path = tmp_path / "src", settings.projects_folder / "-src" / f"{SESSION}.jsonl"
    said = {"src": "hammock"} if own else {}
    for name, word in (said | {"harbor": "anchor", "acme": "winch"}).items():
        folder = src if name == "src" else repository(src / name)
        say(path, "user", f"Where is the {word}?", cwd=str(src if not own and name == "harbor" else folder))
        say(path, "assistant", "There.", cwd=str(folder))
    ingest_path(store, path, settings=settings, redact=redact, close=True)
    above = find_session(store, SESSION).project_id  # type: ignore[union-attr]
    plant(store, "UPDATE turn SET project_id = ?", (above,))
    log_session(store, settings.places, SESSION)
    update_index(store, settings, redact)

    def told(project: int) -> str:
        seen = store.rows("SELECT owner_kind, owner, text FROM note_chunk")
        return " ".join(text for kind, owner, text in seen if is_seen_by(store, Owner(kind, owner), project))

    assert "winch" in told(above)
    assert sort_projects(store, settings)
    assert "winch" not in told(above)
    scan_now(bench.runtime)
    bench.run_all()
    projects = {project.name: project.id for project in list_projects(store)}

    assert {name: "winch" in told(number) for name, number in projects.items()} == {
        name: name == "acme" for name in projects
    }
    assert ("hammock" in told(above)) is own
    (file,) = settings.places.daily_notes.glob("*.md")
    mended = file.stat().st_mtime_ns
    scan_now(bench.runtime)
    bench.run_all()
    assert file.stat().st_mtime_ns == mended
