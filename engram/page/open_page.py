"""Find or start the page's process, open it in a browser, and stop it."""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import subprocess
import sys
import time
import webbrowser
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from engram.errors import EngramError
from engram.paths import Home
from engram.reports.processes import is_elsewhere, is_held, signal_holder
from engram.system.atomic import read_regular, write_atomic

# -- The file that tells other commands where the running page listens.

#: First word that the page's process prints for the command that started it; a reason follows ``FAILED``.
READY, RUNNING, FAILED = "ready", "running", "failed"
#: Maximum number of bytes read from the file.
MAX_STATE_BYTES = 10_000


@dataclass(frozen=True, slots=True)
class PageState:
    pid: int
    port: int
    #: Engram's version; a page of another version is replaced.
    version: str


def write_state(path: Path, state: PageState) -> None:
    """Write where the page listens (mode 0600). The file contains no secrets."""
    write_atomic(path, json.dumps(asdict(state)).encode())


def read_state(path: Path) -> PageState | None:
    """Return the state that the page has written; None if it is missing or invalid."""
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


#: How long a new process may take to listen, in seconds.
MAX_START_SECONDS = 20.0
#: How long a process may take to stop, in seconds.
MAX_END_SECONDS = 10.0
#: How often a file or lock is checked while waiting, in seconds.
LOOK_SECONDS = 0.02


def find_page(places: Home) -> PageState | None:
    """Return where the running page listens; None if none is running."""
    return read_state(places.page_state) if is_held(places.page_lock) else None


def ensure_page(places: Home, flags: Mapping[str, str], vault: str | None = None) -> PageState:
    """Return where the page listens, starting it first if none of this version of Engram is running.

    Args:
        flags: settings for a new process that were given as flags, by name.
        vault: the project whose vault to show; None for the memory folder.

    Raises:
        EngramError: the page can't be started; the message gives the reason.
    """
    page = find_page(places)
    if page is not None and is_elsewhere(places.page_lock):
        raise EngramError(f"the page is running in another container (process {page.pid}); use it, or stop it there")
    if page is not None and page.version == own_version():
        return page
    if page is not None:
        stop_page(places)
    _start(flags, vault)
    until = time.monotonic() + MAX_START_SECONDS
    while (page := find_page(places)) is None:
        if time.monotonic() > until:
            raise EngramError(f"the page did not report where it listens; see {places.logs / 'page.log'}")
        time.sleep(LOOK_SECONDS)
    return page


def stop_page(places: Home) -> bool:
    """Stop the running page and wait until it has exited; return False if none is running."""
    page = find_page(places)
    if page is None:
        return False
    signal_holder(places.page_lock, signal.SIGTERM)
    until = time.monotonic() + MAX_END_SECONDS
    while is_held(places.page_lock):
        if time.monotonic() > until:
            raise EngramError(f"the page (process {page.pid}) did not stop; stop it with: kill -9 {page.pid}")
        time.sleep(LOOK_SECONDS)
    return True


def open_browser(entry: Path, url: str) -> bool:
    """Open the page in the user's browser; return False if no browser can show it.

    The browser is given the file, because the address would appear in the process list, which other users can read.
    """
    if os.environ.get("WSL_DISTRO_NAME"):
        return webbrowser.open(url)
    if sys.platform.startswith("linux") and not (os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")):
        return False
    return webbrowser.open(entry.as_uri())


def _start(flags: Mapping[str, str], vault: str | None) -> None:
    """Start the process and wait until it listens. Raises EngramError."""
    arguments = [part for name, value in flags.items() for part in ("--set", f"{name}={value}")]
    arguments += [] if vault is None else ["--vault", vault]
    process = subprocess.Popen(
        [sys.executable, "-P", "-m", "engram.page.page_process", *arguments],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
        # One malloc arena for all threads, because glibc would keep a mostly empty one for each.
        env={**os.environ, "MALLOC_ARENA_MAX": "1"},
    )
    assert process.stdout is not None
    with process.stdout as output:
        has_answered = bool(select.select([output], [], [], MAX_START_SECONDS)[0])
        word, _, rest = (
            output.readline().decode("utf-8", "replace").strip().partition(" ") if has_answered else ("", "", "")
        )
        if word in (READY, RUNNING):
            # The process runs independently, and nothing waits for it to exit.
            process.returncode = 0
            return
        if has_answered and word != FAILED:
            rest = (output.read().decode("utf-8", "replace").strip().splitlines() or [word])[-1]
    process.kill()
    process.wait()
    raise EngramError(f"the page can't start: {rest or 'it did not answer'}")
