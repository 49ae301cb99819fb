"""Determine the health of every stage from the memory, the files and the locks.

``status``, ``doctor``, ``up``, ``memory_status`` and the briefing show it.
"""

from __future__ import annotations

import contextlib
import stat
import time
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from engram.models.engine.meta import made_at_ms
from engram.models.engine.transaction import Store
from engram.models.hub.spaces import list_servers
from engram.models.sessions import reading_progress
from engram.models.sessions.prompt_outcomes import count_asked_prompts
from engram.models.shown import usage
from engram.models.work.task_runs import list_stages
from engram.models.work.work import last_run_ms
from engram.paths import Home
from engram.reports.processes import ProcessState, process_state, start_command
from engram.settings import MODEL_EXTRACTORS, Settings
from engram.system.atomic import explain_disk, read_regular
from engram.system.clock import iso_or_none, moment_of
from engram.transcripts.registry import discover, present_folders
from engram.trust.display import counted
from engram.vaults import settings_around

#: Advice about a failing stage.
SEE_LOG = "see the log with: engram logs --errors"
#: Stage → what it does, for display; a stage that is not listed is shown by its own name.
STAGE_NAMES = {
    "ingest": "reading",
    "watch": "noticing changes",
    "extract": "making memories",
    "embed": "search by meaning",
    "recollect": "choosing memories",
    "refresh": "choosing memories again",
    "index_notes": "notes",
    "consolidate": "consolidation",
    "join": "joining repeats",
    "scan": "looking for work",
    "log": "daily log",
    "llm": "language model",
    "second chance": "rewriting by the model",
    "hub": "syncing",
    "socket": "answering",
    "queue": "taking work",
}
#: Stages that use a language model. Without one they do nothing, so earlier failures no longer count.
_MODEL_STAGES = frozenset({"llm", "second chance"})
#: Lag above which a stage is reported as late, in seconds.
MAX_LAG_SECONDS = 600
#: Maximum size of a Claude Code settings file that is searched for Engram, in bytes.
_SETTINGS_LIMIT_BYTES = 10_000_000
#: Why there are fewer memories than prompts if no language model writes them.
FEW = "the rules keep only what is sure; all else that was said is found word for word"
#: Time during which an answered prompt proves that Claude Code calls Engram, in milliseconds.
_LATELY_MS = 7 * 86_400_000


@dataclass(frozen=True, slots=True)
class StageHealth:
    seen: int
    done: int
    #: How long the oldest overdue item has been waiting, in seconds; 0 if nothing is overdue. The wait of an item that
    #: is older than the memory is counted from the memory's creation.
    lag_seconds: float
    last_success_ms: int | None = None
    last_error: str = ""
    #: When it is tried again after its last error; None if unknown.
    next_try_at_ms: int | None = None

    @property
    def has_trouble(self) -> bool:
        """True if the stage fails or is more than ``MAX_LAG_SECONDS`` behind."""
        return bool(self.last_error) or self.lag_seconds > MAX_LAG_SECONDS

    def as_json(self) -> dict[str, Any]:
        return {
            "seen": self.seen,
            "done": self.done,
            "lag_seconds": round(self.lag_seconds, 1),
            "last_success": iso_or_none(self.last_success_ms),
            "last_error": self.last_error or None,
        }


@dataclass(frozen=True, slots=True)
class Unread:
    files: int
    bytes: int
    #: Seconds since the oldest unread change of a file, or since the memory's creation; 0 if everything was read.
    lag_seconds: float
    #: Number of files in the agents' session folders.
    found: int


@dataclass(frozen=True, slots=True)
class Trouble:
    #: ``watcher``, ``worker`` or the name of a stage.
    about: str
    #: What is wrong, and its consequence.
    text: str
    #: What the user can do.
    advice: str
    #: False if the process or stage works, but is late.
    is_broken: bool = True
    #: What happens without the user.
    remedy: str = "it is retried automatically"


@dataclass(frozen=True, slots=True)
class Vitals:
    """Whether memory works: the two processes and the progress of each stage."""

    worker: ProcessState
    watcher: ProcessState
    stages: dict[str, StageHealth]
    unread: Unread
    work: list[usage.WorkTotals]
    #: The command that starts both processes on this machine.
    start_command: str

    @property
    def given_up(self) -> int:
        """The number of tasks that failed too often, which only a person makes due again."""
        return sum(totals.dead or 0 for totals in self.work)

    def troubles(self) -> list[Trouble]:
        """Return all problems, those of the processes first."""
        troubles = []
        for name, state, follows in (
            ("watcher", self.watcher, "new lines are not read"),
            ("worker", self.worker, "no memories are made, and hooks stay silent"),
        ):
            if not state.is_alive:
                troubles.append(Trouble(name, f"not running: {follows}", f"start both with: {self.start_command}"))
        for name, stage in self.stages.items():
            if stage.last_error:
                again = (
                    "" if stage.next_try_at_ms is None else f" on {moment_of(stage.next_try_at_ms):%Y-%m-%d at %H:%M}"
                )
                remedy = f"it is retried automatically{again}"
                troubles.append(Trouble(name, stage.last_error, f"{remedy}; {SEE_LOG}", remedy=remedy))
            elif stage.has_trouble:
                behind = f"is {stage.lag_seconds / 3600:.1f} h behind"
                troubles.append(
                    Trouble(name, behind, "check that the worker is running: engram service status", is_broken=False)
                )
        return troubles


