"""What is due, paused or old: one row for each piece of work, leases for periodic work, current and past pauses.

Past pauses are kept, so that text from a pause is never read, however late its file arrives.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum

from peewee import EXCLUDED, Case, Expression, Query, fn

from engram.models import tables
from engram.models.engine.meta import get_meta, put_meta
from engram.models.engine.statement import RecordReader, prepared
from engram.models.engine.transaction import Reader, Store, Tx, asks_record, asks_rows, writes
from engram.paths import may_be_of, spellings_of
from engram.system.clock import DAY_MS

#: Maximum number of pauses that are stored; the oldest are dropped first.
MAX_PAUSES = 2_000
_PAUSES_KEY = "pauses"
#: The end of a pause without a time limit: the year 9999, in milliseconds since 1970.
FOREVER_MS = 253_370_764_800_000

#: Beginning and end, in milliseconds since 1970; the end is not included.
Span = tuple[int, int]


def pause(store: Store, scope: str, until_ms: int) -> None:
    """Stop reading, storing and injecting. ``scope`` is a project's identity, or "" for everything."""
    with store.transaction() as tx:
        tx.run(tables.Pause.insert(scope=scope, until_ms=until_ms).on_conflict_replace())
        # If the scope is already paused, the pause keeps its beginning.
        now, pauses = tx.now_ms(), _load(tx)
        going_on = [pause for pause in pauses if pause[0] == scope and pause[1] <= now < pause[2]]
        begun = min((pause[1] for pause in going_on), default=now)
        _save_pauses(tx, [*(pause for pause in pauses if pause not in going_on), (scope, begun, until_ms)])


def move_to_now(store: Store) -> None:
    """Let a current pause begin now if its beginning is in the future, because the clock was ahead and was corrected.

    It lasts as long as was asked for. If the clock was ahead by more than a day, what was said by it in the meantime is
    not read either, for at most a day.
    """
    if any(_not_begun(store)):
        with store.transaction() as tx:
            _move_to_now(tx)


def _not_begun(store: Reader) -> Iterator[tuple[str, int, int]]:
    """Yield the latest pause of each paused scope that has none at the present time."""
    now, pauses = store.now_ms(), _load(store)
    for scope in current_pauses(store):
        of_scope = [pause for pause in pauses if pause[0] == scope and now < pause[2]]
        if of_scope and all(now < begin for _, begin, _ in of_scope):
            yield max(of_scope, key=lambda pause: pause[1])


def _move_to_now(tx: Tx) -> None:
    now, pauses = tx.now_ms(), _load(tx)
    for scope, begin, end in list(_not_begun(tx)):
        until_ms = end if end == FOREVER_MS else now + end - begin
        pauses.remove((scope, begin, end))
        by_wrong_clock = [(scope, begin, min(end, begin + DAY_MS))] if begin > now + DAY_MS else []
        pauses += [*by_wrong_clock, (scope, now, until_ms)]
        tx.run(tables.Pause.insert(scope=scope, until_ms=until_ms).on_conflict_replace())
    _save_pauses(tx, pauses)


def resume(store: Store, scope: str) -> int:
    """End a pause; return when it would have ended, in milliseconds since 1970, or 0 if there was none."""
    with store.transaction() as tx:
        _move_to_now(tx)
        now, scopes = tx.now_ms(), spellings_of(scope)
        ended = [
            (paused, begin, min(end, now) if paused in scopes and begin <= now + DAY_MS else end)
            for paused, begin, end in _load(tx)
        ]
        _save_pauses(tx, ended)
        ends = [until_ms for paused, until_ms in current_pauses(tx).items() if paused in scopes]
        tx.run(tables.Pause.delete().where(tables.Pause.scope.in_(scopes)))
    return max(ends, default=0)


def paused_scopes(store: Reader) -> frozenset[str]:
    """Return the scopes that are paused, with every spelling of a project's identity."""
    return frozenset(spelling for scope in current_pauses(store) for spelling in spellings_of(scope))


def is_paused(store: Reader, identity: str) -> bool:
    """Return True if everything is paused, or a project to which text with this identity belongs or may belong."""
    return any(not scope or may_be_of(identity, scope) for scope in current_pauses(store))


def current_pauses(store: Reader) -> dict[str, int]:
    """Return scope → end of its pause, in milliseconds since 1970, sorted by scope."""
    return _pauses_at(store, store.now_ms())


