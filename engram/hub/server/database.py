"""The pool of connections to PostgreSQL, and the transactions of the service."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import psycopg
from psycopg.rows import namedtuple_row
from psycopg_pool import ConnectionPool

from engram.errors import HubError
from engram.hub.server.schema import CLIENT_ROLE, migrate

#: Connections of one service at most.
MAX_CONNECTIONS = 9
#: How long a request waits for a connection, and a statement may take, in seconds.
WAIT_SECONDS, STATEMENT_SECONDS = 10.0, 60.0

Rows = psycopg.Cursor[Any]


class Database:
    """PostgreSQL as the service uses it."""

    def __init__(self, dsn: str, *, is_pooled: bool = False) -> None:
        """Prepare, but do not connect.

        Args:
            dsn: as libpq takes it; "" uses PGHOST and the other variables.
            is_pooled: a pooler in transaction mode lies between: nothing is prepared on the server.
        """
        self.dsn = dsn
        self.is_pooled = is_pooled
        self._pool = ConnectionPool(
            dsn,
            min_size=1,
            max_size=MAX_CONNECTIONS,
            timeout=WAIT_SECONDS,
            open=False,
            kwargs={
                "row_factory": namedtuple_row,
                "prepare_threshold": None if is_pooled else 5,
                "options": f"-c statement_timeout={int(STATEMENT_SECONDS * 1000)}",
            },
            check=ConnectionPool.check_connection,
        )

    def open(self) -> Database:
        """Connect, and make or bring on the tables. Raises HubError."""
        try:
            with psycopg.connect(self.dsn, connect_timeout=10) as connection:
                migrate(connection)
        except psycopg.Error as error:
            raise HubError(f"the hub's database can't be used: {str(error).strip().splitlines()[0]}") from error
        self._pool.open()
        return self

    def close(self) -> None:
        """Close every connection."""
        self._pool.close()

    @contextlib.contextmanager
    def service(self) -> Iterator[psycopg.Connection[Any]]:
        """A transaction of the service itself, which reads and changes accounts."""
        with self._pool.connection() as connection, connection.transaction():
            yield connection

    @contextlib.contextmanager
    def client(self, token_hash: bytes, *, is_snapshot: bool = False) -> Iterator[psycopg.Connection[Any]]:
        """A transaction that sees and changes only what the device of a token may."""
        with self._pool.connection() as connection, connection.transaction():
            if is_snapshot:
                connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
            connection.execute(
                "SELECT set_config('hub.token', %s, true) AS token, set_config('role', %s, true) AS role",
                (token_hash.hex(), CLIENT_ROLE),
            )
            yield connection

    def check(self) -> bool:
        """True where the database answers."""
        try:
            with self.service() as connection:
                return connection.execute("SELECT 1").fetchone() is not None
        except psycopg.Error:
            return False