@dataclass(frozen=True, slots=True)
class Health(Vitals):
    """Everything that ``engram status`` shows."""

    totals: usage.Totals
    missing_vectors: int

    @property
    def pending(self) -> str:
        """The pending tasks by state, counted as ``engram tasks`` lists them; "" for none."""
        waiting, scheduled, failed = (
            sum(getattr(totals, state) for totals in self.work) for state in ("waiting", "scheduled", "failed")
        )
        later = [f"{number} {state}" for number, state in ((scheduled, "scheduled"), (failed, "failed")) if number]
        return ", ".join(filter(None, [counted(waiting - scheduled - failed, "task"), *later]))

    @property
    def tasks(self) -> str:
        """All tasks that are not done, by state: the pending ones, and those that were given up; "" for none."""
        return ", ".join(filter(None, [self.pending, f"{self.given_up} given up" if self.given_up else ""]))

    @property
    def lag_seconds(self) -> float:
        return max((stage.lag_seconds for stage in self.stages.values()), default=0.0)


def take_vitals(store: Store, settings: Settings, *, with_files: bool = True) -> Vitals:
    """Check the locks, the stages and the waiting tasks and, unless ``with_files`` is False, count unread transcripts.

    Without files, this takes a few milliseconds, however large the memory is.
    """
    unread = count_unread(store, settings) if with_files else Unread(0, 0, 0.0, 0)
    serving = settings_around(settings).places
    by_kind = usage.count_work(store)
    return Vitals(
        worker=process_state(serving.worker_lock),
        watcher=process_state(serving.watcher_lock),
        stages=_stages(store, settings, unread, by_kind),
        unread=unread,
        work=by_kind,
        start_command=start_command(settings),
    )


def is_unconnected(store: Store, settings: Settings) -> bool:
    """Return True if Claude Code is used here but certainly does not call Engram; quick, unlike the checks of doctor.

    That is so if its settings name neither a hook nor a plugin of Engram, and no prompt was answered lately: neither
    since the settings last changed nor in the last ``_LATELY_MS``.
    """
    if not settings.projects_folder.is_dir():
        return False
    now_ms = store.now_ms()
    since_ms = now_ms - _LATELY_MS
    for folder in settings.all_claude_folders:
        files = [folder / name for name in ("settings.json", "settings.local.json", "plugins/installed_plugins.json")]
        if any(path.is_symlink() or b"engram" in (read_regular(path, _SETTINGS_LIMIT_BYTES) or b"") for path in files):
            return False
        if any((folder / "skills").glob("engram*")):
            return False
        for path in (*files, folder / "skills"):
            with contextlib.suppress(OSError):
                changed_ms = path.stat().st_mtime_ns // 1_000_000
                since_ms = max(since_ms, changed_ms if changed_ms <= now_ms else 0)
    return not count_asked_prompts(store, since_ms)


def take_health(store: Store, settings: Settings) -> Health:
    """Check everything. Reads the names and sizes of all transcripts, never their content."""
    vitals = take_vitals(store, settings)
    return Health(
        **{field.name: getattr(vitals, field.name) for field in fields(vitals)},
        totals=usage.count_totals(store),
        missing_vectors=usage.count_without_vector(store),
    )


def count_unread(store: Store, settings: Settings) -> Unread:
    seen = reading_progress.all_seen(store)
    files = bytes_left = 0
    # A file may contain several sessions. The prompt history is in no session folder, and contains many.
    folders, found = [str(folder) for _, folder in present_folders(settings)], set[str]()
    lag, begun_ms = 0.0, _begun_ms(store, settings)
    for source in reading_progress.drop_kept_out(store, discover(settings), seen):
        if any(source.path.is_relative_to(folder) for folder in folders):
            found.add(str(source.path))
        # A file may end with a partial line, so a file unchanged since the last read does not lag.
        known = seen.get(source.place)
        if reading_progress.is_changed(source, known):
            files += 1
            bytes_left += max(0, (source.size or 0) - (0 if known is None else known.bytes_read))
            lag = max(lag, time.time() - max(source.changed_at_ns / 1e9, begun_ms / 1000))
    return Unread(files, bytes_left, lag, len(found))