@asks_rows(lambda rows: {str(row.scope): int(row.until_ms) for row in rows})
def _pauses_at(now_ms: int) -> Query:
    pause = tables.Pause
    return pause.select(pause.scope, pause.until_ms).where(pause.until_ms > now_ms).order_by(pause.scope)


def pauses_of(store: Reader, scope: str | None) -> list[Span]:
    """Return when a scope was or is paused, including pauses of everything; for None, only the latter."""
    return [(begin, end) for paused, begin, end in _load(store) if not paused or (scope and may_be_of(scope, paused))]


def carry_pauses(tx: Tx, source: Store, *, is_newer: bool) -> None:
    """Add the pauses of another database. For a pause that both have, the newer database's end applies."""
    here = {(scope, begin): end for scope, begin, end in _load(tx)}
    there = {(scope, begin): end for scope, begin, end in _load(source)}
    both = here | there if is_newer else there | here
    _save_pauses(tx, sorted(((scope, begin, end) for (scope, begin), end in both.items()), key=lambda pause: pause[1]))
    table, now = tables.Pause, tx.now_ms()
    for row in source.fetch(table.select(table.scope, table.until_ms)):
        tx.run(table.insert(scope=row.scope, until_ms=row.until_ms).on_conflict_ignore())
    for scope in {scope for scope, _ in both}:
        tx.run(table.delete().where(table.scope == scope))
        until = [end for (paused, begin), end in both.items() if paused == scope and begin <= now < end]
        if until:
            tx.run(table.insert(scope=scope, until_ms=max(until)))


def copy_pauses(tx: Tx, source: Reader, scopes: Mapping[str, str]) -> None:
    """Add another database's pauses of some scopes, each under the scope that it has here.

    If everything is paused here for at least as long as in the source, the source's pause of everything ends now in
    the copy, because the pause here covers the rest.
    """
    table, here, now = tables.Pause, current_pauses(tx), tx.now_ms()

    def is_part(paused: str, until_ms: int) -> bool:
        return not paused and until_ms <= here.get("", 0)

    copied = [
        (scopes[paused], begin, min(end, now) if is_part(paused, end) else end)
        for paused, begin, end in _load(source)
        if paused in scopes
    ]
    _save_pauses(tx, sorted({*_load(tx), *copied}, key=lambda pause: pause[1]))
    for paused, until_ms in current_pauses(source).items():
        if paused in scopes and until_ms > here.get(scopes[paused], 0) and not is_part(paused, until_ms):
            tx.run(table.insert(scope=scopes[paused], until_ms=until_ms).on_conflict_replace())


def drop_pauses(tx: Tx, scopes: Collection[str]) -> None:
    """Delete the current and past pauses of scopes that have moved to another memory."""
    _save_pauses(tx, [pause for pause in _load(tx) if pause[0] not in scopes])
    tx.run(tables.Pause.delete().where(tables.Pause.scope.in_(sorted(scopes))))


def move_pauses(tx: Tx, scope: str, to_scope: str) -> None:
    """Assign the pauses of one scope to another one, because the two have become one project."""
    scopes = spellings_of(scope)
    _save_pauses(tx, [(to_scope if paused in scopes else paused, begin, end) for paused, begin, end in _load(tx)])


def _load(store: Reader) -> list[tuple[str, int, int]]:
    """Return (scope, begin, end) of every pause."""
    stored = json.loads(get_meta(store, _PAUSES_KEY) or "[]")
    return [(str(scope), int(begin), int(end)) for scope, begin, end in stored]


def _save_pauses(tx: Tx, pauses: list[tuple[str, int, int]]) -> None:
    put_meta(tx, _PAUSES_KEY, json.dumps([pause for pause in pauses if pause[1] < pause[2]][-MAX_PAUSES:]))


# -- Due work.


class WorkKind(StrEnum):
    """The kinds of work for a session. The task that does it has the same name, and gets the session's id."""

    EXTRACT = "extract"
    RECOLLECT = "recollect"


class WorkState(StrEnum):
    """How far a piece of work has got."""

    DUE = "due"
    DONE = "done"
    #: Set aside after too many failures; ``engram tasks retry`` makes it due again.
    DEAD = "dead"


#: Seconds until the next attempt after the first, second, third and each further failure.
BACK_OFF_SECONDS = (15, 30, 60, 120)

#: Reason of an extraction before which the session's daily log must be written, even if no memories are made.
LOG_IS_DUE = "sorted"

#: Longest delay, in milliseconds. A due time farther in the future was stored before the clock was set back.
MAX_DELAY_MS = 86_400_000

#: Maximum length of an error that is kept, in characters.
MAX_ERROR_CHARS = 500

