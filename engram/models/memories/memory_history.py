"""The history of memories (what changed, when, why and by whom), and runs, which can be undone as a whole."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from peewee import ModelSelect, Query

from engram.enums import Actor, Judgement
from engram.models import tables
from engram.models.engine.statement import RecordReader, in_json_list
from engram.models.engine.transaction import Reader, Store, Tx, Value, asks_records
from engram.models.memories.memory_records import ENUM_FIELDS, LIST_FIELDS, MEMORY_ID, Memory
from engram.models.memories.tombstones import forgotten_memories

#: Action that records each judgement on a memory, and the withdrawal of one.
JUDGEMENT_ACTIONS = {Judgement.HELPFUL: "helpful", Judgement.WRONG: "bad", Judgement.OUTDATED: "outdated"}
TAKE_BACK = "take back"
#: Actions by which a person or an agent decides what a memory says or whether it is used.
BY_HAND_ACTIONS = ("edit", "pin", "unpin", *JUDGEMENT_ACTIONS.values(), TAKE_BACK, "recover")
#: Those who decide by hand.
BY_HAND_ACTORS = (Actor.USER, Actor.AGENT)

#: Action recorded for a memory that was imported from a file. It is never exported.
IMPORT = "import"
#: Action recorded for a memory that was carried over with its project, because a restored backup lacked the project.
RETURN = "return"
#: Action recorded for a memory that lost words or evidence because they were forgotten.
ERASE = "erase"


@dataclass(frozen=True, slots=True)
class Change:
    """One step of a memory's history."""

    at_ms: int
    action: str
    reason: str
    actor: Actor
    run_id: int | None
    #: The changed fields with their values before and after, without values that contained forgotten text.
    before: Mapping[str, Any]
    after: Mapping[str, Any]
    episode_id: str = ""
    id: int = 0
    #: The step that this one undid; None if there is none.
    undoes: int | None = None

    @property
    def is_by_hand(self) -> bool:
        """True if a person or an agent decided what the memory says or whether it is used."""
        return self.action in BY_HAND_ACTIONS


_CHANGES = RecordReader(
    Change, tables.History, readers={"actor": Actor.from_stored, "before": json.loads, "after": json.loads}
)


def add_history(
    tx: Tx,
    episode_id: str,
    action: str,
    reason: str,
    before: Mapping[str, Any],
    after: Mapping[str, Any],
    *,
    actor: Actor,
    run_id: int | None = None,
    at_ms: int | None = None,
    undoes: int | None = None,
) -> int:
    """Add a step to a memory's history; return its number. Only modules that change memories call this."""
    extra = {"run_id": run_id, "undoes": undoes}
    at_ms = tx.now_ms() if at_ms is None else at_ms
    return tx.insert_row(tables.History, _step(episode_id, at_ms, action, reason, actor, before, after) | extra)


def add_first_steps(tx: Tx, made: Sequence[tuple[str, str, Mapping[str, Any]]], *, actor: Actor, action: str) -> None:
    """Begin the histories of many new memories, each given by its id, a reason and its fields."""
    now = tx.now_ms()
    steps = [_step(episode_id, now, action, reason, actor, {}, fields) for episode_id, reason, fields in made]
    tx.insert_many(tables.History, steps)


def _step(
    episode_id: str,
    at_ms: int,
    action: str,
    reason: str,
    actor: Actor,
    before: Mapping[str, Any],
    after: Mapping[str, Any],
) -> dict[str, Value]:
    return {
        "episode_id": episode_id,
        "at_ms": at_ms,
        "action": action,
        "reason": reason,
        "actor": actor.value,
        "before": json.dumps(before, ensure_ascii=False),
        "after": json.dumps(after, ensure_ascii=False),
    }


def changes_by_row(store: Reader, row_ids: Sequence[int]) -> list[Change]:
    """Return the existing steps with these row ids."""
    chosen = in_json_list(tables.History.id, row_ids)
    return store.fetch_records(_CHANGES, _CHANGES.select().where(chosen))


def changes_of_run(store: Reader, run_id: int) -> list[Change]:
    history = tables.History
    return store.fetch_records(_CHANGES, _CHANGES.select().where(history.run_id == run_id).order_by(history.id))


