"""Runs the service: uvicorn around the application, with structured logs on standard output."""

from __future__ import annotations

import json
import logging
import sys

from engram.clock import SYSTEM_CLOCK, Clock
from engram.errors import HubError
from engram.version import install_command


def serve(dsn: str, host: str, port: int, *, is_pooled: bool = False, clock: Clock = SYSTEM_CLOCK) -> None:
    """Serve until a signal.

    Args:
        dsn: the database, as libpq takes it.
        host: the address to listen at; anything but this machine needs a proxy with TLS before it.
        port: the port.
        is_pooled: a pooler in transaction mode lies before the database.
        clock: of what is checked and told.

    Raises:
        HubError: the database can't be used, or the extra ``hub`` is not installed.
    """
    try:
        import uvicorn

        from engram.hub.server.app import Service, make_app
        from engram.hub.server.database import Database
    except ImportError as error:
        raise HubError(f"the hub needs the extra: {install_command('hub')} ({error.name} is missing)") from error
    log_to_stdout()
    database = Database(dsn, is_pooled=is_pooled).open()
    try:
        uvicorn.run(
            make_app(Service(database, clock)),
            host=host,
            port=port,
            log_config=None,
            access_log=False,
            server_header=False,
            date_header=False,
            timeout_graceful_shutdown=5,
            h11_max_incomplete_event_size=65_536,
        )
    finally:
        database.close()


def run_chores(dsn: str) -> None:
    """Run the hub's chores until a signal. Raises HubError."""
    try:
        from engram.hub.server.chores import make_consumer, make_queue
        from engram.hub.server.database import Database
    except ImportError as error:
        raise HubError(f"the hub needs the extra: {install_command('hub')} ({error.name} is missing)") from error
    log_to_stdout()
    database = Database(dsn).open()
    database.close()
    make_consumer(make_queue(dsn)).run()


class _JsonFormatter(logging.Formatter):
    """One JSON object a record; a message that is one already is a part of it."""

    def format(self, record: logging.LogRecord) -> str:
        message = record.getMessage()
        is_object = message.startswith("{")
        head = {"time": self.formatTime(record), "level": record.levelname.lower()}
        return json.dumps(head | (json.loads(message) if is_object else {"message": message}))


def log_to_stdout() -> None:
    """Write one line a record to standard output, for whatever collects logs."""
    handler = logging.StreamHandler(sys.stdout)
    handler.setFormatter(_JsonFormatter())
    log = logging.getLogger("engram.hub")
    log.handlers[:] = [handler]
    log.setLevel(logging.INFO)
    log.propagate = False
