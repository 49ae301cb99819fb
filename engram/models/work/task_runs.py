"""Runs of tasks, and the health of each stage of the pipeline."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from enum import StrEnum

from peewee import EXCLUDED, Query, fn

from engram.errors import StoreError
from engram.models import tables
from engram.models.engine.statement import RecordReader, in_json_list, prepared
from engram.models.engine.transaction import Reader, Store, Tx, Value, asks_any, asks_records
from engram.models.work.work import MAX_ERROR_CHARS

# -- Runs of tasks: what is running, what ran recently, how long it took, and why it failed.

#: Number of successful runs of each kind that are kept, and also of unsuccessful ones.
KEPT_RUNS = 50
#: Maximum length of an outcome that is kept, in characters.
MAX_OUTCOME_CHARS = 200
#: Maximum length of a traceback that is kept, in characters; only the end of a longer one is kept.
MAX_TRACEBACK_CHARS = 4_000
#: The outcome of a run that had nothing to do.
NOTHING = "nothing to do"


class RunState(StrEnum):
    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"
    #: Its process was killed or crashed.
    INTERRUPTED = "interrupted"


_UNSUCCESSFUL = (RunState.FAILED.value, RunState.INTERRUPTED.value)


@dataclass(frozen=True, slots=True)
class TaskRun:
    id: int
    #: Name of the task.
    kind: str
    #: What it is about, such as a session id; "" for kinds without a key.
    key: str
    state: RunState
    #: Id of the process that runs or ran it.
    pid: int
    started_at_ms: int
    #: None while it is running, and if it was interrupted.
    duration_ms: int | None
    #: One line: what it did, or why it failed.
    outcome: str
    #: The traceback of a failure, redacted.
    error: str
    #: Number of runs in this record; consecutive runs that found nothing to do share one.
    times: int


_RUN = RecordReader(TaskRun, tables.TaskRun, readers={"state": RunState})


def begin_task_run(store: Store, kind: str, key: str) -> int:
    """Record that this process has begun a task; return the id of the run."""
    begun: dict[str, Value] = {"kind": kind, "key": key, "state": RunState.RUNNING.value, "pid": os.getpid()}
    with store.transaction() as tx:
        return tx.insert_row(tables.TaskRun, begun | {"started_at_ms": tx.now_ms()})


def end_task_run(
    store: Store, run_id: int, kind: str, state: RunState, *, duration_ms: int, outcome: str = "", error: str = ""
) -> None:
    """Record the end of a run, and delete runs of its kind beyond ``KEPT_RUNS``.

    A run that found nothing to do replaces the previous run if that found nothing either, so that a task that runs
    every minute doesn't fill the table.
    """
    with store.transaction() as tx:
        ended: dict[str, Value] = {"state": state.value, "duration_ms": duration_ms}
        ended |= {"outcome": outcome[:MAX_OUTCOME_CHARS], "error": error[-MAX_TRACEBACK_CHARS:]}
        tx.update_row(tables.TaskRun, run_id, ended)
        if outcome == NOTHING:
            _merge_with_previous(tx, run_id, kind)
        tx.run(_drop_beyond(kind, _UNSUCCESSFUL if state.value in _UNSUCCESSFUL else (RunState.DONE.value,)))


def _merge_with_previous(tx: Tx, run_id: int, kind: str) -> None:
    run = tables.TaskRun
    before = _RUN.select().where((run.kind == kind) & (run.id < run_id)).order_by(run.id.desc()).limit(1)
    previous = tx.fetch_record(_RUN, before)
    if previous is not None and (previous.state, previous.outcome) == (RunState.DONE, NOTHING):
        tx.run(run.update(times=previous.times + 1).where(run.id == run_id))
        tx.run(run.delete().where(run.id == previous.id))


def running_task_runs(store: Reader, is_alive: Callable[[int], bool]) -> list[TaskRun]:
    """Return the runs that are in progress, oldest first. A run counts only if its process ``is_alive``."""
    return [run for run in _running(store) if is_alive(run.pid)]


def interrupt_task_runs(store: Store, is_alive: Callable[[int], bool]) -> list[TaskRun]:
    """Record the end of runs whose process is no longer alive, and return them."""
    runs = [run for run in _running(store) if not is_alive(run.pid)]
    if runs:
        with store.transaction() as tx:
            outcome = "the worker was killed or crashed during this run"
            changes = tables.TaskRun.update(state=RunState.INTERRUPTED.value, outcome=outcome)
            tx.run(changes.where(tables.TaskRun.id.in_([run.id for run in runs])))
            for kind in {run.kind for run in runs}:
                tx.run(_drop_beyond(kind, _UNSUCCESSFUL))
    return runs


def list_task_runs(
    store: Reader, *, name: str = "", states: Sequence[RunState] = tuple(RunState), limit: int | None = 20
) -> list[TaskRun]:
    """Return runs, latest first.

    Args:
        name: only runs of this kind or key; "" for all.
    """
    query = _RUN.select().where(tables.TaskRun.state.in_([state.value for state in states]))
    if name:
        query = query.where((tables.TaskRun.kind == name) | (tables.TaskRun.key == name))
    return store.fetch_records(_RUN, query.order_by(tables.TaskRun.id.desc()).limit(limit))


def latest_failure(store: Reader, kind: str, key: str) -> TaskRun | None:
    """Return the latest failed or interrupted run of a task with a key; None if there is no record of one."""
    run = tables.TaskRun
    is_wanted = (run.kind == kind) & (run.key == key) & run.state.in_(_UNSUCCESSFUL)
    return store.fetch_record(_RUN, _RUN.select().where(is_wanted).order_by(run.id.desc()).limit(1))


def clear_task_errors(tx: Tx) -> None:
    """Delete the messages of failures, because they may quote text that is being forgotten."""
    tx.run(tables.TaskRun.update(outcome="", error="").where(tables.TaskRun.state.in_(_UNSUCCESSFUL)))
    tx.run(tables.Work.update(last_error="").where(tables.Work.last_error != ""))
    # Engram's own messages about the file quote no stored text.
    may_quote = (tables.Stage.last_error != "") & tables.Stage.name.not_in(["memory", _LOST_WRITES])
    tx.run(tables.Stage.update(last_error=_FORGOTTEN_ERROR).where(may_quote))


@asks_records(_RUN)
def _running() -> Query:
    return _RUN.select().where(tables.TaskRun.state == RunState.RUNNING.value).order_by(tables.TaskRun.id)


@prepared
def _drop_beyond(kind: str, states: tuple[str, ...]) -> Query:
    run, kept = tables.TaskRun, tables.TaskRun.alias("kept")
    is_of_kind = (kept.kind == kind) & in_json_list(kept.state, states)
    last_id = kept.select(kept.id).where(is_of_kind).order_by(kept.id.desc()).limit(1).offset(KEPT_RUNS)
    return run.delete().where((run.kind == kind) & in_json_list(run.state, states) & (run.id <= last_id))


# -- The health of each stage of the pipeline: numbers of items seen and processed, since when it has been failing, and
# its last error.

#: Stages that may fail because of a setting, a key or a model. Their failures are cleared when a setting is changed and
#: when a worker starts, because it then tries again. Earlier versions recorded failures under "model".
STAGES_OF_SETTINGS = frozenset({"embed", "extract", "llm", "second chance", "model", "queue"})
#: The stage under which lost writes are reported as a failure. This is separate from ``memory``, where the next damage
#: or repair would replace the report. The daily backup clears it.
_LOST_WRITES = "lost writes"
#: Error of the stage ``memory`` after damage has been found.
_DAMAGE = "memory.db proved damaged; the worker starts again and checks it"


#: Error of a stage that still fails after its message was deleted.
_FORGOTTEN_ERROR = "the message was deleted with what was forgotten; the next failure is reported again"


@dataclass(frozen=True, slots=True)
class Stage:
    name: str
    seen: int
    done: int
    last_success_ms: int | None
    last_error: str
    #: Since when it has been failing; None if it works.
    last_error_ms: int | None


_STAGE = RecordReader(Stage, tables.Stage)


def list_stages(store: Reader) -> list[Stage]:
    """Return the health of every stage that has ever run."""
    return store.fetch_records(_STAGE, _STAGE.select().order_by(tables.Stage.name))


def note_success(store: Store, stage: str, *, seen: int = 0, done: int = 0) -> None:
    """Record that a stage succeeded: add to its counts, and clear its last error."""
    with store.transaction() as tx:
        tx.run(_count(stage, seen, done, tx.now_ms()))


def note_failure(store: Store, stage: str, error: str) -> None:
    """Record that a stage failed: store the error, and when it began to fail."""
    with store.transaction() as tx:
        tx.run(_keep_error(stage, error[:MAX_ERROR_CHARS], tx.now_ms()))


def clear_old_news(store: Store, seconds: float) -> None:
    """Clear the reports of damage to memory.db and of lost writes, if they are older than ``seconds``."""
    for stage in ("memory", _LOST_WRITES):
        clear_old_failure(store, stage, seconds)


def clear_old_failure(store: Store, stage: str, seconds: float) -> None:
    """Clear the failure of a stage if it began more than ``seconds`` ago."""
    with store.transaction() as tx:
        is_old = tables.Stage.last_error_ms <= tx.now_ms() - int(seconds * 1000)
        tx.run(tables.Stage.update(last_error="", last_error_ms=None).where((tables.Stage.name == stage) & is_old))


def clear_failures(store: Store, stages: Collection[str]) -> None:
    """Clear the failures of stages; whatever still fails is recorded again. Nothing is written if none has failed."""
    if any(stage.last_error and stage.name in stages for stage in list_stages(store)):
        with store.transaction() as tx:
            tx.run(tables.Stage.update(last_error="", last_error_ms=None).where(tables.Stage.name.in_(list(stages))))


def note_damage(store: Store) -> None:
    """Record that memory.db is damaged. The worker then restarts and checks the file thoroughly.

    Only the worker may set the file aside.
    """
    with contextlib.suppress(StoreError):
        note_failure(store, "memory", _DAMAGE)


def note_lost_writes(store: Store, damage: str) -> None:
    """Record that memory.db's write-ahead log was damaged, so that the last writes before a crash are lost."""
    note_failure(store, _LOST_WRITES, damage)


