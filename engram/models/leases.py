"""Leases: which process may do a periodic piece of work, and when that was last done."""

from __future__ import annotations

from collections.abc import Callable

from peewee import EXCLUDED, Expression, Query

from engram.models import tables
from engram.models.statement import prepared
from engram.models.store import Store
from engram.models.transaction import Reader


def take_lease(store: Store, name: str, owner: str, seconds: float, *, every_seconds: float = 0) -> bool:
    """Take the lease of periodic work; False while it is held or the last run is younger than ``every_seconds``.

    Who holds it doesn't get it again: a second thread of one process has the same name. ``renew_lease`` prolongs it. A
    clock that went back never keeps a lease away for longer than it lasts.
    """
    with store.transaction() as tx:
        now = tx.now_ms()
        until_ms = now + int(seconds * 1000)
        lease = tx.fetch_first(_lease(name))
        if lease is not None:
            if lease.owner and now < lease.until_ms <= until_ms:
                return False
            if lease.last_run_ms <= now < lease.last_run_ms + int(every_seconds * 1000):
                return False
        tx.run(_take(name, owner, until_ms))
    return True


def renew_lease(store: Store, name: str, owner: str, seconds: float) -> bool:
    """Hold a lease for ``seconds`` from now on; False where another one took it meanwhile: stop the work then."""
    with store.transaction() as tx:
        query = tables.Lease.update(until_ms=tx.now_ms() + int(seconds * 1000))
        return tx.run(query.where(_is_held_by(name, owner))) == 1


def release_lease(store: Store, name: str, owner: str, *, has_run: bool = True) -> None:
    """Give a lease back; ``has_run`` notes the time of the run."""
    with store.transaction() as tx:
        changes = {"owner": "", "until_ms": 0} | ({"last_run_ms": tx.now_ms()} if has_run else {})
        tx.run(tables.Lease.update(**changes).where(_is_held_by(name, owner)))


class HeldLease:
    """A lease that long work holds while it goes on. Use it as a context manager; release it with the context."""

    def __init__(
        self, store: Store, name: str, owner: str, seconds: float, is_stopping: Callable[[], bool] = lambda: False
    ) -> None:
        """Hold a lease that was taken.

        Args:
            store: the open memory.
            name: the lease.
            owner: who took it.
            seconds: how long it lasts without a step of the work.
            is_stopping: says that the work is to end at its next step.
        """
        self._store, self._name, self._owner, self._seconds = store, name, owner, seconds
        self._is_stopping = is_stopping
        self._renewed_at = store.clock.steady_seconds()

    def __enter__(self) -> HeldLease:
        return self

    def __exit__(self, *_: object) -> None:
        release_lease(self._store, self._name, self._owner)

    def goes_on(self) -> bool:
        """Prolong the lease now and then; False where the work is to stop, or another one holds the lease."""
        if self._is_stopping():
            return False
        now = self._store.clock.steady_seconds()
        if now - self._renewed_at > self._seconds / 4:
            self._renewed_at = now
            return renew_lease(self._store, self._name, self._owner, self._seconds)
        return True


def drop_lease(store: Store, name: str, owner: str) -> None:
    """Take a lease from an owner that is gone; its last run stays as it is, one that never ran leaves nothing."""
    with store.transaction() as tx:
        tx.run(tables.Lease.delete().where(_is_held_by(name, owner) & (tables.Lease.last_run_ms == 0)))
        tx.run(tables.Lease.update(owner="", until_ms=0).where(_is_held_by(name, owner)))


def lease_owners(store: Reader) -> dict[str, str]:
    """Name of a lease → its owner, for those that are held."""
    rows = store.fetch(tables.Lease.select().where(tables.Lease.owner != ""))
    return {row.name: row.owner for row in rows}


def last_run_ms(store: Reader, name: str) -> int:
    """When periodic work last ran; 0 for never."""
    lease = store.fetch_first(_lease(name))
    return 0 if lease is None else int(lease.last_run_ms)


def is_overdue(store: Reader, name: str, every_seconds: float) -> bool:
    """True where periodic work is to run again: its last run is long ago, never was, or lies in the future."""
    since_ms = store.now_ms() - last_run_ms(store, name)
    return not 0 <= since_ms < int(every_seconds * 1000)


def _is_held_by(name: str, owner: str) -> Expression:
    return (tables.Lease.name == name) & (tables.Lease.owner == owner)


@prepared
def _lease(name: str) -> Query:
    return tables.Lease.select().where(tables.Lease.name == name)


@prepared
def _take(name: str, owner: str, until_ms: int) -> Query:
    return tables.Lease.insert(name=name, owner=owner, until_ms=until_ms, last_run_ms=0).on_conflict(
        conflict_target=(tables.Lease.name,),
        update={tables.Lease.owner: EXCLUDED.owner, tables.Lease.until_ms: EXCLUDED.until_ms},
    )