#: Scope of a pause of work: transcripts are still read, but no due work is started.
TASKS_SCOPE = "tasks"


@dataclass(frozen=True, slots=True)
class Work:
    id: int
    #: A ``WorkKind``; text, because a later version may have stored an unknown kind.
    kind: str
    #: The id of the session that it is about.
    key: str
    state: WorkState
    due_at_ms: int
    attempts: int
    #: Incremented by every change that makes it due; ``finish`` compares it.
    version: int
    last_error: str
    reason: str
    updated_at_ms: int


_WORK = RecordReader(Work, tables.Work, readers={"state": WorkState})


def make_due(tx: Tx, kind: str, key: str, due_at_ms: int, reason: str = "") -> None:
    """Make work due at a time, unless it is due earlier. Call this in the transaction that causes the work.

    Raises:
        ValueError: the kind is not a ``WorkKind``.
    """
    _make_due(tx, WorkKind(kind).value, key, due_at_ms, reason, tx.now_ms())


def postpone(tx: Tx, kind: str, key: str, due_at_ms: int) -> None:
    """Change when work that has not failed is due; create the work if there is none."""
    make_due(tx, kind, key, due_at_ms)
    waiting = (tables.Work.kind == kind) & (tables.Work.key == key) & (tables.Work.attempts == 0)
    tx.run(tables.Work.update(due_at_ms=due_at_ms).where(waiting))


def work_by_id(store: Reader, work_id: int) -> Work | None:
    return store.fetch_record(_WORK, _WORK.select().where(tables.Work.id == work_id))


def is_work_paused(store: Reader) -> bool:
    """Return True while the user has paused work (``engram tasks pause``)."""
    return TASKS_SCOPE in paused_scopes(store)


def due_work(store: Reader, limit: int = 1000) -> list[Work]:
    """Return the work that is due now, oldest first; none while work is paused."""
    if is_work_paused(store):
        return []
    now, work = store.now_ms(), tables.Work
    is_time = (work.due_at_ms <= now) | (work.due_at_ms > now + MAX_DELAY_MS)
    query = _WORK.select().where((work.state == WorkState.DUE.value) & is_time).order_by(work.due_at_ms)
    return store.fetch_records(_WORK, query.limit(limit))


def list_work(store: Reader, states: tuple[WorkState, ...] = (WorkState.DUE, WorkState.DEAD)) -> list[Work]:
    query = _WORK.select().where(tables.Work.state.in_([state.value for state in states]))
    return store.fetch_records(_WORK, query.order_by(tables.Work.due_at_ms))


def finish(tx: Tx, work: Work) -> bool:
    """Mark work as done; return False, and leave it due, if it has been made due again in the meantime."""
    done = tables.Work.update(state=WorkState.DONE.value, attempts=0, last_error="", updated_at_ms=tx.now_ms())
    return tx.run(done.where((tables.Work.id == work.id) & (tables.Work.version == work.version))) == 1


def fail(store: Store, work: Work, error: str, *, max_attempts: int = 0, free: int = 0) -> WorkState:
    """Count a failed attempt, if the work is still due.

    The work is due again immediately for the first ``free`` failures, then after a delay, and dead after
    ``max_attempts`` (0: never).
    """
    attempts = work.attempts + 1
    state = WorkState.DEAD if max_attempts and attempts >= max_attempts else WorkState.DUE
    wait_seconds = 0 if attempts <= free else BACK_OFF_SECONDS[min(attempts - free, len(BACK_OFF_SECONDS)) - 1]
    with store.transaction() as tx:
        now = tx.now_ms()
        query = tables.Work.update(
            state=state.value,
            attempts=attempts,
            last_error=error[:MAX_ERROR_CHARS],
            due_at_ms=now + wait_seconds * 1000,
            updated_at_ms=now,
        )
        tx.run(query.where((tables.Work.id == work.id) & (tables.Work.state == WorkState.DUE.value)))
    return state


def retry(store: Store, work_id: int) -> bool:
    """Make work due now, even if it is dead; return False if there is no such work."""
    with store.transaction() as tx:
        now = tx.now_ms()
        query = tables.Work.update(
            state=WorkState.DUE.value, attempts=0, due_at_ms=now, version=tables.Work.version + 1, updated_at_ms=now
        )
        return tx.run(query.where(tables.Work.id == work_id)) == 1


def cancel(store: Store, work_id: int) -> bool:
    """Mark work as done without doing it. The next change makes it due again."""
    with store.transaction() as tx:
        query = tables.Work.update(state=WorkState.DONE.value, updated_at_ms=tx.now_ms())
        return tx.run(query.where(tables.Work.id == work_id)) == 1


