"""Stop, SessionEnd, and SessionStart after a compaction: enqueue a task for the session, as in ``enqueue.py flush``.

``ingest`` reads the rest of the transcript and closes the turn; ``flush`` also extracts memories.

This requires no running worker. It runs with Engram's packages, in the background, because a machine that is busy or
has just woken up is slow. It never prints anything and always exits with 0.
"""

from __future__ import annotations

import _thread
import importlib
import json
import os
import select
import signal
import sys
import time
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from engram.paths import Home

#: The hook exits after this many seconds, whatever it is waiting for.
SECONDS = 15.0
#: After this many seconds, the system kills the hook, even if a thread is holding the GIL.
ALARM_SECONDS = 20
#: Maximum size of a payload, in bytes.
PAYLOAD_BYTES = 1_048_576
#: How long to wait for the payload, in seconds; without a payload, the session's id is taken from the environment.
READ_SECONDS = 0.3
#: How long an enqueue waits for another writer of queue.db, such as a starting worker, in seconds.
BUSY_SECONDS = 3.0


def main() -> None:
    """Enqueue the task specified on the command line; always exit with status 0."""
    try:
        signal.alarm(ALARM_SECONDS)
        _thread.start_new_thread(_give_up, ())
        enqueue(sys.argv[1])
    except BaseException:  # noqa: BLE001 - the boundary of a hook
        pass
    os._exit(0)


def _give_up() -> None:
    time.sleep(SECONDS)
    os._exit(0)


def enqueue(task: str) -> None:
    """Enqueue ``task`` (ingest or flush) for the payload's session. A failure is logged."""
    # Imported here, so that a failing import is also silent.
    from engram.paths import Home, default_home, is_session_id

    if os.environ.get("ENGRAM_DISABLE", "0") not in ("", "0"):
        return
    session_id = _session_of(_read_payload())
    if not is_session_id(session_id):
        session_id = os.environ.get("CLAUDE_CODE_SESSION_ID", "")
    home = Home(default_home())
    if not is_session_id(session_id) or not home.root.is_dir():
        return
    try:
        queue = importlib.import_module("engram.tasks.queue").huey
        run = getattr(importlib.import_module("engram.tasks.session_tasks"), task)
        queue.bind(home, busy_seconds=BUSY_SECONDS)
        run(session_id)
    except Exception as error:  # noqa: BLE001 - the boundary of a hook
        _log(home, f"hook={task} session={session_id} error={type(error).__name__}")


def _read_payload() -> bytes:
    payload = b""
    until = time.monotonic() + READ_SECONDS
    while len(payload) <= PAYLOAD_BYTES:
        left = until - time.monotonic()
        if left <= 0 or not select.select([0], [], [], left)[0]:
            return b""
        chunk = os.read(0, 65_536)
        if not chunk:
            return payload
        payload += chunk
    return b""


def _session_of(payload: bytes) -> str:
    try:
        value: Any = json.loads(payload.decode("utf-8", "replace"))
    except (ValueError, RecursionError):
        return ""
    session_id = value.get("session_id") if isinstance(value, dict) else None
    return session_id if isinstance(session_id, str) else ""


def _log(home: Home, message: str) -> None:
    # Imported here, because logging takes a while to load and only a failing hook needs it.
    from engram.log import append_warning

    append_warning(home.logs, "hook", message)


if __name__ == "__main__":
    main()
