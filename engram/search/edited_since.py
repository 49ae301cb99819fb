"""Count the files edited by a turn that have changed in git since, because its record may be outdated.

Only the worker runs git. An answer waits briefly for git; if the result arrives too late, the next answer uses it.
"""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Collection, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import TimeoutError as NotYet

from engram.models.engine.transaction import Store
from engram.models.projects.projects import project_by_id
from engram.models.sessions.failures_and_commits import EditedFiles, edited_files
from engram.settings import Settings
from engram.system.clock import Clock
from engram.transcripts.git_commands import read_log
from engram.transcripts.project import is_excluded

#: Maximum time that an answer waits for git in all repositories together, maximum run time of git, and lifetime of a
#: cached result, in seconds.
WAIT_SECONDS, MAX_GIT_SECONDS, KEEP_SECONDS = 0.15, 2.0, 60.0
#: Maximum number of commits read (latest first), of times kept per file, and of repositories cached.
MAX_COMMITS, MAX_TIMES, MAX_REPOSITORIES = 2_000, 2, 20

#: File, relative to the repository's folder → when it was committed, latest first, in milliseconds since 1970.
CommitTimes = Mapping[str, tuple[int, ...]]


class LaterChanges:
    """Caches each repository's commit times for a minute. Thread-safe."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="git")
        self._asked: dict[str, tuple[float, Future[CommitTimes]]] = {}

    def of_turns(self, store: Store, settings: Settings, turn_ids: Collection[int]) -> Mapping[int, tuple[int, int]]:
        """Return, by turn id, how many of the files that the turn edited have changed since, and how many it edited.

        Turns without changed files are omitted, as are turns in folders that are excluded, no longer exist or are not
        in a repository.
        """
        deadline = self._clock.steady_seconds() + WAIT_SECONDS
        counts: dict[int, tuple[int, int]] = {}
        times_in: dict[int, CommitTimes] = {}
        roots: dict[int, str] = {}
        for edited in edited_files(store, turn_ids):
            number = edited.project_id
            if number not in roots:
                roots[number] = _repository_of(store, settings, number)
                times_in[number] = self._times(roots[number], deadline) if roots[number] else {}
            names = _names_in(roots[number], edited)
            changed = sum(_has_changed(times_in[number].get(name, ()), edited) for name in names)
            if changed:
                counts[edited.turn_id] = (changed, len(names))
        return counts

    def _times(self, root: str, deadline: float) -> CommitTimes:
        """Return the commit times of a repository; {} if git has not answered by ``deadline``, in steady seconds."""
        with self._lock:
            now = self._clock.steady_seconds()
            asked_at, answer = self._asked.get(root, (now, None))
            if answer is None or now - asked_at > KEEP_SECONDS:
                while len(self._asked) >= MAX_REPOSITORIES:
                    del self._asked[next(iter(self._asked))]
                answer = self._pool.submit(read_commit_times, root)
                self._asked[root] = (now, answer)
        with contextlib.suppress(NotYet):
            return answer.result(max(0.0, deadline - self._clock.steady_seconds()))
        return {}


def read_commit_times(root: str) -> CommitTimes:
    """Return the latest commit times of each file in a repository; {} if git is missing, too slow or fails."""
    times: dict[str, tuple[int, ...]] = {}
    for at_ms, name in read_log(root, f"--max-count={MAX_COMMITS}", "--name-only", seconds=MAX_GIT_SECONDS):
        if len(known := times.get(name, ())) < MAX_TIMES:
            times[name] = (*known, at_ms)
    return times


def _repository_of(store: Store, settings: Settings, project_id: int) -> str:
    """Return a project's folder if git may run in it; otherwise, ""."""
    project = project_by_id(store, project_id)
    root = project.root if project is not None else ""
    is_able = os.path.isabs(root) and not is_excluded(root, settings.exclude)
    return root if is_able and os.path.exists(os.path.join(root, ".git")) else ""


def _names_in(root: str, edited: EditedFiles) -> set[str]:
    paths = (os.path.normpath(os.path.join(edited.cwd, file)) for file in edited.files)
    return {os.path.relpath(path, root) for path in paths if path.startswith(root.rstrip("/") + "/")}


def _has_changed(times: tuple[int, ...], edited: EditedFiles) -> bool:
    """Return whether a file has been committed since, not counting the commit that contains the turn's own change.

    If the turn did not commit its change, the first later commit is assumed to contain it.
    """
    later = sum(at_ms > edited.ended_at_ms for at_ms in times)
    return later > (0 if edited.is_committed else 1)
