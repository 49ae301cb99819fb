"""Where the running page listens, as a file that other commands read."""

from __future__ import annotations

import contextlib
import json
from dataclasses import asdict, dataclass
from pathlib import Path

from engram.atomic import read_regular, write_atomic

#: What the page's process tells the command that started it, in its first line; a reason follows ``FAILED``.
READY, RUNNING, FAILED = "ready", "running", "failed"
#: Largest file that is read, in bytes.
MAX_STATE_BYTES = 10_000


@dataclass(frozen=True, slots=True)
class PageState:
    """Where the running page listens."""

    pid: int
    port: int
    #: Engram's version: a page of another one is replaced.
    version: str


def write_state(path: Path, state: PageState) -> None:
    """Write where the page listens (mode 0600). It holds no secret."""
    write_atomic(path, json.dumps(asdict(state)).encode())


def read_state(path: Path) -> PageState | None:
    """Return what the page has written; None if there is nothing, or it can't be understood."""
    try:
        return PageState(**json.loads(read_regular(path, MAX_STATE_BYTES) or b"null"))
    except (TypeError, ValueError):
        return None


def own_version() -> str:
    """Return the version of the installed Engram; "" for a checkout that was not installed."""
    from importlib.metadata import PackageNotFoundError, version

    with contextlib.suppress(PackageNotFoundError):
        return version("engram-recall")
    return ""
