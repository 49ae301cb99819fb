"""Shared by the hooks that enqueue a task: read the session from the payload, and enqueue. Never raises."""

from __future__ import annotations

import importlib
import json
import os
import select
import time
from typing import Any

from engram.paths import Home, default_home, is_session_id

#: Longest payload that is read, in bytes.
PAYLOAD_BYTES = 1_048_576
#: How long the payload is awaited, in seconds; after that the environment names the session.
READ_SECONDS = 0.3
#: How long an enqueue waits for another writer of queue.db, such as a worker that starts, in seconds.
BUSY_SECONDS = 1.0


def ring(task: str) -> None:
    """Enqueue ``task`` (ingest or flush) for the payload's session. A failure is one record in the log."""
    if os.environ.get("ENGRAM_DISABLE", "0") not in ("", "0"):
        return
    session_id = _session_of(_read_payload()) or os.environ.get("CLAUDE_CODE_SESSION_ID", "")
    home = Home(default_home())
    if not is_session_id(session_id) or not home.root.is_dir():
        return
    try:
        queue = importlib.import_module("engram.tasks.queue").huey
        enqueue = getattr(importlib.import_module(f"engram.tasks.{task}"), task)
        queue.bind(home, busy_seconds=BUSY_SECONDS)
        enqueue(session_id)
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
    return session_id if is_session_id(session_id) and isinstance(session_id, str) else ""


def _log(home: Home, message: str) -> None:
    # Not above: a hook that works writes nothing, and logging takes a while to load.
    from engram.log import append_warning

    append_warning(home.logs, "hook", message)
