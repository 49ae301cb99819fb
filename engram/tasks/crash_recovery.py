"""What a killed worker leaves behind: leases are given back, and work that kills its process is set aside in the
end.
"""

from __future__ import annotations

import os

from engram.models.leases import drop_lease, lease_owners
from engram.models.store import Store
from engram.models.task_runs import interrupt_task_runs
from engram.models.work import find_work, note_crash
from engram.process_lock import is_process_alive

#: Crashes of a piece of work after which it is set aside.
MAX_CRASHES = 12
#: Crashes that are taken for chance: the work is tried again immediately.
FREE_CRASHES = 5


def recover_from_crash(store: Store) -> None:
    """Give back the leases of dead processes, and postpone the work that they ran. With the worker's lock held."""
    for name, owner in lease_owners(store).items():
        if not _is_living_other(_pid_of(owner)):
            drop_lease(store, name, owner)
    for run in interrupt_task_runs(store, _is_living_other):
        work = find_work(store, run.kind, run.key)
        if work is not None:
            reason = "the worker was killed or crashed during this work"
            note_crash(store, work, reason, free=FREE_CRASHES, max_attempts=MAX_CRASHES)


def is_owner_gone(owner: str) -> bool:
    """True where the process that took a lease has ended."""
    return not is_process_alive(_pid_of(owner))


def _is_living_other(pid: int) -> bool:
    """True if another process of this id is alive.

    A process that starts holds nothing yet: if something bears its own id, an earlier process had that id.
    """
    return pid != os.getpid() and is_process_alive(pid)


def _pid_of(owner: str) -> int:
    """Return the process id of a lease's owner; 0, which counts as alive, if there is none in it."""
    pid = owner.partition("-")[0]
    return int(pid) if pid.isdigit() else 0