def put_back(store: Store, before: Work, *, version: int) -> bool:
    """Undo ``retry`` or ``cancel``; return False if the work has since been begun, finished or made due.

    Args:
        before: the work as it was before.
        version: the work's version after the retry or the cancellation.
    """
    table = tables.Work
    state = WorkState.DUE if version > before.version else WorkState.DONE
    with store.transaction() as tx:
        query = table.update(
            state=before.state.value, due_at_ms=before.due_at_ms, attempts=before.attempts, updated_at_ms=tx.now_ms()
        )
        is_untouched = (table.version == version) & (table.state == state.value)
        if version > before.version:
            is_untouched &= table.attempts == 0
        return tx.run(query.where((table.id == before.id) & is_untouched)) == 1


@writes
def _make_due(kind: str, key: str, due_at_ms: int, reason: str, now_ms: int) -> Query:
    work = tables.Work
    is_waiting = work.state == WorkState.DUE.value
    has_failed = is_waiting & (work.attempts > 0)
    return work.insert(
        kind=kind, key=key, state=WorkState.DUE.value, due_at_ms=due_at_ms, reason=reason, updated_at_ms=now_ms
    ).on_conflict(
        conflict_target=(work.kind, work.key),
        update={
            work.version: work.version + 1,
            work.updated_at_ms: EXCLUDED.updated_at_ms,
            work.reason: EXCLUDED.reason,
            work.attempts: Case(None, [(is_waiting, work.attempts)], 0),
            # Failed work keeps its delay; other due work keeps an earlier time.
            work.due_at_ms: Case(
                None,
                [
                    (has_failed, fn.MAX(work.due_at_ms, EXCLUDED.due_at_ms)),
                    (is_waiting, fn.MIN(work.due_at_ms, EXCLUDED.due_at_ms)),
                ],
                EXCLUDED.due_at_ms,
            ),
            work.state: Case(None, [(work.state == WorkState.DEAD.value, WorkState.DEAD.value)], WorkState.DUE.value),
        },
    )


@asks_record(_WORK)
def find_work(kind: str, key: str) -> Query:
    return _WORK.select().where((tables.Work.kind == kind) & (tables.Work.key == key))


# -- Leases: which process may do periodic work, and when it was last done.


def take_lease(store: Store, name: str, owner: str, seconds: float, *, every_seconds: float = 0) -> bool:
    """Take the lease of periodic work; return False if it is held, or within ``every_seconds`` of the last run.

    The holder can't take it again, because a second thread of the same process has the same name; ``renew_lease``
    extends it. If the clock was set back, an old lease is ignored.
    """
    table = tables.Lease
    with store.transaction() as tx:
        now = tx.now_ms()
        until_ms = now + int(seconds * 1000)
        lease = tx.fetch_first(_lease(name))
        if lease is not None:
            if lease.owner and now < lease.until_ms <= until_ms:
                return False
            if lease.last_run_ms <= now < lease.last_run_ms + int(every_seconds * 1000):
                return False
        changes = {table.owner: owner, table.until_ms: until_ms}
        insert = table.insert({table.name: name, table.last_run_ms: 0, **changes})
        tx.run(insert.on_conflict(conflict_target=(table.name,), update=changes))
    return True


def renew_lease(store: Store, name: str, owner: str, seconds: float) -> bool:
    """Extend a lease to ``seconds`` from now.

    Return False if another process has taken it; then the work must stop.
    """
    with store.transaction() as tx:
        query = tables.Lease.update(until_ms=tx.now_ms() + int(seconds * 1000))
        return tx.run(query.where(_is_held_by(name, owner))) == 1


def release_lease(store: Store, name: str, owner: str, *, has_run: bool = True) -> None:
    """Release a lease; with ``has_run``, record the time of the run."""
    with store.transaction() as tx:
        changes = {"owner": "", "until_ms": 0} | ({"last_run_ms": tx.now_ms()} if has_run else {})
        tx.run(tables.Lease.update(**changes).where(_is_held_by(name, owner)))


