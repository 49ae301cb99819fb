"""The health of every stage, put together from the memory, the files and the locks.

What ``status``, ``doctor``, ``up``, ``memory_status`` and the briefing say about it comes from here alone.
"""

from __future__ import annotations

import contextlib
import stat
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from engram.clock import iso_time
from engram.models import counts, transcripts
from engram.models.stages import list_stages
from engram.models.store import Store
from engram.reports.processes import ProcessState, process_state
from engram.settings import Settings
from engram.transcripts.claude_code.discover import find_transcripts


@dataclass(frozen=True, slots=True)
class StageHealth:
    """How far one stage is."""

    seen: int
    done: int
    #: Seconds that the oldest thing waits which should be done by now; 0 where nothing waits.
    lag_seconds: float
    last_success_ms: int | None = None
    last_error: str = ""

    def as_json(self) -> dict[str, Any]:
        """For scripts."""
        return {
            "seen": self.seen,
            "done": self.done,
            "lag_seconds": round(self.lag_seconds, 1),
            "last_success": iso_time(self.last_success_ms) if self.last_success_ms else None,
            "last_error": self.last_error or None,
        }


@dataclass(frozen=True, slots=True)
class Unread:
    """What stands in the transcripts and was not read yet."""

    files: int
    bytes: int
    #: Seconds since the longest waiting file was changed; 0 where all is read.
    lag_seconds: float
    #: Files that there are.
    found: int


#: A stage that is further behind than this is worth a word, in seconds.
MAX_LAG_SECONDS = 600


@dataclass(frozen=True, slots=True)
class Trouble:
    """One thing that does not work as it should."""

    #: watcher, worker or the name of a stage.
    about: str
    #: What is wrong, and what follows from it.
    text: str
    #: What the user can do.
    advice: str
    #: False where it works but is late.
    is_broken: bool = True


@dataclass(frozen=True, slots=True)
class Vitals:
    """What decides whether memory works: the two processes, and how far each stage is."""

    worker: ProcessState
    watcher: ProcessState
    stages: dict[str, StageHealth]
    unread: Unread
    work: list[counts.WorkTotals]

    def troubles(self) -> list[Trouble]:
        """What is wrong, the processes first."""
        troubles = []
        for name, state, follows in (
            ("watcher", self.watcher, "new lines are not read"),
            ("worker", self.worker, "no memories are made, and hooks stay silent"),
        ):
            if not state.is_alive:
                troubles.append(Trouble(name, f"not running: {follows}", "start both: engram up"))
        for name, stage in self.stages.items():
            if stage.last_error:
                advice = f"look into the log: engram logs --errors ({name})"
                troubles.append(Trouble(name, stage.last_error, advice))
            elif stage.lag_seconds > MAX_LAG_SECONDS:
                behind = f"is {stage.lag_seconds / 3600:.1f} h behind"
                troubles.append(Trouble(name, behind, "is the worker running? engram up", is_broken=False))
        return troubles


@dataclass(frozen=True, slots=True)
class Health(Vitals):
    """Everything that status shows."""

    totals: counts.Totals
    missing_vectors: int

    @property
    def waiting(self) -> int:
        """Pieces of work that are due now."""
        return sum(totals.due or 0 for totals in self.work)

    @property
    def lag_seconds(self) -> float:
        """The longest lag of any stage."""
        return max((stage.lag_seconds for stage in self.stages.values()), default=0.0)


def take_vitals(store: Store, settings: Settings, *, with_files: bool = True) -> Vitals:
    """Look at the locks, the stages and what waits; at the names and sizes of all transcripts only ``with_files``.

    Without files it takes a few milliseconds at any size, and what is not read yet is not known.
    """
    unread = count_unread(store, settings) if with_files else Unread(0, 0, 0.0, 0)
    by_kind = counts.count_work(store)
    return Vitals(
        worker=process_state(settings.places.worker_lock),
        watcher=process_state(settings.places.watcher_lock),
        stages=_stages(store, unread, by_kind),
        unread=unread,
        work=by_kind,
    )


def take_health(store: Store, settings: Settings) -> Health:
    """Look at everything once. Reads the names and sizes of all transcripts, never their content."""
    vitals = take_vitals(store, settings)
    return Health(
        worker=vitals.worker,
        watcher=vitals.watcher,
        stages=vitals.stages,
        unread=vitals.unread,
        work=vitals.work,
        totals=counts.count_totals(store),
        missing_vectors=counts.count_without_vector(store),
    )


def count_unread(store: Store, settings: Settings) -> Unread:
    """How much of the transcripts on the disk was not read yet."""
    read = transcripts.all_cursors(store)
    files = bytes_left = total_files = 0
    lag = 0.0
    for transcript in find_transcripts(settings.claude_folder, with_subagents=settings.subagents):
        total_files += 1
        # The end of a file may be a line that is still being written: what was seen at the last read is no lag.
        offset, size = read.get(transcript.path, (0, -1))
        if transcript.size != size and transcript.size != offset:
            files += 1
            bytes_left += max(0, transcript.size - offset)
            lag = max(lag, time.time() - transcript.changed_at_ns / 1e9)
    return Unread(files, bytes_left, lag, total_files)


def _stages(store: Store, unread: Unread, by_kind: list[counts.WorkTotals]) -> dict[str, StageHealth]:
    now = store.now_ms()
    waits = {
        totals.kind: max(0, now - totals.oldest_due_at_ms) / 1000 if totals.oldest_due_at_ms else 0.0
        for totals in by_kind
    }
    known_stages = {stage.name: stage for stage in list_stages(store)}
    stages = {}
    for name in sorted({"ingest", "extract", "recollect", *known_stages, *waits}):
        known = known_stages.get(name)
        lag = unread.lag_seconds if name == "ingest" else waits.get(name, 0.0)
        if known is None:
            stages[name] = StageHealth(0, 0, lag)
        else:
            stages[name] = StageHealth(known.seen, known.done, lag, known.last_success_ms, known.last_error)
    ingest, read = stages["ingest"], counts.count_transcripts(store)
    stages["ingest"] = StageHealth(
        read + unread.files,
        read,
        ingest.lag_seconds,
        ingest.last_success_ms,
        ingest.last_error,
    )
    return stages


def home_bytes(home: Path) -> int:
    """Bytes of all files in the memory folder; what vanishes meanwhile is not counted."""
    total = 0
    for path in home.rglob("*"):
        with contextlib.suppress(OSError):
            facts = path.lstat()
            total += facts.st_size if stat.S_ISREG(facts.st_mode) else 0
    return total
