"""The service's pool of connections to PostgreSQL, its transactions, and its tables."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import psycopg
from psycopg import sql
from psycopg.rows import namedtuple_row
from psycopg_pool import ConnectionPool

from engram.errors import HubError

# -- The second migration step of a hub's tables: spaces for teams, with invitations, seats and reports.
#
# Teams are created and changed only through these functions. Each function identifies the client by the token that is
# set in the transaction and checks the client's role itself, so that an error in the service exposes nothing. Missing
# items and other people's items yield the same result: NULL, false or no row.

_TABLES = """
ALTER TABLE hub.code ADD COLUMN ns_id bigint REFERENCES hub.namespace,
    ADD COLUMN role integer CHECK (role BETWEEN 1 AND 3);
CREATE TABLE hub.report (
    ns_id bigint NOT NULL REFERENCES hub.namespace, author bigint NOT NULL, memory_id bytea NOT NULL
        CHECK (length(memory_id) = 8),
    reporter bigint NOT NULL REFERENCES hub.member, reason text NOT NULL
        CHECK (reason IN ('secret', 'wrong', 'instruction', 'other')),
    made_at timestamptz NOT NULL DEFAULT now(), PRIMARY KEY (ns_id, author, memory_id, reporter));
ALTER TABLE hub.report ENABLE ROW LEVEL SECURITY;
"""

_FUNCTIONS = """
CREATE FUNCTION hub.team_role(ns bigint) RETURNS integer
    LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    SELECT s.role FROM hub.seat s JOIN hub.asker() a ON a.member_id = s.member_id
        JOIN hub.namespace n ON n.ns_id = s.ns_id AND n.kind = 'team' WHERE s.ns_id = ns $$;
CREATE FUNCTION hub.make_team(new_id bigint, new_name text, sealed boolean, new_key bytea, most integer)
    RETURNS boolean
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    DECLARE me bigint;
    BEGIN
        SELECT a.member_id INTO me FROM hub.asker() a;
        IF me IS NULL THEN RETURN NULL; END IF;
        PERFORM 1 FROM hub.member m WHERE m.member_id = me FOR UPDATE;
        IF (SELECT count(*) FROM hub.seat s JOIN hub.namespace n USING (ns_id)
                WHERE s.member_id = me AND n.kind = 'team' AND s.role = 3) >= most THEN RETURN false; END IF;
        INSERT INTO hub.namespace (ns_id, name, kind, is_sealed, key_id)
            VALUES (new_id, new_name, 'team', sealed, new_key);
        INSERT INTO hub.seat VALUES (new_id, me, 3);
        RETURN true;
    END $$;
CREATE FUNCTION hub.add_invitation(
        ns bigint, new_role integer, digest bytea, new_bundle bytea, seconds double precision) RETURNS boolean
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    BEGIN
        IF hub.team_role(ns) IS DISTINCT FROM 3 THEN RETURN false; END IF;
        INSERT INTO hub.code (code_hash, member_id, expires_at, bundle, ns_id, role)
            SELECT digest, a.member_id, now() + make_interval(secs => seconds), new_bundle, ns, new_role
            FROM hub.asker() a;
        RETURN true;
    END $$;
CREATE FUNCTION hub.redeem(digest bytea, OUT ns bigint, OUT bundle bytea)
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    DECLARE me bigint; given integer;
    BEGIN
        SELECT a.member_id INTO me FROM hub.asker() a;
        IF me IS NULL THEN RETURN; END IF;
        UPDATE hub.code c SET used_at = now() FROM hub.seat s, hub.member m
            WHERE c.code_hash = digest AND c.used_at IS NULL AND c.expires_at > now() AND c.ns_id IS NOT NULL
                AND s.ns_id = c.ns_id AND s.member_id = c.member_id AND s.role = 3
                AND m.member_id = c.member_id AND m.gone_at IS NULL
            RETURNING c.ns_id, c.bundle, c.role INTO redeem.ns, redeem.bundle, given;
        IF redeem.ns IS NULL THEN RETURN; END IF;
        UPDATE hub.code c SET bundle = '' WHERE c.code_hash = digest;
        INSERT INTO hub.seat AS s VALUES (redeem.ns, me, given)
            ON CONFLICT (ns_id, member_id) DO UPDATE SET role = greatest(s.role, excluded.role);
    END $$;
