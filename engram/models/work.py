"""What is due: one row for each piece of work, leases for periodic work, and the health of each stage."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from engram.models.store import Store
from engram.models.transaction import Reader, Row, Tx


class WorkState(StrEnum):
    """Where a piece of work stands."""

    DUE = "due"
    DONE = "done"
    #: Set aside after too many failures; ``engram tasks retry`` makes it due again.
    DEAD = "dead"


#: Seconds until the next try after the first, second, third and every further failure.
BACK_OFF_SECONDS = (15, 30, 60, 120)

#: Nothing is put off for longer, in milliseconds: what is due later than that was written before the clock went back.
FARTHEST_MS = 86_400_000

#: Scope of a pause of the work itself: transcripts are read on, but nothing that is due is begun.
TASKS_SCOPE = "tasks"


@dataclass(frozen=True, slots=True)
class Work:
    """One piece of work."""

    id: int
    #: extract, recollect, embed, index_notes, consolidate …
    kind: str
    #: What it is about, such as a session id; "" for kinds without one.
    key: str
    state: WorkState
    due_at_ms: int
    attempts: int
    #: Raised by every change that makes it due; finishing compares it.
    version: int
    last_error: str
    reason: str
    updated_at_ms: int


_WORK = "SELECT id, kind, key, state, due_at_ms, attempts, version, last_error, reason, updated_at_ms FROM work"


def _work(row: Row) -> Work:
    return Work(row[0], row[1], row[2], WorkState(row[3]), *row[4:])


def make_due(tx: Tx, kind: str, key: str, due_at_ms: int, reason: str = "") -> None:
    """Make work due at a time (an earlier time of a waiting one stays). Call it with the change that causes it."""
    tx.run(
        "INSERT INTO work (kind, key, state, due_at_ms, reason, updated_at_ms) VALUES (?, ?, 'due', ?, ?, ?) "
        "ON CONFLICT (kind, key) DO UPDATE SET version = version + 1, updated_at_ms = excluded.updated_at_ms, "
        "reason = excluded.reason, attempts = CASE WHEN state = 'due' THEN attempts ELSE 0 END, "
        "due_at_ms = CASE WHEN state = 'due' AND attempts > 0 THEN max(due_at_ms, excluded.due_at_ms) "
        "WHEN state = 'due' THEN min(due_at_ms, excluded.due_at_ms) ELSE excluded.due_at_ms END, "
        "state = CASE WHEN state = 'dead' THEN 'dead' ELSE 'due' END",
        (kind, key, due_at_ms, reason, tx.now_ms()),
    )


def postpone(tx: Tx, kind: str, key: str, due_at_ms: int) -> None:
    """Make waiting work due later (or earlier) than it was; makes it where there is none."""
    make_due(tx, kind, key, due_at_ms)
    tx.run("UPDATE work SET due_at_ms = ? WHERE kind = ? AND key = ? AND attempts = 0", (due_at_ms, kind, key))


def find_work(store: Reader, kind: str, key: str) -> Work | None:
    """One piece of work."""
    found = store.row(f"{_WORK} WHERE kind = ? AND key = ?", (kind, key))
    return None if found is None else _work(found)


def work_by_id(store: Reader, work_id: int) -> Work | None:
    """One piece of work by its row id."""
    found = store.row(f"{_WORK} WHERE id = ?", (work_id,))
    return None if found is None else _work(found)


def is_work_paused(store: Reader) -> bool:
    """True while the user lets the worker begin nothing (``engram tasks pause``)."""
    return store.row("SELECT 1 FROM pause WHERE scope = ? AND until_ms > ?", (TASKS_SCOPE, store.now_ms())) is not None


def due_work(store: Reader, limit: int = 1000) -> list[Work]:
    """Work whose time has come, the oldest first; none while the work is paused."""
    if is_work_paused(store):
        return []
    rows = store.rows(
        f"{_WORK} WHERE state = 'due' AND (due_at_ms <= ? OR due_at_ms > ?) ORDER BY due_at_ms LIMIT ?",
        (store.now_ms(), store.now_ms() + FARTHEST_MS, limit),
    )
    return [_work(row) for row in rows]


def list_work(store: Reader, states: tuple[WorkState, ...] = (WorkState.DUE, WorkState.DEAD)) -> list[Work]:
    """All work in these states."""
    marks = ",".join("?" * len(states))
    return [_work(row) for row in store.rows(f"{_WORK} WHERE state IN ({marks}) ORDER BY due_at_ms", states)]


def finish(tx: Tx, work: Work) -> bool:
    """The work is done, unless it was made due again meanwhile (then False, and it stays due)."""
    return (
        tx.run(
            "UPDATE work SET state = 'done', attempts = 0, last_error = '', updated_at_ms = ? WHERE id = ? AND version = ?",
            (tx.now_ms(), work.id, work.version),
        )
        == 1
    )


def fail(store: Store, work: Work, error: str, *, max_attempts: int = 0) -> WorkState:
    """The work failed: due again after a while, or dead after ``max_attempts`` (0: never)."""
    attempts = work.attempts + 1
    is_dead = bool(max_attempts) and attempts >= max_attempts
    wait = BACK_OFF_SECONDS[min(attempts, len(BACK_OFF_SECONDS)) - 1]
    with store.transaction() as tx:
        tx.run(
            "UPDATE work SET state = ?, attempts = ?, last_error = ?, due_at_ms = ?, updated_at_ms = ? WHERE id = ?",
            (
                "dead" if is_dead else "due",
                attempts,
                error[:500],
                store.now_ms() + wait * 1000,
                store.now_ms(),
                work.id,
            ),
        )
    return WorkState.DEAD if is_dead else WorkState.DUE


def retry(store: Store, work_id: int) -> bool:
    """Make a piece of work due now, dead or not; False where there is none."""
    with store.transaction() as tx:
        return (
            tx.run(
                "UPDATE work SET state = 'due', attempts = 0, due_at_ms = ?, version = version + 1, updated_at_ms = ? "
                "WHERE id = ?",
                (store.now_ms(), store.now_ms(), work_id),
            )
            == 1
        )


def cancel(store: Store, work_id: int) -> bool:
    """Mark work as done without doing it; the next change makes it due again."""
    with store.transaction() as tx:
        return tx.run("UPDATE work SET state = 'done', updated_at_ms = ? WHERE id = ?", (store.now_ms(), work_id)) == 1


def take_lease(store: Store, name: str, owner: str, seconds: float, *, every_seconds: float = 0) -> bool:
    """Take the lease of periodic work; False while another holds it or the last run is younger than ``every_seconds``.

    A clock that went back never keeps a lease away for longer than it lasts.
    """
    now = store.now_ms()
    with store.transaction() as tx:
        found = store.row("SELECT owner, until_ms, last_run_ms FROM lease WHERE name = ?", (name,))
        if found is not None:
            held, until_ms, last_run_ms = found
            if held and held != owner and now < until_ms <= now + int(seconds * 1000):
                return False
            if last_run_ms <= now < last_run_ms + int(every_seconds * 1000):
                return False
        tx.run(
            "INSERT INTO lease VALUES (?, ?, ?, 0) ON CONFLICT (name) DO UPDATE SET owner = excluded.owner, "
            "until_ms = excluded.until_ms",
            (name, owner, now + int(seconds * 1000)),
        )
    return True


def release_lease(store: Store, name: str, owner: str, *, has_run: bool = True) -> None:
    """Give a lease back; ``has_run`` notes the time of the run."""
    with store.transaction() as tx:
        tx.run(
            "UPDATE lease SET owner = '', until_ms = 0, last_run_ms = CASE WHEN ? THEN ? ELSE last_run_ms END "
            "WHERE name = ? AND owner = ?",
            (int(has_run), store.now_ms(), name, owner),
        )


def last_run_ms(store: Reader, name: str) -> int:
    """When periodic work last ran; 0 for never."""
    return int(store.value("SELECT last_run_ms FROM lease WHERE name = ?", (name,)) or 0)


def is_overdue(store: Reader, name: str, every_seconds: float) -> bool:
    """True where periodic work is to run again: its last run is long ago, never was, or lies in the future."""
    since_ms = store.now_ms() - last_run_ms(store, name)
    return not 0 <= since_ms < int(every_seconds * 1000)


def note_success(store: Store, stage: str, *, seen: int = 0, done: int = 0) -> None:
    """A stage worked: count, and clear its last error."""
    with store.transaction() as tx:
        tx.run(
            "INSERT INTO stage (name, seen, done, last_success_ms) VALUES (?, ?, ?, ?) ON CONFLICT (name) DO UPDATE SET "
            "seen = seen + excluded.seen, done = done + excluded.done, last_success_ms = excluded.last_success_ms, "
            "last_error = '', last_error_ms = NULL",
            (stage, seen, done, store.now_ms()),
        )


def note_failure(store: Store, stage: str, error: str) -> None:
    """A stage failed: keep when it began to fail and what it said last."""
    with store.transaction() as tx:
        tx.run(
            "INSERT INTO stage (name, last_error, last_error_ms) VALUES (?, ?, ?) ON CONFLICT (name) DO UPDATE SET "
            "last_error = excluded.last_error, last_error_ms = coalesce(last_error_ms, excluded.last_error_ms)",
            (stage, error[:500], store.now_ms()),
        )


def clear_old_failure(store: Store, stage: str, seconds: float) -> None:
    """Forget the failure of a stage that began longer than ``seconds`` ago."""
    with store.transaction() as tx:
        tx.run(
            "UPDATE stage SET last_error = '', last_error_ms = NULL WHERE name = ? AND last_error_ms <= ?",
            (stage, store.now_ms() - int(seconds * 1000)),
        )


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


def list_stages(store: Reader) -> list[Stage]:
    """The health of every stage that ever ran."""
    rows = store.rows("SELECT name, seen, done, last_success_ms, last_error, last_error_ms FROM stage ORDER BY name")
    return [Stage(*row) for row in rows]
