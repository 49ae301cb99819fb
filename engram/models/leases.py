"""Leases: which process may do a periodic piece of work, and when that was last done."""

from __future__ import annotations

from peewee import EXCLUDED, Expression, Query

from engram.models import tables
from engram.models.statement import prepared
from engram.models.store import Store
from engram.models.transaction import Reader


def take_lease(store: Store, name: str, owner: str, seconds: float, *, every_seconds: float = 0) -> bool:
    """Take the lease of periodic work; False while another holds it or the last run is younger than ``every_seconds``.

    A clock that went back never keeps a lease away for longer than it lasts.
    """
    with store.transaction() as tx:
        now = tx.now_ms()
        until_ms = now + int(seconds * 1000)
        lease = tx.fetch_first(_lease(name))
        if lease is not None:
            if lease.owner and lease.owner != owner and now < lease.until_ms <= until_ms:
                return False
            if lease.last_run_ms <= now < lease.last_run_ms + int(every_seconds * 1000):
                return False
        tx.run(_take(name, owner, until_ms))
    return True


def release_lease(store: Store, name: str, owner: str, *, has_run: bool = True) -> None:
    """Give a lease back; ``has_run`` notes the time of the run."""
    with store.transaction() as tx:
        changes = {"owner": "", "until_ms": 0} | ({"last_run_ms": tx.now_ms()} if has_run else {})
        tx.run(tables.Lease.update(**changes).where(_is_held_by(name, owner)))


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
