"""Ends the server: at once by a signal, and soon after its parent process has ended."""

from __future__ import annotations

import os
import signal
import threading
import time

#: How often the parent is checked, in seconds.
PARENT_SECONDS = 5.0


def end_with_claude_code() -> None:
    """Let SIGINT and SIGTERM end this process at once, and end it when its parent dies.

    A thread of the MCP library waits for input and would keep Python alive. Nothing needs cleaning up: tools write in
    transactions. The end of the input usually ends the server; the parent is checked as well because another process
    may have inherited the other end of the pipe.
    """
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_DFL)
    threading.Thread(target=_watch_parent, args=(os.getppid(),), name="parent", daemon=True).start()


def _watch_parent(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(PARENT_SECONDS)
    os._exit(0)
