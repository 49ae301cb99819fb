"""Writes the figures of each session whose status line asks for them."""

from __future__ import annotations

import os

from engram.models.counts import count_sessions
from engram.recollection.files import RecollectionFiles
from engram.reports.health import take_vitals
from engram.tasks.runtime import Runtime

#: Sessions whose figures are kept up to date, the latest first.
MAX_SESSIONS = 50


class StatusLines:
    """The files that ``statusline.sh`` reads: process id, memories shown and kept, and what is wrong, if anything."""

    def __init__(self, runtime: Runtime) -> None:
        """Write nothing yet."""
        self._runtime = runtime
        self._files = RecollectionFiles(runtime.settings.places.recollections)

    def write(self, *, has_changed: bool) -> int:
        """Write what is asked for; returns the number of files.

        Args:
            has_changed: the memory changed since the last call. Else only empty files are written.
        """
        files = self._files.status_lines()[:MAX_SESSIONS]
        due = [file.session_id for file in files if has_changed or file.is_empty]
        if not due:
            return 0
        store = self._runtime.store
        totals = count_sessions(store, due)
        troubles = take_vitals(store, self._runtime.settings, with_files=False).troubles()
        problem = next((trouble.about for trouble in troubles if trouble.is_broken), "")
        for session_id in due:
            found = totals.get(session_id)
            shown, kept = (0, 0) if found is None else (found.shown, found.episodes)
            self._files.put_status_line(session_id, f"{os.getpid()} {shown} {kept} {problem}".rstrip())
        return len(due)
