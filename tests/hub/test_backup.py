"""The files of `containers/` and the page about running a hub: roles, dumps, and what a forget means for a dump."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Callable
from pathlib import Path

import psycopg
from click.testing import CliRunner

from engram.cli.main import engram
from engram.hub.server.hub_database import Database
from tests.hub.machines import Hub, Machine
from tests.hub.postgres import PASSWORD, Postgres

Make = Callable[..., Machine]
REPO = Path(__file__).resolve().parents[2]
PAGE = (REPO / "docs" / "hub-server.md").read_text(encoding="utf-8")


def test_the_database_of_the_containers_serves_a_hub_without_a_superuser(postgres: Postgres) -> None:
    environment = {**os.environ, "PATH": f"{postgres.programs}:{os.environ['PATH']}", "HUB_PASSWORD": "it's one"}
    environment |= {"PGHOST": "127.0.0.1", "PGPORT": str(postgres.port), "PGPASSWORD": PASSWORD}
    with psycopg.connect(postgres.admin_dsn, autocommit=True) as connection:
        connection.execute("DROP DATABASE IF EXISTS engram_hub")
        connection.execute("DROP ROLE IF EXISTS engram_hub")
        if connection.execute("SELECT 1 FROM pg_roles WHERE rolname = 'engram_hub_client'").fetchone():
            # Another test's hub of this server made it; in a container nobody has.
            connection.execute("ALTER ROLE engram_hub_client RENAME TO kept_client")
        try:
            script = REPO / "containers" / "database.sh"
            subprocess.run(["sh", str(script)], env=environment, check=True, timeout=60, capture_output=True)
            dsn = rf"host=127.0.0.1 port={postgres.port} user=engram_hub password='it\'s one' dbname=engram_hub"
            database = Database(dsn).open()
            try:
                assert database.check()
                with database.service() as service:
                    row = service.execute("SELECT rolsuper FROM pg_roles WHERE rolname = current_user").fetchone()
                    assert row is not None
                    assert not row.rolsuper
            finally:
                database.close()
        finally:
            connection.execute("DROP DATABASE IF EXISTS engram_hub")
            connection.execute("DROP ROLE IF EXISTS engram_hub_client")
            connection.execute("DROP ROLE IF EXISTS engram_hub")
            if connection.execute("SELECT 1 FROM pg_roles WHERE rolname = 'kept_client'").fetchone():
                connection.execute("ALTER ROLE kept_client RENAME TO engram_hub_client")


def test_a_dump_that_is_restored_holds_what_was_forgotten_until_the_next_round(
    postgres: Postgres, hub: Hub, make_machine: Make, tmp_path: Path
) -> None:
    laptop, desktop = make_machine("laptop"), make_machine("desktop")
    laptop.join(hub, hub.invite("ada"))
    gone, kept = laptop.save("forgotten after the dump"), laptop.save("stays")
    laptop.sync()
    desktop.join(hub, laptop.code())
    desktop.sync()
    name = re.search(r"dbname=(\w+)", hub.database.dsn)
    assert name is not None
    dump = postgres.folder / "hub.dump"
    server = ("-h", "127.0.0.1", "-p", str(postgres.port), "-U", "postgres")
    postgres.run("pg_dump", *server, "-Fc", "-f", str(dump), name[1])
    laptop.forget(gone.episode_id)
    laptop.sync()
    desktop.sync()

    # As the page says: into an empty schema, by the superuser, so that owners and rights come back.
    with psycopg.connect(postgres.admin_dsn.replace("dbname=postgres", f"dbname={name[1]}"), autocommit=True) as admin:
        admin.execute("DROP SCHEMA hub CASCADE")
    postgres.run("pg_restore", *server, "--exit-on-error", "-d", name[1], str(dump))
    living = "SELECT count(*) AS n FROM hub.statement WHERE NOT is_forgotten"
    assert hub.rows(living)[0].n == 2
    for machine in (laptop, desktop, laptop):
        machine.sync()
    assert (
        hub.rows("SELECT 1 FROM hub.statement WHERE NOT is_forgotten AND memory_id = %s", bytes.fromhex(gone.stable_id))
        == []
    )
    for machine in (laptop, desktop):
        assert machine.texts() == {kept.content}
    with hub.database.client(b"nobody") as connection:
        row = connection.execute("SELECT count(*) AS n FROM hub.statement").fetchone()
        assert row is not None
        assert row.n == 0


def test_every_command_of_the_containers_and_their_page_is_there() -> None:
    files = [REPO / "containers" / name for name in ("Dockerfile", "compose.yaml")]
    text = "\n".join(file.read_text(encoding="utf-8") for file in files).replace('", "', " ")
    commands = set(re.findall(r"engram hub (\w+)", text + PAGE))
    assert {"serve", "work", "invite"} <= commands
    for command in commands:
        assert CliRunner().invoke(engram, ["hub", command, "--help"]).exit_code == 0, command
    assert "8750" in text
    assert "hub:8750" in (REPO / "containers" / "Caddyfile").read_text(encoding="utf-8")
    for variable in re.findall(r"\$\{(\w+):\?", text):
        assert variable in PAGE, variable
