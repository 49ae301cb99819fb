"""Run a hub: the application under uvicorn, structured logs on standard output, and maintenance tasks on a queue."""

from __future__ import annotations

import contextlib
import errno
import json
import logging
import signal
import socket
import sys
import threading
from collections.abc import Iterator
from typing import Any

import huey.storage
import psycopg
import uvicorn
from huey import PostgresHuey, crontab
from huey.consumer import Consumer

from engram.errors import HubError
from engram.hub.server.app import Service, make_app
from engram.hub.server.hub_database import Database
from engram.system.atomic import explain_error


def serve(dsn: str, host: str, port: int, *, is_pooled: bool = False) -> None:
    """Serve until a signal arrives, reporting the start and the end on standard error.

    Args:
        dsn: the database's libpq connection string.
        host: the address to listen on; any address other than a loopback address needs a TLS proxy in front of it.
        is_pooled: True if a pooler in transaction mode is in front of the database.

    Raises:
        HubError: the database or the address can't be used.
    """
    _log_to_stdout()
    with _listening(host, port) as listener:
        database = Database(dsn, is_pooled=is_pooled).open()
        try:
            config = uvicorn.Config(
                make_app(Service(database)),
                log_config=None,
                access_log=False,
                server_header=False,
                date_header=False,
                timeout_graceful_shutdown=5,
                h11_max_incomplete_event_size=65_536,
            )
            server = uvicorn.Server(config)
            # Uvicorn's own handlers raise the signal again once the server has stopped, which would kill the process
            # before it is done.
            server.capture_signals = contextlib.nullcontext  # type: ignore[method-assign, assignment]
            with _ending_on_signals(server):
                place = f"[{host}]" if ":" in host else host
                _tell(f"Serving a hub at http://{place}:{listener.getsockname()[1]}. Ctrl-C stops it.")
                server.run(sockets=[listener])
            if not server.started:
                raise HubError("the service could not start; see its log for the reason")
            _tell("The hub has stopped.")
        finally:
            database.close()


def _listening(host: str, port: int) -> socket.socket:
    """Return a socket listening on an address. Raises HubError."""
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        return socket.create_server((host, port), family=family, backlog=2048)
    except (OSError, UnicodeError) as error:
        reason = explain_error(error) if isinstance(error, OSError) else error
        option = "port" if isinstance(error, OSError) and error.errno in (errno.EADDRINUSE, errno.EACCES) else "host"
        raise HubError(f"can't serve at {host}:{port}: {reason}. Choose another {option} with --{option}") from error