def carry_lost_writes(store: Store, source: Reader) -> None:
    """Copy the report of lost writes, with its time, from another memory.db."""
    for stage in list_stages(source):
        if stage.name == _LOST_WRITES and stage.last_error_ms is not None:
            with store.transaction() as tx:
                tx.run(_keep_error(_LOST_WRITES, stage.last_error, stage.last_error_ms))


@asks_any
def is_damage_noted() -> Query:
    """Return True if damage has been found since memory.db was last checked thoroughly."""
    stage = tables.Stage
    return stage.select(stage.name).where((stage.name == "memory") & (stage.last_error == _DAMAGE))


@prepared
def _count(name: str, seen: int, done: int, now_ms: int) -> Query:
    stage = tables.Stage
    return stage.insert(name=name, seen=seen, done=done, last_success_ms=now_ms).on_conflict(
        conflict_target=(stage.name,),
        update={
            stage.seen: stage.seen + EXCLUDED.seen,
            stage.done: stage.done + EXCLUDED.done,
            stage.last_success_ms: EXCLUDED.last_success_ms,
            stage.last_error: "",
            stage.last_error_ms: None,
        },
    )


@prepared
def _keep_error(name: str, error: str, now_ms: int) -> Query:
    stage = tables.Stage
    return stage.insert(name=name, last_error=error, last_error_ms=now_ms).on_conflict(
        conflict_target=(stage.name,),
        update={
            stage.last_error: EXCLUDED.last_error,
            stage.last_error_ms: fn.COALESCE(stage.last_error_ms, EXCLUDED.last_error_ms),
        },
    )