CREATE FUNCTION hub.team_members(ns bigint) RETURNS TABLE (member_id bigint, name text, role integer, has_left boolean)
    LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    SELECT m.member_id, m.name, coalesce(s.role, 0), s.role IS NULL OR m.gone_at IS NOT NULL
    FROM (SELECT x.member_id FROM hub.seat x WHERE x.ns_id = ns
        UNION SELECT t.author FROM hub.statement t WHERE t.ns_id = ns) AS known
        JOIN hub.member m USING (member_id)
        LEFT JOIN hub.seat s ON s.ns_id = ns AND s.member_id = m.member_id
    WHERE hub.team_role(ns) >= 1 ORDER BY m.name $$;
CREATE FUNCTION hub.set_role(ns bigint, member bigint, new_role integer) RETURNS text
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    DECLARE me bigint; mine integer; theirs integer;
    BEGIN
        PERFORM 1 FROM hub.namespace n WHERE n.ns_id = ns AND n.kind = 'team' FOR UPDATE;
        SELECT a.member_id INTO me FROM hub.asker() a;
        mine := hub.team_role(ns);
        IF mine IS NULL THEN RETURN 'missing'; END IF;
        IF mine < 3 AND NOT (member = me AND new_role = 0) THEN RETURN 'forbidden'; END IF;
        SELECT s.role INTO theirs FROM hub.seat s WHERE s.ns_id = ns AND s.member_id = member;
        IF theirs IS NULL THEN RETURN 'missing'; END IF;
        IF theirs = 3 AND new_role < 3 AND
            (SELECT count(*) FROM hub.seat s JOIN hub.member m USING (member_id)
                WHERE s.ns_id = ns AND s.role = 3 AND m.gone_at IS NULL AND m.member_id <> member) = 0
            THEN RETURN 'last'; END IF;
        IF new_role = 0 THEN
            DELETE FROM hub.seat s WHERE s.ns_id = ns AND s.member_id = member;
            DELETE FROM hub.code c WHERE c.ns_id = ns AND c.member_id = member;
        ELSE
            UPDATE hub.seat s SET role = new_role WHERE s.ns_id = ns AND s.member_id = member;
        END IF;
        RETURN 'done';
    END $$;
CREATE FUNCTION hub.is_gone(ns bigint, by_author bigint, memory bytea) RETURNS boolean
    LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    SELECT coalesce(bool_or(t.is_forgotten), true) FROM hub.statement t
    WHERE t.ns_id = ns AND t.author = by_author AND t.memory_id = memory $$;
CREATE FUNCTION hub.add_report(ns bigint, by_author bigint, memory bytea, why text) RETURNS boolean
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    BEGIN
        IF hub.team_role(ns) IS NULL OR hub.is_gone(ns, by_author, memory) THEN RETURN false; END IF;
        INSERT INTO hub.report (ns_id, author, memory_id, reporter, reason)
            SELECT ns, by_author, memory, a.member_id, why FROM hub.asker() a
            ON CONFLICT (ns_id, author, memory_id, reporter) DO UPDATE SET reason = excluded.reason;
        RETURN true;
    END $$;
CREATE FUNCTION hub.team_reports(ns bigint)
    RETURNS TABLE (author bigint, memory_id bytea, reporter text, reason text, made_at timestamptz)
    LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    SELECT r.author, r.memory_id, m.name, r.reason, r.made_at
    FROM hub.report r JOIN hub.member m ON m.member_id = r.reporter
    WHERE r.ns_id = ns AND hub.team_role(ns) = 3 AND NOT hub.is_gone(r.ns_id, r.author, r.memory_id)
    ORDER BY r.made_at LIMIT 1000 $$;
CREATE FUNCTION hub.drop_reports(ns bigint, by_author bigint, memory bytea) RETURNS boolean
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    BEGIN
        IF hub.team_role(ns) IS DISTINCT FROM 3 THEN RETURN false; END IF;
        DELETE FROM hub.report r WHERE r.ns_id = ns AND r.author = by_author AND r.memory_id = memory;
        RETURN true;
    END $$;
