"""The health of each stage of the work: how much it saw and did, since when it fails, and what it said."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass

from peewee import EXCLUDED, Query, fn

from engram.errors import StoreError
from engram.models import tables
from engram.models.records import RecordReader
from engram.models.statement import prepared
from engram.models.store import Store
from engram.models.transaction import Reader
from engram.models.work import MAX_ERROR_CHARS

#: What the stage ``memory`` says where somebody met damage.
_DAMAGE = "memory.db proved damaged; the worker starts again and checks it"


@dataclass(frozen=True, slots=True)
class Stage:
    """The health of one stage."""

    name: str
    seen: int
    done: int
    last_success_ms: int | None
    last_error: str
    #: Since when it fails; None while it works.
    last_error_ms: int | None


_STAGE = RecordReader(Stage, tables.Stage)


def list_stages(store: Reader) -> list[Stage]:
    """The health of every stage that ever ran."""
    return store.fetch_records(_STAGE, _STAGE.select().order_by(tables.Stage.name))


def note_success(store: Store, stage: str, *, seen: int = 0, done: int = 0) -> None:
    """A stage worked: count, and clear its last error."""
    with store.transaction() as tx:
        tx.run(_count(stage, seen, done, tx.now_ms()))


def note_failure(store: Store, stage: str, error: str) -> None:
    """A stage failed: keep when it began to fail and what it said last."""
    with store.transaction() as tx:
        tx.run(_keep_error(stage, error[:MAX_ERROR_CHARS], tx.now_ms()))


def clear_old_failure(store: Store, stage: str, seconds: float) -> None:
    """Forget the failure of a stage that began longer than ``seconds`` ago."""
    with store.transaction() as tx:
        is_old = tables.Stage.last_error_ms <= tx.now_ms() - int(seconds * 1000)
        tx.run(tables.Stage.update(last_error="", last_error_ms=None).where((tables.Stage.name == stage) & is_old))


def note_damage(store: Store) -> None:
    """Leave word that memory.db proved damaged: a running worker stops, and its next start looks closely.

    The worker alone may set the file aside.
    """
    with contextlib.suppress(StoreError):
        note_failure(store, "memory", _DAMAGE)


def is_damage_noted(store: Reader) -> bool:
    """True where somebody met damage since the last close look."""
    return store.has_any(_with_error("memory", _DAMAGE))


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


@prepared
def _with_error(name: str, error: str) -> Query:
    found = (tables.Stage.name == name) & (tables.Stage.last_error == error)
    return tables.Stage.select(tables.Stage.name).where(found)
