"""The end of the server: by a signal at once, and soon after the process that started it is gone."""

from __future__ import annotations

import os
import signal
import threading
import time

#: How often the server looks whether its parent is still there, in seconds.
PARENT_SECONDS = 5.0


def end_with_claude_code() -> None:
    """Let SIGINT and SIGTERM end this process at once, and end it when its parent dies.

    A thread of the library waits for input and would keep Python from ending. Nothing needs cleaning up: what a tool
    writes is in a transaction. Mostly the end of the input ends the server; the parent is looked after since another
    process may have inherited the other end of the pipe.
    """
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_DFL)
    threading.Thread(target=_watch_parent, args=(os.getppid(),), name="parent", daemon=True).start()


def _watch_parent(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(PARENT_SECONDS)
    os._exit(0)