"""

_RIGHTS = """
REVOKE ALL ON ALL FUNCTIONS IN SCHEMA hub FROM PUBLIC;
GRANT EXECUTE ON FUNCTION hub.team_role, hub.make_team, hub.add_invitation, hub.redeem, hub.team_members, hub.set_role,
    hub.add_report, hub.team_reports, hub.drop_reports TO engram_hub_client;
"""

#: The second step: tables, functions, rights.
TEAMS = (_TABLES, _FUNCTIONS, _RIGHTS)

#: The third step: a team's last member can dissolve it. The codes are locked first, as ``hub.redeem`` does, so that
#: somebody who joins at the same moment is a member before the team is locked and counted.
DISSOLVING = (
    """
CREATE FUNCTION hub.dissolve_team(ns bigint) RETURNS text
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    DECLARE me bigint;
    BEGIN
        IF hub.team_role(ns) IS NULL THEN RETURN 'missing'; END IF;
        PERFORM 1 FROM hub.code c WHERE c.ns_id = ns ORDER BY c.code_hash FOR UPDATE;
        PERFORM 1 FROM hub.namespace n WHERE n.ns_id = ns FOR UPDATE;
        IF hub.team_role(ns) IS NULL THEN RETURN 'missing'; END IF;
        SELECT a.member_id INTO me FROM hub.asker() a;
        IF EXISTS (SELECT 1 FROM hub.seat s JOIN hub.member m USING (member_id)
                WHERE s.ns_id = ns AND s.member_id <> me AND m.gone_at IS NULL) THEN RETURN 'others'; END IF;
        DELETE FROM hub.report r WHERE r.ns_id = ns;
        DELETE FROM hub.statement t WHERE t.ns_id = ns;
        DELETE FROM hub.mark k WHERE k.ns_id = ns;
        DELETE FROM hub.code c WHERE c.ns_id = ns;
        DELETE FROM hub.seat s WHERE s.ns_id = ns;
        DELETE FROM hub.namespace n WHERE n.ns_id = ns;
        RETURN 'done';
    END $$;
""",
    """
REVOKE ALL ON FUNCTION hub.dissolve_team FROM PUBLIC;
GRANT EXECUTE ON FUNCTION hub.dissolve_team TO engram_hub_client;
""",
)


# -- The tables of a hub in PostgreSQL: numbered migration steps, row-level security, and the functions that advance its
# counters.
#
# Everything is in the schema ``hub`` and belongs to the role with which the service logs in, which need not be a
# superuser. Statements are read and written as ``engram_hub_client``, a role that cannot log in and sees only what the
# policies allow for the device with the token that is set in the transaction. This is a second line of defence, behind
# the service's own checks.

#: The role that reads and writes statements.
CLIENT_ROLE = "engram_hub_client"
#: Lock held while tables are created or changed, because any number of services may start at once.
_MIGRATION_LOCK = 4_711_011_970
#: The oldest PostgreSQL that is supported.
MIN_SERVER_VERSION = 150_000

_SCHEMA_TABLES = """
CREATE TABLE hub.member (
    member_id bigint PRIMARY KEY, name text NOT NULL UNIQUE, made_at timestamptz NOT NULL DEFAULT now(),
    gone_at timestamptz);
CREATE TABLE hub.device (
    device_id bigint PRIMARY KEY, member_id bigint NOT NULL REFERENCES hub.member, name text NOT NULL,
    token_hash bytea NOT NULL UNIQUE, push_id bytea, made_at timestamptz NOT NULL DEFAULT now(),
    seen_at timestamptz NOT NULL DEFAULT now(), gone_at timestamptz);
CREATE INDEX device_member ON hub.device (member_id);
CREATE TABLE hub.code (
    code_hash bytea PRIMARY KEY, member_id bigint NOT NULL REFERENCES hub.member, expires_at timestamptz NOT NULL,
    bundle bytea NOT NULL DEFAULT '', used_at timestamptz);