def changing_runs(store: Reader, runs: Sequence[Run]) -> set[int]:
    """Return the numbers of the runs that changed a memory or a file."""
    history = tables.History
    found = history.select(history.run_id).where(history.run_id.in_([run.id for run in runs])).distinct()
    return {*store.fetch_values(found), *(run.id for run in runs if run.report.get("files_before"))}


def standing_steps(history: Sequence[Change]) -> list[Change]:
    """Return the steps of a history that have not been undone, oldest first."""
    taken_back: set[int] = set()
    standing = []
    for step in reversed(history):
        if step.id in taken_back:
            continue
        standing.append(step)
        if step.undoes is not None:
            taken_back.add(step.undoes)
    return standing[::-1]


def drop_history(tx: Tx, episode_id: str) -> None:
    """Delete a memory's history, because it quotes forgotten text."""
    tx.run(tables.History.delete().where(tables.History.episode_id == episode_id))


@asks_records(_CHANGES)
def history_of(episode_id: str) -> Query:
    """Return a memory's history, the oldest step first."""
    history = tables.History
    return _CHANGES.select().where(history.episode_id == episode_id).order_by(history.id)


def histories_of(store: Reader, episode_ids: Sequence[str]) -> dict[str, list[Change]]:
    """Return id → history, the oldest step first, for memories that have one."""
    history = tables.History
    query = _CHANGES.select_by(history.episode_id).where(in_json_list(history.episode_id, episode_ids))
    return store.fetch_records_by(_CHANGES, query.order_by(history.id))


#: The fields of a memory that history records, in order.
_RECORDED_FIELDS = tuple(
    field.name
    for field in dataclasses.fields(Memory)
    if field.name not in {"id", "revision", "updated_at_ms", "accessed_at_ms", "access_count", "project"}
)


def snapshot(memory: Memory) -> dict[str, Any]:
    """Return the fields of a memory that history records."""
    fields = {name: getattr(memory, name) for name in _RECORDED_FIELDS}
    return fields | {name: list(fields[name]) for name in LIST_FIELDS}


def fields_of_snapshot(kept: Mapping[str, Any]) -> dict[str, Any]:
    """Return fields of a memory from a result of ``snapshot`` that has been stored as JSON."""
    enums = {name: ENUM_FIELDS[name].from_stored(value) for name, value in kept.items() if name in ENUM_FIELDS}
    lists = {name: tuple(value) for name, value in kept.items() if name in LIST_FIELDS}
    return {**kept, **enums, **lists}


# -- Runs: begin, resume, list and find them, and store their results.


@dataclass(frozen=True, slots=True)
class Run:
    """A consolidation, or the changes that one extraction, save or decision made to older memories."""

    id: int
    #: One of ``UNDOABLE_KINDS``.
    kind: str
    started_at_ms: int
    ended_at_ms: int | None
    #: running, done or undone.
    state: str
    #: Name of the step that comes next; "" at the start.
    position: str
    #: Its results, as values that can be stored as JSON.
    report: Mapping[str, Any]


#: Kinds of runs that are listed and can be undone. Purges are logged too, but can't be undone.
UNDOABLE_KINDS = ("consolidate", "extract", "save", "decide", "undo")
#: The kind of runs that import memories from a file. Undoing one deletes the memories that it added.
IMPORT_KIND = "import"
_RUNS = RecordReader(Run, tables.Run, readers={"report": json.loads})


def _runs_of(kinds: Sequence[str]) -> ModelSelect[Any]:
    return _RUNS.select().where(tables.Run.kind.in_(kinds))


def begin_run(store: Store) -> Run:
    """Return the consolidation that was interrupted, or begin a new one."""
    table = tables.Run
    with store.transaction() as tx:
        interrupted = _runs_of(["consolidate"]).where(table.state == "running").order_by(table.id.desc())
        run = tx.fetch_record(_RUNS, interrupted.limit(1))
        if run is None:
            begun = table.insert(kind="consolidate", started_at_ms=tx.now_ms(), state="running")
            run = find_run(tx, tx.insert(begun))
    assert run is not None
    return run


