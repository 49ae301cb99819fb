"""Marks of what a worker is at, so that work which kills its process is found, put off and in the end set aside."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator

from engram.errors import StoreError
from engram.models.leases import drop_lease, lease_owners, take_lease
from engram.models.store import Store
from engram.models.work import find_work, note_crash

#: What the name of a mark begins with; the rest is the kind of work and its key.
_PREFIX = "at "
#: How long a mark counts, in seconds; a worker that is killed leaves it behind.
_SECONDS = 86_400
#: So often a piece of work may end its process before it is set aside.
MAX_CRASHES = 12
#: So often that is taken for chance, and the work is tried again at once.
FREE_CRASHES = 5


@contextlib.contextmanager
def in_progress(store: Store, kind: str, key: str) -> Iterator[None]:
    """Mark that this process is at a piece of work; a database that cannot be written is no reason not to do it."""
    name, owner = f"{_PREFIX}{kind} {key}", f"{os.getpid()}-mark"
    with contextlib.suppress(StoreError):
        take_lease(store, name, owner, _SECONDS)
    try:
        yield
    finally:
        with contextlib.suppress(StoreError):
            drop_lease(store, name, owner)


def running(store: Store) -> list[tuple[str, str]]:
    """(kind, key) of what living workers are at."""
    return [
        _work_of(name) for name, owner in lease_owners(store).items() if name.startswith(_PREFIX) and _is_alive(owner)
    ]


def clear_dead_leases(store: Store) -> None:
    """Give back what killed workers held, and note the work that they were at. With the worker's lock held."""
    for name, owner in lease_owners(store).items():
        # A process that starts holds nothing yet: its own id belonged to another one before.
        if _is_alive(owner) and owner.partition("-")[0] != str(os.getpid()):
            continue
        drop_lease(store, name, owner)
        work = find_work(store, *_work_of(name)) if name.startswith(_PREFIX) else None
        if work is not None:
            reason = "the worker was killed or crashed while at it"
            note_crash(store, work, reason, free=FREE_CRASHES, max_attempts=MAX_CRASHES)


def _work_of(name: str) -> tuple[str, str]:
    kind, _, key = name.removeprefix(_PREFIX).partition(" ")
    return kind, key


def _is_alive(owner: str) -> bool:
    """True where the process of an owner may still run, or cannot be told."""
    pid = owner.partition("-")[0]
    if not pid.isdigit():
        return True
    try:
        os.kill(int(pid), 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return True