CREATE TABLE hub.namespace (
    ns_id bigint PRIMARY KEY, name text NOT NULL, kind text NOT NULL CHECK (kind IN ('private', 'team')),
    is_sealed boolean NOT NULL, key_id bytea NOT NULL DEFAULT '', head bigint NOT NULL DEFAULT 0,
    row_count bigint NOT NULL DEFAULT 0, most_rows bigint NOT NULL DEFAULT 2000000,
    most_body integer NOT NULL DEFAULT 65536, made_at timestamptz NOT NULL DEFAULT now());
CREATE TABLE hub.seat (
    ns_id bigint NOT NULL REFERENCES hub.namespace, member_id bigint NOT NULL REFERENCES hub.member,
    role integer NOT NULL CHECK (role BETWEEN 1 AND 3), PRIMARY KEY (ns_id, member_id));
CREATE INDEX seat_member ON hub.seat (member_id);
CREATE TABLE hub.mark (
    ns_id bigint NOT NULL REFERENCES hub.namespace, seq bigint NOT NULL, mark bytea NOT NULL,
    PRIMARY KEY (ns_id, seq));
CREATE TABLE hub.statement (
    ns_id bigint NOT NULL REFERENCES hub.namespace, author bigint NOT NULL, memory_id bytea NOT NULL
        CHECK (length(memory_id) = 8),
    device_id bigint NOT NULL REFERENCES hub.device, seq bigint NOT NULL, hlc bigint NOT NULL,
    version bigint NOT NULL, is_forgotten boolean NOT NULL, body bytea NOT NULL,
    PRIMARY KEY (ns_id, author, memory_id, device_id));
CREATE UNIQUE INDEX statement_order ON hub.statement (ns_id, seq);
ALTER TABLE hub.statement ALTER COLUMN body SET STORAGE EXTERNAL;
"""

#: SECURITY DEFINER functions with a pinned search path. They are the only way for a client to read accounts and advance
#: counters.
_SCHEMA_FUNCTIONS = """
CREATE FUNCTION hub.asker(OUT device_id bigint, OUT member_id bigint)
    LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    SELECT d.device_id, d.member_id FROM hub.device d JOIN hub.member m USING (member_id)
    WHERE d.token_hash = decode(coalesce(current_setting('hub.token', true), ''), 'hex')
        AND d.gone_at IS NULL AND m.gone_at IS NULL $$;
CREATE FUNCTION hub.my_device() RETURNS bigint
    LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    SELECT device_id FROM hub.asker() $$;
CREATE FUNCTION hub.my_member() RETURNS bigint
    LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    SELECT member_id FROM hub.asker() $$;
CREATE FUNCTION hub.my_spaces(min_role integer) RETURNS SETOF bigint
    LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    SELECT s.ns_id FROM hub.seat s JOIN hub.asker() a ON a.member_id = s.member_id WHERE s.role >= min_role $$;
CREATE FUNCTION hub.head_of(ns bigint) RETURNS bigint
    LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    SELECT head FROM hub.namespace WHERE ns_id = ns AND ns_id IN (SELECT hub.my_spaces(1)) $$;
CREATE FUNCTION hub.last_mark(ns bigint, upto bigint, OUT seq bigint, OUT mark bytea)
    LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    SELECT m.seq, m.mark FROM hub.mark m
    WHERE m.ns_id = ns AND m.seq <= upto AND ns IN (SELECT hub.my_spaces(1)) ORDER BY m.seq DESC LIMIT 1 $$;
CREATE FUNCTION hub.begin_push(ns bigint, last_push bytea, OUT head bigint, OUT row_count bigint,
        OUT most_rows bigint, OUT most_body integer, OUT role integer, OUT is_copy boolean)
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    DECLARE mine bigint; me bigint; known bytea;
    BEGIN
        SELECT a.device_id, a.member_id INTO mine, me FROM hub.asker() a;
        SELECT s.role INTO begin_push.role FROM hub.seat s WHERE s.ns_id = ns AND s.member_id = me;
        IF begin_push.role IS NULL THEN RETURN; END IF;
        SELECT n.head, n.row_count, n.most_rows, n.most_body
            INTO begin_push.head, begin_push.row_count, begin_push.most_rows, begin_push.most_body
            FROM hub.namespace n WHERE n.ns_id = ns FOR UPDATE;
        -- Whoever was expelled while this waited for the lock has no role any more.
        SELECT a.member_id INTO me FROM hub.asker() a;
        SELECT s.role INTO begin_push.role FROM hub.seat s WHERE s.ns_id = ns AND s.member_id = me;
        IF NOT FOUND THEN begin_push.role := NULL; RETURN; END IF;
        SELECT d.push_id INTO known FROM hub.device d WHERE d.device_id = mine FOR UPDATE;
        is_copy := known IS NOT NULL AND known IS DISTINCT FROM last_push;
    END $$;