def add_run(tx: Tx, kind: str, report: Mapping[str, Any] | None = None) -> int:
    """Log a run that ends with this transaction or shortly after it; return its number."""
    now_ms = tx.now_ms()
    return tx.insert(
        tables.Run.insert(
            kind=kind, started_at_ms=now_ms, ended_at_ms=now_ms, state="done", report=_report_text(tx, report or {})
        )
    )


def close_run(tx: Tx, run_id: int, lines: Sequence[str]) -> None:
    """Store the results of a run. A run that changed nothing is deleted from the log."""
    table, history = tables.Run, tables.History
    if tx.has_any(history.select(history.id).where(history.run_id == run_id).limit(1)):
        report = _report_text(tx, {"lines": list(lines)})
        tx.run(table.update(report=report, ended_at_ms=tx.now_ms()).where(table.id == run_id))
    else:
        tx.run(table.delete().where(table.id == run_id))


def find_run(store: Reader, run_id: int, kinds: Sequence[str] = UNDOABLE_KINDS) -> Run | None:
    """Return the run with a number; None if there is none of these kinds."""
    return store.fetch_record(_RUNS, _runs_of(kinds).where(tables.Run.id == run_id))


def set_state(tx: Tx, run_id: int, state: str) -> None:
    """Record whether a run's changes are still in effect ("done") or were undone ("undone")."""
    tx.run(tables.Run.update(state=state).where(tables.Run.id == run_id))


def list_runs(store: Reader, limit: int = 20, kinds: Sequence[str] = UNDOABLE_KINDS) -> list[Run]:
    """Return the latest runs of these kinds, latest first."""
    return store.fetch_records(_RUNS, _runs_of(kinds).order_by(tables.Run.id.desc()).limit(limit))


def update_run(tx: Tx, run: Run, *, position: str, report: Mapping[str, Any], state: str = "running") -> Run:
    """Store how far a run has got, and its results."""
    ended_at_ms = tx.now_ms() if state != "running" else None
    table = tables.Run
    changes = table.update(position=position, report=_report_text(tx, report), state=state, ended_at_ms=ended_at_ms)
    tx.run(changes.where(table.id == run.id))
    return dataclasses.replace(run, ended_at_ms=ended_at_ms, state=state, position=position, report=report)


def _report_text(tx: Tx, report: Mapping[str, Any]) -> str:
    """Return a report as it is stored: without lines about memories that were forgotten during the run."""
    text = json.dumps(report, ensure_ascii=False)
    gone = forgotten_memories(tx, set(MEMORY_ID.findall(text)))
    if not gone:
        return text
    return json.dumps(cut_report(report, lambda line: gone.isdisjoint(MEMORY_ID.findall(line))), ensure_ascii=False)


def cut_report(
    report: Mapping[str, Any],
    is_kept: Callable[[str], bool],
    clean_note: Callable[[str, str], str | None] | None = None,
) -> dict[str, Any]:
    """Return a run's report without some lines, which are also removed from the copies of notes kept for an undo.

    Args:
        is_kept: returns True for a line to keep.
        clean_note: takes the name and text of a note, and returns what to keep of the text, or None if an undo should
            not touch the note; by default, it keeps the lines for which ``is_kept`` is true.
    """

    def keep_lines(_: str, text: str) -> str:
        return "".join(line for line in text.splitlines(keepends=True) if is_kept(line))

    cut = dict(report)
    if isinstance(report.get("lines"), list):
        cut["lines"] = [line for line in report["lines"] if is_kept(str(line))]
    if isinstance(report.get("files_before"), dict):
        clean = clean_note or keep_lines
        notes = {name: clean(name, str(before)) for name, before in report["files_before"].items()}
        cut["files_before"] = {name: text for name, text in notes.items() if text is not None}
    return cut


def sessions_grown_since(store: Reader, since_ms: int) -> list[str]:
    """Return the ids of the sessions from which something was read at or after a time, the longest silent first."""
    session, turn = tables.Session, tables.Turn
    grown = turn.select(turn.session).where(turn.updated_at_ms >= since_ms)
    return store.fetch_values(
        session.select(session.session_id).where(session.id.in_(grown)).order_by(session.last_at_ms, session.id)
    )