class HeldLease:
    """A lease that is held during long work. It is a context manager, which releases the lease at the end."""

    def __init__(
        self, store: Store, name: str, owner: str, seconds: float, is_stopping: Callable[[], bool] = lambda: False
    ) -> None:
        """Hold a lease that has been taken. ``is_stopping`` returns True if the work should stop at its next step."""
        self._store, self._name, self._owner, self._seconds = store, name, owner, seconds
        self._is_stopping = is_stopping
        self._renewed_at = store.clock.steady_seconds()

    def __enter__(self) -> HeldLease:
        return self

    def __exit__(self, *_: object) -> None:
        release_lease(self._store, self._name, self._owner)

    def goes_on(self) -> bool:
        """Return False if the work should stop or another process holds the lease.

        Otherwise, extend the lease if necessary.
        """
        if self._is_stopping():
            return False
        now = self._store.clock.steady_seconds()
        if now - self._renewed_at > self._seconds / 4:
            self._renewed_at = now
            return renew_lease(self._store, self._name, self._owner, self._seconds)
        return True


def drop_lease(store: Store, name: str, owner: str) -> None:
    """Release the lease of a process that has exited, keeping the time of the last run; delete it if there was none."""
    with store.transaction() as tx:
        tx.run(tables.Lease.delete().where(_is_held_by(name, owner) & (tables.Lease.last_run_ms == 0)))
        tx.run(tables.Lease.update(owner="", until_ms=0).where(_is_held_by(name, owner)))


def lease_owners(store: Reader) -> dict[str, str]:
    """Return name → owner, for the leases that are held."""
    rows = store.fetch(tables.Lease.select().where(tables.Lease.owner != ""))
    return {row.name: row.owner for row in rows}


def last_run_ms(store: Reader, name: str) -> int:
    """Return when periodic work last ran, in milliseconds since 1970; 0 if never."""
    lease = store.fetch_first(_lease(name))
    return 0 if lease is None else int(lease.last_run_ms)


def is_overdue(store: Reader, name: str, every_seconds: float) -> bool:
    """Return True if periodic work is due: it never ran, ran too long ago, or its last run is in the future."""
    since_ms = store.now_ms() - last_run_ms(store, name)
    return not 0 <= since_ms < int(every_seconds * 1000)


def _is_held_by(name: str, owner: str) -> Expression:
    return (tables.Lease.name == name) & (tables.Lease.owner == owner)


@prepared
def _lease(name: str) -> Query:
    return tables.Lease.select().where(tables.Lease.name == name)


# -- Decide what is old, although the clock may be temporarily wrong.

_CLOCK_KEY = "clocks"
#: Minimum difference between the wall clock and the steady clock that counts as a jump, and how long a jump ahead is
#: distrusted, in milliseconds. Without a jump, the clocks are recorded once per minimum jump.
_JUMP_MS, _DOUBT_MS = 3_600_000, 86_400_000


def settled_ms(store: Reader) -> int:
    """Return the current time for deciding what is old enough to archive or delete, in milliseconds since 1970.

    This is the wall clock without its jumps ahead in the last 24 hours since the machine started. Otherwise, a clock
    that is a year ahead for a moment would make everything old.
    """
    return store.now_ms() - sum(by for _, by in _compare_clocks(store)[0])


def watch_clock(store: Store) -> None:
    """Record the wall clock and the steady clock, so that ``settled_ms`` can detect a jump between them."""
    known, noted = get_meta(store, _CLOCK_KEY), _compare_clocks(store)
    jumps, _, steady = json.loads(known) if known else ([], 0, 0)
    if known is None or noted[0] != jumps or not 0 <= noted[2] - steady < _JUMP_MS:
        with store.transaction() as tx:
            put_meta(tx, _CLOCK_KEY, json.dumps(noted))


def _compare_clocks(store: Reader) -> tuple[list[list[int]], int, int]:
    """Return the jumps ahead that are still distrusted, and the current values of the wall clock and the steady clock.

    A jump is stored as its time by the steady clock, and its length. Each expires after its own 24 hours, because a
    virtual machine that is suspended every night would otherwise fall behind for good. A jump back cancels the latest
    jumps ahead.
    """
    wall, steady = store.now_ms(), int(store.clock.steady_seconds() * 1000)
    known = get_meta(store, _CLOCK_KEY)
    jumps, wall_then, steady_then = json.loads(known) if known else ([], wall, steady)
    if steady < steady_then:  # the machine was restarted
        return [], wall, steady
    jump = (wall - wall_then) - (steady - steady_then)
    if jump >= _JUMP_MS:
        jumps.append([steady, jump])
    while jump <= -_JUMP_MS and jumps:
        at, by = jumps.pop()
        if by + jump > 0:
            jumps.append([at, by + jump])
        jump += by
    return [[at, by] for at, by in jumps if steady - at < _DOUBT_MS], wall, steady
