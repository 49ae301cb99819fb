"""The tables of a hub in PostgreSQL: numbered steps, row-level security, and the functions that move its counters.

Everything lies in the schema ``hub`` and belongs to the role that the service logs in as, which needs no superuser.
Statements are read and written as ``engram_hub_client``, a role that cannot log in and sees only what the policies let
the device see whose token the transaction named. That is the second wall, behind the checks of the service.
"""

from __future__ import annotations

import psycopg
from psycopg import sql

from engram.errors import HubError
from engram.hub.server.schema_teams import TEAMS

#: The role as which statements are read and written.
CLIENT_ROLE = "engram_hub_client"
#: Held while the tables are made or changed: any number of services may start at once.
_MIGRATION_LOCK = 4_711_011_970
#: The oldest PostgreSQL that is supported.
MIN_SERVER_VERSION = 150_000

_TABLES = """
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

#: SECURITY DEFINER with a pinned search path: they alone read accounts and move counters for the client's role.
_FUNCTIONS = """
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

#: The steps in order: the first makes version 1. A step that was released never changes.
STEPS: tuple[tuple[str, ...], ...] = ((_TABLES, _FUNCTIONS, _POLICIES), TEAMS)


def migrate(connection: psycopg.Connection[tuple[object, ...]]) -> int:
    """Make or bring on the tables; returns the version. Any number of services may call this at once.

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
                raise HubError(f"the hub's database is of version {version}, newer than this program: update Engram")
            for number, step in enumerate(STEPS[version:], version + 1):
                for part in step:
                    connection.execute(part.encode())
                connection.execute("INSERT INTO hub.version VALUES (%s)", (number,))
    except psycopg.errors.InsufficientPrivilege as error:
        raise HubError(
            f"the hub's role lacks a right: {error.diag.message_primary}. A superuser can run once: CREATE ROLE "
            f"{CLIENT_ROLE} NOLOGIN; GRANT {CLIENT_ROLE} TO the hub's role; GRANT CREATE ON DATABASE … TO it"
        ) from error
    return len(STEPS)


def _make_role(connection: psycopg.Connection[tuple[object, ...]]) -> None:
    """Make the client's role where it is missing, and let the service take it on."""
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