def _begun_ms(store: Store, settings: Settings) -> int:
    """Return when Engram could first work (ms since 1970): the later of memory creation and installation."""
    begun_ms = made_at_ms(store)
    with contextlib.suppress(OSError):
        begun_ms = max(begun_ms, settings.places.install_journal.stat().st_mtime_ns // 1_000_000)
    return begun_ms


def _stages(
    store: Store, settings: Settings, unread: Unread, by_kind: list[usage.WorkTotals]
) -> dict[str, StageHealth]:
    now, begun_ms = store.now_ms(), _begun_ms(store, settings)
    waits = {
        totals.kind: max(0, now - max(totals.oldest_due_at_ms, begun_ms)) / 1000 if totals.oldest_due_at_ms else 0.0
        for totals in by_kind
    }
    next_tries = _next_tries(store, settings, by_kind)
    idle = set() if settings.extractor in MODEL_EXTRACTORS else {*_MODEL_STAGES}
    if not list_servers(store):
        idle.add("hub")
    known_stages = {stage.name: stage for stage in list_stages(store)}
    stages = {}
    for name in sorted({"ingest", "extract", "recollect", *known_stages, *waits}):
        known = known_stages.get(name)
        lag = unread.lag_seconds if name == "ingest" else waits.get(name, 0.0)
        if known is None:
            stages[name] = StageHealth(0, 0, lag)
        else:
            error = "" if name in idle else known.last_error
            next_try = next_tries.get(name)
            stages[name] = StageHealth(known.seen, known.done, lag, known.last_success_ms, error, next_try)
    ingest, read = stages["ingest"], usage.count_transcripts(store)
    stages["ingest"] = StageHealth(
        read + unread.files, read, ingest.lag_seconds, ingest.last_success_ms, ingest.last_error
    )
    return stages


def _next_tries(store: Store, settings: Settings, by_kind: list[usage.WorkTotals]) -> dict[str, int]:
    """Return stage → when it is tried again (ms since 1970), for failed work and for the language model.

    Each consolidation asks the model about what was extracted without it; failed extractions ask it earlier.
    """
    tries = {work.kind: work.next_try_at_ms for work in by_kind if work.next_try_at_ms is not None}
    if settings.extractor in MODEL_EXTRACTORS:
        again_ms = max(store.now_ms(), last_run_ms(store, "consolidate") + settings.consolidate_seconds * 1000)
        tries |= dict.fromkeys(_MODEL_STAGES, again_ms) | {"llm": tries.get("extract", again_ms)}
    return tries


def home_bytes(home: Path) -> int:
    """Return the total size of the files in the memory folder, in bytes, ignoring files that vanish in the meantime."""
    total = 0
    for path in home.rglob("*"):
        with contextlib.suppress(OSError):
            facts = path.lstat()
            total += facts.st_size if stat.S_ISREG(facts.st_mode) else 0
    return total


# -- The status for scripts: health, figures for each project, pauses, places.


def status_to_json(
    health: Health, projects: list[usage.ProjectTotals], agents: dict[str, int], paused: list[str], settings: Settings
) -> dict[str, Any]:
    totals = health.totals
    return {
        "worker": health.worker.as_json(),
        "watcher": health.watcher.as_json(),
        "turns": totals.turns,
        "episodes": totals.memories,
        "stages": {name: stage.as_json() for name, stage in health.stages.items()},
        "sessions": totals.sessions,
        "agents": agents,
        "transcripts": totals.transcripts,
        "superseded": totals.superseded,
        "archived": totals.archived,
        "suspects": totals.suspects,
        "injections": totals.injections,
        "bad_lines": totals.bad_lines,
        "unreadable_files": totals.unreadable,
        "unread": {"files": health.unread.files, "bytes": health.unread.bytes},
        "missing_vectors": health.missing_vectors,
        "lag_seconds": round(health.lag_seconds, 1),
        "work": {work.kind: {"waiting": work.waiting, "due": work.due, "dead": work.dead} for work in health.work},
        "projects": {
            project.name: {"sessions": project.sessions, "turns": project.turns, "episodes": project.memories}
            for project in projects
        },
        "paused": paused,
        "home": str(settings.home),
        "home_bytes": home_bytes(settings.home),
        "claude_folder": str(settings.claude_folder),
    }


def disk_trouble(places: Home) -> str:
    """Return why nothing can be kept, such as a full disk; "" if it can. Nothing is written to find out."""
    trouble = explain_disk(places.memory_db, is_quick=True)
    return f"nothing new is read or kept: {trouble}" if trouble else ""
