"""What is new since a page was made: told as a number that waits to be shown, so that nothing jumps."""

from __future__ import annotations

import asyncio
import contextlib
import os
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

#: How often the files of memory.db are looked at while a page is open, in seconds.
POLL_SECONDS = 1.0
#: How often a comment keeps an idle stream alive, in seconds.
KEEP_ALIVE_SECONDS = 15.0

_Stamp = tuple[tuple[int, int, int] | None, ...]


def stamp_of(path: Path) -> _Stamp:
    """Inode, size and time of memory.db and of its write-ahead log: another one after every commit.

    ``PRAGMA data_version`` would say the same, but needs a connection that stays open, for which a restore would wait.
    """
    return tuple(_stamp(f"{path}{suffix}") for suffix in ("", "-wal"))


def _stamp(name: str) -> tuple[int, int, int] | None:
    with contextlib.suppress(OSError):
        facts = os.stat(name)
        return facts.st_ino, facts.st_size, facts.st_mtime_ns
    return None


@dataclass(slots=True)
class Activity:
    """When the page was used last, and how many streams are open: what decides whether the process ends."""

    last_seconds: float
    streams: int = 0
    is_ending: bool = False

    def is_idle(self, now_seconds: float, limit_seconds: float) -> bool:
        """True if nobody has used the page for that long. A page that is in view has a stream."""
        return not self.streams and now_seconds - self.last_seconds >= limit_seconds


async def changes(path: Path, activity: Activity) -> AsyncIterator[bool]:
    """Yield True after each change of memory.db, False now and then without one, until the process ends.

    The first look yields True: what changed since the page was made is told at once.
    """
    activity.streams += 1
    try:
        before: _Stamp | None = None
        quiet_seconds = 0.0
        while not activity.is_ending:
            now = stamp_of(path)
            if now != before:
                before, quiet_seconds = now, 0.0
                yield True
            elif quiet_seconds >= KEEP_ALIVE_SECONDS:
                quiet_seconds = 0.0
                yield False
            await asyncio.sleep(POLL_SECONDS)
            quiet_seconds += POLL_SECONDS
    finally:
        activity.streams -= 1
        activity.last_seconds = time.monotonic()


def to_event(html: str) -> bytes:
    """Return a server-sent event whose data is HTML."""
    return b"".join(b"data: " + line.encode() + b"\n" for line in html.splitlines() or [""]) + b"\n"