@contextlib.contextmanager
def _ending_on_signals(server: Any) -> Iterator[None]:
    """Make SIGINT, SIGTERM and SIGHUP stop the service once its requests are finished; a second signal aborts them."""

    def end(*_: object) -> None:
        server.force_exit = server.should_exit
        server.should_exit = True

    if threading.current_thread() is not threading.main_thread():
        yield
        return
    former = {number: signal.signal(number, end) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
    try:
        yield
    finally:
        for number, handler in former.items():
            signal.signal(number, handler)


def _tell(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def run_chores(dsn: str) -> None:
    """Run the hub's maintenance tasks until a signal arrives. Raises HubError."""
    _log_to_stdout()
    Database(dsn).open().close()
    _tell("Running the hub's maintenance tasks. Ctrl-C stops them.")
    with contextlib.suppress(KeyboardInterrupt):
        # One worker, so that the tasks run one at a time.
        Consumer(make_queue(dsn), workers=1, periodic=True, initial_delay=0.1, max_delay=5.0).run()
    _tell("The maintenance tasks have stopped.")


class _JsonFormatter(logging.Formatter):
    """Formats each record as a JSON object; a message that is already JSON is merged into it."""

    def format(self, record: logging.LogRecord) -> str:
        message = record.getMessage()
        is_object = message.startswith("{")
        head = {"time": self.formatTime(record), "level": record.levelname.lower()}
        return json.dumps(head | (json.loads(message) if is_object else {"message": message}))


def _log_to_stdout() -> None:
    """Write one line per record to standard output, for log collectors."""
    handler = logging.StreamHandler(sys.stdout)
    handler.setFormatter(_JsonFormatter())
    log = logging.getLogger("engram.hub")
    log.handlers[:] = [handler]
    log.setLevel(logging.INFO)
    log.propagate = False


# -- Run the hub's maintenance tasks from a queue in PostgreSQL. All tasks can be derived from the tables, so a lost
# task is created again.
#
# As on a machine, the queue only sends notifications; due work is found in the tables, which ``look`` checks every
# minute.

logger = logging.getLogger(__name__)

#: Maximum number of marks kept for each space; a machine that was offline for longer sends everything again.
KEPT_MARKS = 50_000
#: Number of dead rows at which the statements are vacuumed immediately, so that erased bodies disappear from the
#: table's pages.
MIN_DEAD_ROWS = 1


def make_queue(dsn: str) -> PostgresHuey:
    """Return the queue with its tasks, in the hub's database."""
    # If the queue of a machine was imported earlier, huey was loaded without the driver.
    huey.storage.psycopg = psycopg
    queue = PostgresHuey("engram-hub", dsn=dsn, results=False, table_prefix="hub_queue")

    @queue.task(name="erase")
    def erase() -> None:
        erase_dead_rows(dsn)

    @queue.task(name="prune")
    def prune() -> None:
        prune_tables(dsn)

    @queue.periodic_task(crontab(), name="look")
    def look() -> None:
        due = find_due(dsn)
        if due["dead_rows"] >= MIN_DEAD_ROWS:
            erase()
        if due["old_marks"] or due["old_codes"]:
            prune()

    return queue


def find_due(dsn: str) -> dict[str, int]:
    """Count the work that is due: dead rows of statements, marks beyond the limit, expired codes."""
    with psycopg.connect(dsn, autocommit=True) as connection:
        row = connection.execute(
            "SELECT (SELECT n_dead_tup FROM pg_stat_user_tables WHERE schemaname = 'hub' AND relname = 'statement'), "
            "(SELECT count(*) FROM (SELECT row_number() OVER (PARTITION BY ns_id ORDER BY seq DESC) AS place "
            "FROM hub.mark) ranked WHERE place > %s), "
            "(SELECT count(*) FROM hub.code WHERE expires_at < now() - interval '1 day')",
            (KEPT_MARKS,),
        ).fetchone()
    assert row is not None
    dead_rows, old_marks, old_codes = row
    return {"dead_rows": int(dead_rows or 0), "old_marks": int(old_marks), "old_codes": int(old_codes)}


def erase_dead_rows(dsn: str) -> None:
    """Free the space of dead rows, so that erased data is overwritten.

    docs/hub-server.md lists what remains in the log.
    """
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute("VACUUM (INDEX_CLEANUP ON) hub.statement")
    logger.info('{"chore": "erase"}')


def prune_tables(dsn: str) -> int:
    """Delete old marks and expired codes, and return how many rows were deleted."""
    with psycopg.connect(dsn, autocommit=True) as connection:
        marks = connection.execute(
            "DELETE FROM hub.mark m USING (SELECT ns_id, seq, row_number() OVER (PARTITION BY ns_id ORDER BY seq DESC) "
            "AS place FROM hub.mark) ranked WHERE m.ns_id = ranked.ns_id AND m.seq = ranked.seq AND place > %s",
            (KEPT_MARKS,),
        ).rowcount
        codes = connection.execute("DELETE FROM hub.code WHERE expires_at < now() - interval '1 day'").rowcount
        connection.execute("DELETE FROM hub.report r WHERE hub.is_gone(r.ns_id, r.author, r.memory_id)")
    logger.info('{"chore": "prune", "marks": %d, "codes": %d}', marks, codes)
    return marks + codes
