"""Checks of the running processes: do they make progress, and with the installed code and the current settings?"""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

from engram.doctor.machine import Machine
from engram.heartbeat import MAX_SILENCE_SECONDS
from engram.models.vectors import count_vectors_by_model
from engram.reports.checks import Check, State
from engram.reports.processes import ProcessState, process_state
from engram.version import code_version
from engram.worker.client import WorkerStatus, ask_status

#: How long a silent process is given to show a heartbeat, in seconds: a laptop that just woke up needs a moment.
PATIENCE_SECONDS = 7.0
_POLL_SECONDS = 0.1
_RESTART = "run: engram service restart (or stop and start `engram up`)"


def check_processes(machine: Machine) -> Iterator[Check]:
    """Check the heartbeat and the code of the processes that run."""
    for name, lock in (("watcher", machine.home.watcher_lock), ("worker", machine.home.worker_lock)):
        state = process_state(lock)
        if not state.is_alive:
            continue
        if _hangs(lock, state):
            yield Check(
                f"{name}'s heartbeat",
                State.BAD,
                f"the {name} (pid {state.pid}) has done nothing for {state.silent_seconds:.0f} s: it hangs",
                _RESTART,
                command="engram service restart",
                fix="restart",
                public=f"stale for {state.silent_seconds:.0f} s",
            )
        elif state.code != code_version():
            runs = state.code or "another version, which does not say which"
            yield Check(
                f"{name}'s version",
                State.WARN,
                f"the {name} (pid {state.pid}) runs {runs}, and {code_version()} is installed",
                "run: engram install, which ends it and starts this version",
                command="engram install",
                fix="end-others",
                public=f"runs {state.code or 'unknown'}, installed is {code_version()}",
            )


def check_worker(machine: Machine) -> Iterator[Check]:
    """Check that the worker answers, has the current settings, and that the vectors are of its model."""
    if not process_state(machine.home.worker_lock).is_alive:
        return
    status = ask_status(machine.home)
    if status is None:
        yield Check(
            "worker's answers",
            State.WARN,
            "the worker does not answer on engram.sock: it is starting, or it hangs",
            f"wait a minute; then {_RESTART}",
            command="engram service restart",
            public="silent",
        )
        return
    if _is_older_than_settings(machine, status):
        yield Check(
            "worker's settings",
            State.WARN,
            f"{machine.home.config_file} was changed after the worker started",
            _RESTART,
            command="engram service restart",
            fix="restart",
            public="older than config.toml",
        )
    yield from _check_vectors(machine, status)


def _check_vectors(machine: Machine, status: WorkerStatus) -> Iterator[Check]:
    """Check that every vector is of the model that the worker uses; others are not searched."""
    if status.reason:
        yield Check("model", State.WARN, status.reason, "see the log with: engram logs worker")
    if machine.store is None or not status.model:
        return
    others = {name: count for name, count in count_vectors_by_model(machine.store).items() if name != status.model}
    if others:
        listed = ", ".join(f"{count} of {name}" for name, count in sorted(others.items()))
        yield Check(
            "vectors",
            State.WARN,
            f"the model is {status.model}, but there are vectors of another one: {listed}. They are made anew",
            "wait until `engram status` shows no texts without a vector. To go back, set embedding_model again",
            command="engram status",
            public=f"{sum(others.values())} of another model",
        )


def _hangs(lock: Path, state: ProcessState) -> bool:
    """True if the process shows no heartbeat even after a moment."""
    until = time.monotonic() + PATIENCE_SECONDS
    while state.is_alive and state.silent_seconds is not None and state.silent_seconds > MAX_SILENCE_SECONDS:
        if time.monotonic() > until:
            return True
        time.sleep(_POLL_SECONDS)
        state = process_state(lock)
    return False


def _is_older_than_settings(machine: Machine, status: WorkerStatus) -> bool:
    try:
        changed_at = machine.home.config_file.stat().st_mtime
    except OSError:
        return False
    return changed_at > time.time() - status.uptime_seconds + 1.0
