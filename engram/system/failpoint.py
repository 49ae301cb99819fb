"""Named points at which a test can kill the process: ``ENGRAM_CRASH=name:n`` sends SIGKILL on the n-th pass.

Without that variable, a point costs one comparison. ``tests/failpoints.py`` lists all points.
"""

from __future__ import annotations

import os
import signal

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
