"""Task ``sync()``: make a round with every hub that was joined. One process at a time; a hub that fails waits.

Rounds have a thread of their own (``runtime.hub_executor``): however long a hub takes, the threads of the worker go on
making memories. What is asked for while a round goes on is one more round.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING

from engram.tasks.queue import huey

if TYPE_CHECKING:
    from engram.hub.client.connection import Limits
    from engram.models.leases import HeldLease
    from engram.models.store import Store
    from engram.tasks.runtime import Runtime

#: How long a round holds its lease without a step, in seconds: longer than one request may take.
LEASE_SECONDS = 300


@huey.task(name="sync", priority=0)
def sync() -> None:
    """Pull what other machines said, push what was said here."""
    from engram.tasks.runtime import current_runtime

    run_sync(current_runtime())


def run_sync(runtime: Runtime, limits: Limits | None = None) -> None:
    """Make the rounds that are due, after a round that goes on now; returns at once."""
    from engram.models.task_runs import NOTHING
    from engram.tasks.boundary import run_guarded
    from engram.tasks.embed import embed

    def sync_and_embed() -> str:
        outcome, has_changed = sync_under_lease(runtime, limits=limits)
        if has_changed:
            runtime.refresh_index()
            embed()
        return outcome or NOTHING

    runtime.hub_executor.run("sync", lambda: run_guarded(runtime, "sync", "", sync_and_embed, stage="hub"))


def sync_under_lease(runtime: Runtime, *, is_forced: bool = False, limits: Limits | None = None) -> tuple[str, bool]:
    """Make the rounds that are due; returns what they did, and whether memories changed here.

    Returns ("", False) while another process or thread makes one, and where no hub was joined.
    """
    from engram.hub.client.connection import LIMITS
    from engram.hub.client.rounds import sync_all
    from engram.models.hub_spaces import list_servers
    from engram.models.stages import note_failure, note_success

    store = runtime.store
    if not list_servers(store):
        return "", False
    lease = take_sync_lease(store, lambda: runtime.hub_executor.is_closed)
    if lease is None:
        return "", False
    with lease:
        rounds = sync_all(
            store,
            runtime.settings.places,
            runtime.redact,
            is_forced=is_forced,
            limits=limits or LIMITS,
            goes_on=lease.goes_on,
        )
    errors = [done.error for done in rounds if done.error]
    if errors:
        note_failure(store, "hub", "; ".join(errors))
    elif any(done.did_something for done in rounds):
        rows = sum(done.pulled + done.pushed for done in rounds)
        note_success(store, "hub", seen=rows, done=rows)
    if any(done.is_unfinished and done.did_something for done in rounds):
        sync()
    told = [f"{done.pulled} pulled, {done.pushed} pushed" for done in rounds if done.did_something]
    return "; ".join([*told, *errors]), any(done.changed for done in rounds)


def take_sync_lease(store: Store, is_stopping: Callable[[], bool] = lambda: False) -> HeldLease | None:
    """Take the lease of rounds for this thread; None while another thread or process makes rounds.

    One that a killed process held is free at once.
    """
    from engram.models.leases import HeldLease, drop_lease, lease_owners, take_lease
    from engram.tasks.crash_recovery import is_owner_gone

    owner = f"{os.getpid()}-{threading.get_ident()}"
    holder = lease_owners(store).get("sync", "")
    if holder and is_owner_gone(holder):
        drop_lease(store, "sync", holder)
    if not take_lease(store, "sync", owner, LEASE_SECONDS):
        return None
    return HeldLease(store, "sync", owner, LEASE_SECONDS, is_stopping)
