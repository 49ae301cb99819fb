"""The second step of a hub's tables: spaces of teams, with invitations, seats and reports.

Teams are made and changed through these functions alone. Each finds the asker by the token that the transaction named
and checks their role by itself, so that an error in the service opens nothing. What is missing and what is somebody
else's give the same answer: NULL, false or no row.
"""

from __future__ import annotations

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

#: The step: tables, functions, rights.
TEAMS = (_TABLES, _FUNCTIONS, _RIGHTS)
