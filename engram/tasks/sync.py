"""Task ``sync()``: make a round with every hub that was joined. One process at a time; a hub that fails waits."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from engram.tasks.queue import huey

if TYPE_CHECKING:
    from engram.tasks.runtime import Runtime

#: How long a round may hold its lease, in seconds: a first one may move 100,000 memories.
LEASE_SECONDS = 600


@huey.task(name="sync", priority=0)
def sync() -> None:
    """Pull what other machines said, push what was said here."""
    from engram.models.task_runs import NOTHING
    from engram.tasks.boundary import run_guarded
    from engram.tasks.embed import embed
    from engram.tasks.runtime import current_runtime

    runtime = current_runtime()

    def sync_and_embed() -> str:
        outcome, has_changed = sync_under_lease(runtime)
        if has_changed:
            runtime.refresh_index()
            embed()
        return outcome or NOTHING

    run_guarded(runtime, "sync", "", sync_and_embed, stage="hub")


def sync_under_lease(runtime: Runtime, *, is_forced: bool = False) -> tuple[str, bool]:
    """Make the rounds that are due; returns what they did, and whether memories changed here.

    Returns ("", False) while another process makes one, and where no hub was joined.
    """
    from engram.hub.client.rounds import sync_all
    from engram.models.hub_spaces import list_servers
    from engram.models.leases import release_lease, take_lease
    from engram.models.stages import note_failure, note_success

    store = runtime.store
    owner = f"{os.getpid()}-{id(runtime)}"
    if not list_servers(store) or not take_lease(store, "sync", owner, LEASE_SECONDS):
        return "", False
    try:
        rounds = sync_all(store, runtime.settings.places, runtime.redact, is_forced=is_forced)
    finally:
        release_lease(store, "sync", owner)
    errors = [done.error for done in rounds if done.error]
    if errors:
        note_failure(store, "hub", "; ".join(errors))
    elif any(done.did_something for done in rounds):
        rows = sum(done.pulled + done.pushed for done in rounds)
        note_success(store, "hub", seen=rows, done=rows)
    told = [f"{done.pulled} pulled, {done.pushed} pushed" for done in rounds if done.did_something]
    return "; ".join([*told, *errors]), any(done.changed for done in rounds)