CREATE FUNCTION hub.end_push(ns bigint, used bigint, more_rows bigint, new_push bytea, new_mark bytea) RETURNS bigint
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    DECLARE reached bigint; mine bigint;
    BEGIN
        IF ns NOT IN (SELECT hub.my_spaces(1)) THEN RETURN NULL; END IF;
        SELECT a.device_id INTO mine FROM hub.asker() a;
        UPDATE hub.namespace n SET head = head + greatest(used, 0), row_count = row_count + more_rows
            WHERE n.ns_id = ns RETURNING head INTO reached;
        UPDATE hub.device SET push_id = new_push, seen_at = now() WHERE device_id = mine;
        INSERT INTO hub.mark VALUES (ns, reached, new_mark) ON CONFLICT (ns_id, seq) DO UPDATE SET mark = new_mark;
        PERFORM pg_notify('hub_changed', ns::text);
        RETURN reached;
    END $$;
"""

_POLICIES = """
ALTER TABLE hub.statement ENABLE ROW LEVEL SECURITY;
CREATE POLICY reading ON hub.statement FOR SELECT TO engram_hub_client
    USING (ns_id IN (SELECT hub.my_spaces(1)));
CREATE POLICY adding ON hub.statement FOR INSERT TO engram_hub_client
    WITH CHECK (device_id = (SELECT hub.my_device())
        AND ((author = (SELECT hub.my_member()) AND ns_id IN (SELECT hub.my_spaces(2)))
            OR (is_forgotten AND ns_id IN (SELECT hub.my_spaces(3)))));
CREATE POLICY replacing ON hub.statement FOR UPDATE TO engram_hub_client
    USING (device_id = (SELECT hub.my_device()))
    WITH CHECK (device_id = (SELECT hub.my_device())
        AND ((author = (SELECT hub.my_member()) AND ns_id IN (SELECT hub.my_spaces(2)))
            OR (is_forgotten AND ns_id IN (SELECT hub.my_spaces(3)))));
CREATE POLICY erasing ON hub.statement FOR DELETE TO engram_hub_client
    USING ((author = (SELECT hub.my_member()) AND ns_id IN (SELECT hub.my_spaces(2)))
        OR ns_id IN (SELECT hub.my_spaces(3)));
REVOKE ALL ON SCHEMA hub FROM PUBLIC;
REVOKE ALL ON ALL FUNCTIONS IN SCHEMA hub FROM PUBLIC;
GRANT USAGE ON SCHEMA hub TO engram_hub_client;
GRANT SELECT, INSERT, UPDATE, DELETE ON hub.statement TO engram_hub_client;
GRANT EXECUTE ON FUNCTION hub.my_device, hub.my_member, hub.my_spaces, hub.head_of, hub.last_mark, hub.begin_push,
    hub.end_push TO engram_hub_client;
