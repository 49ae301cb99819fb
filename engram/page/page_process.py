"""The page's process: it takes the lock, listens on a random port of 127.0.0.1, and ends when it is no longer used."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import gc
import logging
import os
import signal
import socket
import sys
import time
from collections.abc import Sequence

import uvicorn
from starlette.types import ASGIApp

from engram.errors import AlreadyRunning, EngramError
from engram.log import start_logging
from engram.page.open_page import FAILED, READY, RUNNING, PageState, own_version, write_state
from engram.page.page_access import ADDRESS, Access
from engram.page.routes import Guard, build_page
from engram.page.view import Activity
from engram.system.atomic import explain_error
from engram.system.process_lock import ProcessLock
from engram.vaults import load_inside

#: Time without a request or an open stream after which the process exits, in seconds.
IDLE_SECONDS = 1_800.0
#: How often idleness is checked, in seconds.
CHECK_SECONDS = 5.0
#: How long open requests may take when the process is stopping, in seconds.
END_SECONDS = 2


async def serve(server: uvicorn.Server, listener: socket.socket, activity: Activity, idle_seconds: float) -> None:
    ending = asyncio.create_task(_end_when_idle(server, activity, idle_seconds))
    try:
        await server.serve([listener])
    finally:
        activity.is_ending = True
        ending.cancel()


def make_config(app: ASGIApp) -> uvicorn.Config:
    """Return the server's configuration, without a log of addresses and without unused protocols."""
    return uvicorn.Config(
        app,
        log_config=None,
        access_log=False,
        lifespan="off",
        ws="none",
        proxy_headers=False,
        server_header=False,
        timeout_graceful_shutdown=END_SECONDS,
    )


async def _end_when_idle(server: uvicorn.Server, activity: Activity, idle_seconds: float) -> None:
    while not server.should_exit:
        await asyncio.sleep(min(CHECK_SECONDS, idle_seconds / 4))
        server.should_exit |= activity.is_idle(time.monotonic(), idle_seconds)
    activity.is_ending = True


def listen() -> socket.socket:
    """Listen on a random port of this machine only.

    asyncio turns off Nagle's algorithm, which delays the second part of a response by 40 ms, only if the protocol is
    given.
    """
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listener.bind((ADDRESS, 0))
    listener.listen(64)
    return listener


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the page, or exit if one is already running. Print one line when it listens, or if it can't."""
    os.umask(0o077)
    parser = argparse.ArgumentParser(prog="python -m engram.page.page_process", description=__doc__)
    parser.add_argument("--set", action="append", default=[], metavar="NAME=VALUE", help="a setting")
    parser.add_argument("--vault", metavar="NAME", help="show the vault of this project")
    parser.add_argument("--idle-seconds", type=float, default=IDLE_SECONDS, help="end after this time without use")
    asked = parser.parse_args(arguments)
    flags = dict(assignment.split("=", 1) for assignment in asked.set)
    try:
        settings = load_inside(flags, asked.vault).settings
        places = settings.places.prepare()
        lock = ProcessLock(places.page_lock)
    except AlreadyRunning:
        _tell(RUNNING)
        return 0
    except EngramError as error:
        _tell(f"{FAILED} {error}")
        return 1
    except OSError as error:
        _tell(f"{FAILED} {explain_error(error)}")
        return 1
    from engram.redaction import redact

    start_logging(places.logs, "page", settings.log_level, redact)
    # The server's own log lines contain addresses.
    logging.getLogger("uvicorn").setLevel(logging.WARNING)
    with listen() as listener:
        access = Access(listener.getsockname()[1])
        activity = Activity(time.monotonic())
        server = uvicorn.Server(make_config(Guard(build_page(flags, access, activity, vault=asked.vault), access)))
        # The server re-raises the signal that stopped it; a signal that arrives before it listens stops it, too.
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, lambda *_: setattr(server, "should_exit", True))
        write_state(places.page_state, PageState(os.getpid(), access.port, own_version()))
        _tell(READY)
        # Everything loaded so far stays in memory, so the garbage collector can skip it.
        gc.freeze()
        try:
            asyncio.run(serve(server, listener, activity, asked.idle_seconds))
        finally:
            with contextlib.suppress(OSError):
                places.page_state.unlink()
            lock.release()
    return 0


def _tell(word: str) -> None:
    """Report the outcome to the waiting command, and discard all later output."""
    sys.stdout.write(f"{word}\n")
    sys.stdout.flush()
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for stream in (1, 2):
        os.dup2(nowhere, stream)
    os.close(nowhere)


if __name__ == "__main__":
    sys.exit(main())
