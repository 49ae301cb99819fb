"""The health of every stage, put together from the memory, the files and the locks; what status, doctor and up show."""

from __future__ import annotations

import contextlib
import stat
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from engram.cli.output import iso
from engram.cli.processes import ProcessState, process_state
from engram.models import counts, transcripts, work
from engram.models.store import Store
from engram.settings import Settings
from engram.transcripts.discover import find_transcripts


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
            "seen": self.seen, "done": self.done, "lag_seconds": round(self.lag_seconds, 1),
            "last_success": iso(self.last_success_ms), "last_error": self.last_error or None,
        }  # fmt: skip


@dataclass(frozen=True, slots=True)
class Unread:
    """What stands in the transcripts and was not read yet."""

    files: int
    bytes: int
    #: Seconds since the longest waiting file was changed; 0 where all is read.
    lag_seconds: float
    #: Files that there are.
    found: int


@dataclass(frozen=True, slots=True)
class Health:
    """Everything that status shows."""

    totals: counts.Totals
    worker: ProcessState
    watcher: ProcessState
    stages: dict[str, StageHealth]
    unread: Unread
    work: list[counts.WorkTotals]
    missing_vectors: int

    @property
    def waiting(self) -> int:
        """Pieces of work that are due now."""
        return sum(one.due or 0 for one in self.work)

    @property
    def lag_seconds(self) -> float:
        """The longest lag of any stage."""
        return max((one.lag_seconds for one in self.stages.values()), default=0.0)


def take_health(store: Store, settings: Settings) -> Health:
    """Look at everything once. Reads the names and sizes of all transcripts, never their content."""
    unread = count_unread(store, settings)
    by_kind = counts.count_work(store)
    totals = counts.count_totals(store)
    return Health(
        totals=totals,
        worker=process_state(settings.places.worker_lock),
        watcher=process_state(settings.places.watcher_lock),
        stages=_stages(store, unread, by_kind, totals),
        unread=unread,
        work=by_kind,
        missing_vectors=counts.count_without_vector(store),
    )


def count_unread(store: Store, settings: Settings) -> Unread:
    """How much of the transcripts on the disk was not read yet."""
    read = transcripts.all_cursors(store)
    files = bytes_left = found = 0
    lag = 0.0
    for one in find_transcripts(settings.claude_folder, with_subagents=settings.subagents):
        found += 1
        # The end of a file may be a line that is still being written: what was seen at the last read is no lag.
        offset, size = read.get(one.path, (0, -1))
        if one.size != size and one.size != offset:
            files += 1
            bytes_left += max(0, one.size - offset)
            lag = max(lag, time.time() - one.changed_at_ns / 1e9)
    return Unread(files, bytes_left, lag, found)


def _stages(
    store: Store, unread: Unread, by_kind: list[counts.WorkTotals], totals: counts.Totals
) -> dict[str, StageHealth]:
    now = store.now_ms()
    waits = {one.kind: max(0, now - one.oldest_due_at_ms) / 1000 if one.oldest_due_at_ms else 0.0 for one in by_kind}
    found = {one.name: one for one in work.list_stages(store)}
    stages = {}
    for name in sorted({"ingest", "extract", "recollect", *found, *waits}):
        known = found.get(name)
        lag = unread.lag_seconds if name == "ingest" else waits.get(name, 0.0)
        if known is None:
            stages[name] = StageHealth(0, 0, lag)
        else:
            stages[name] = StageHealth(known.seen, known.done, lag, known.last_success_ms, known.last_error)
    ingest = stages["ingest"]
    stages["ingest"] = StageHealth(
        totals.transcripts + unread.files, totals.transcripts, ingest.lag_seconds, ingest.last_success_ms,
        ingest.last_error,
    )  # fmt: skip
    return stages


def home_bytes(home: Path) -> int:
    """Bytes of all files in the memory folder; what vanishes meanwhile is not counted."""
    total = 0
    for path in home.rglob("*"):
        with contextlib.suppress(OSError):
            facts = path.lstat()
            total += facts.st_size if stat.S_ISREG(facts.st_mode) else 0
    return total