"""

#: The steps in order; the first one creates version 1. A released step never changes.
STEPS: tuple[tuple[str, ...], ...] = ((_SCHEMA_TABLES, _SCHEMA_FUNCTIONS, _POLICIES), TEAMS, DISSOLVING)


def migrate(connection: psycopg.Connection[tuple[object, ...]]) -> int:
    """Create or migrate the tables, and return their version. Any number of services may call this at the same time.

    Raises:
        HubError: the server is too old, the database is newer than this program, or a right is missing.
    """
    if connection.info.server_version < MIN_SERVER_VERSION:
        raise HubError(f"PostgreSQL {connection.info.server_version // 10_000} is too old: a hub needs 15 or newer")
    try:
        with connection.transaction():
            connection.execute("SELECT pg_advisory_xact_lock(%s)", (_MIGRATION_LOCK,))
            _make_role(connection)
            connection.execute("CREATE SCHEMA IF NOT EXISTS hub")
            connection.execute("CREATE TABLE IF NOT EXISTS hub.version (number integer NOT NULL)")
            (newest,) = connection.execute("SELECT max(number) FROM hub.version").fetchone() or (None,)
            version = 0 if newest is None else int(str(newest))
            if version > len(STEPS):
                raise HubError(f"the hub's database has version {version}, newer than this program: update Engram")
            for number, step in enumerate(STEPS[version:], version + 1):
                for part in step:
                    connection.execute(part.encode())
                connection.execute("INSERT INTO hub.version VALUES (%s)", (number,))
    except psycopg.errors.InsufficientPrivilege as error:
        raise HubError(
            f"the hub's role lacks a privilege: {error.diag.message_primary}. A superuser must run once: CREATE ROLE "
            f"{CLIENT_ROLE} NOLOGIN; GRANT {CLIENT_ROLE} TO the hub's role; GRANT CREATE ON DATABASE … TO it"
        ) from error
    return len(STEPS)


def _make_role(connection: psycopg.Connection[tuple[object, ...]]) -> None:
    """Create the client's role if it is missing, and let the service assume it."""
    role = sql.Identifier(CLIENT_ROLE)
    if connection.execute("SELECT 1 FROM pg_roles WHERE rolname = %s", (CLIENT_ROLE,)).fetchone() is None:
        connection.execute(sql.SQL("CREATE ROLE {} NOLOGIN").format(role))
    asked = connection.execute("SELECT pg_has_role(current_user, %s, 'MEMBER')", (CLIENT_ROLE,))
    (is_member,) = asked.fetchone() or (False,)
    is_super = connection.info.parameter_status("is_superuser") == "on"
    if not is_member or not is_super:
        connection.execute("SAVEPOINT granting")
        try:
            connection.execute(sql.SQL("GRANT {} TO CURRENT_USER").format(role))
        except psycopg.Error:
            connection.execute("ROLLBACK TO SAVEPOINT granting")
            if not is_member:
                raise


MAX_CONNECTIONS = 9
#: How long a request waits for a connection, and how long a statement may take, in seconds.
WAIT_SECONDS, STATEMENT_SECONDS = 10.0, 60.0


class Database:
    def __init__(self, dsn: str, *, is_pooled: bool = False) -> None:
        """Set up without connecting.

        Args:
            dsn: the libpq connection string; "" uses PGHOST and the other variables.
            is_pooled: a pooler in transaction mode is used, so nothing is prepared on the server.
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
        """Connect, and create or migrate the tables. Raises HubError."""
        try:
            with psycopg.connect(self.dsn, connect_timeout=10) as connection:
                migrate(connection)
        except psycopg.Error as error:
            reason = str(error).strip().splitlines()[0].rstrip(".")
            advice = f"{'correct' if self.dsn else 'give'} its address with --database or ENGRAM_HUB_DATABASE"
            example = "" if self.dsn else ', such as --database "host=127.0.0.1 dbname=engram_hub"'
            raise HubError(f"the hub's database can't be used: {reason}; {advice}{example}") from error
        self._pool.open()
        return self

    def close(self) -> None:
        self._pool.close()

    @contextlib.contextmanager
    def service(self) -> Iterator[psycopg.Connection[Any]]:
        """A transaction of the service itself, which reads and changes accounts."""
        with self._pool.connection() as connection, connection.transaction():
            yield connection

    @contextlib.contextmanager
    def client(self, token_hash: bytes, *, is_snapshot: bool = False) -> Iterator[psycopg.Connection[Any]]:
        """A transaction that can read and change only what a token's device may."""
        with self._pool.connection() as connection, connection.transaction():
            if is_snapshot:
                connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
            connection.execute(
                "SELECT set_config('hub.token', %s, true) AS token, set_config('role', %s, true) AS role",
                (token_hash.hex(), CLIENT_ROLE),
            )
            yield connection

    def check(self) -> bool:
        try:
            with self.service() as connection:
                return connection.execute("SELECT 1").fetchone() is not None
        except psycopg.Error:
            return False
