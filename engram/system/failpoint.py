"""Named points at which a test can kill the process: ``ENGRAM_CRASH=name:n`` sends SIGKILL at the n-th pass.

Without that variable, a point costs one comparison. ``NAMES`` lists all points for the fault tests.
"""

from __future__ import annotations

import os
import signal

#: All points, in the order in which a line of a transcript reaches them.
NAMES = (
    "ingest.read",
    "ingest.begin",
    "ingest.turns",
    "ingest.cursor",
    "ingest.committed",
    "watch.enqueue",
    "queue.enqueued",
    "queue.dequeued",
    "extract.read",
    "extract.embedded",
    "extract.begin",
    "extract.memories",
    "extract.work",
    "extract.committed",
    "second_chance.proposed",
    "second_chance.kept",
    "second_chance.replaced",
    "second_chance.committed",
    "sort.moved",
    "sort.committed",
    "recollect.written",
    "consolidate.begin",
    "consolidate.changed",
    "consolidate.committed",
    "restore.copied",
    "restore.carried",
    "restore.ready",
    "restore.recorded",
    "restore.aside",
    "restore.swapped",
    "restore.finished",
    "forget_project.marked",
    "forget_project.copies",
    "forget_project.files",
    "forget_project.batch",
    "migrate.begin",
    "migrate.step",
    "install.begun",
    "install.retired",
    "install.recorded",
    "install.written",
    "install.verified",
    "install.action",
    "install.step",
    "install.finished",
    "install.undone",
    "uninstall.begun",
    "uninstall.stopped",
    "uninstall.restored",
    "vault.begun",
    "vault.copied",
    "vault.returned",
)

_wanted, _, _count = os.environ.get("ENGRAM_CRASH", "").partition(":")
_left = int(_count) if _count.isdigit() else 1


def reach(name: str) -> None:
    """Pass the point ``name``; kill this process if the environment requests it."""
    if _wanted and name == _wanted:
        _hit()


def _hit() -> None:
    global _left
    _left -= 1
    if _left <= 0:
        os.kill(os.getpid(), signal.SIGKILL)
