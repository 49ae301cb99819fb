"""Projects, sessions and pauses."""

from __future__ import annotations

import secrets
from dataclasses import dataclass

from engram.enums import Actor
from engram.models.episode_changes import move_episodes_of_session
from engram.models.pauses import note_end, note_pause
from engram.models.project_names import MAX_NAME_CHARACTERS, is_name_taken
from engram.models.store import Store
from engram.models.transaction import Reader, Row, Tx


@dataclass(frozen=True, slots=True)
class ProjectRow:
    """A project as it is stored."""

    id: int
    identity: str
    #: Unique, for display.
    name: str
    root: str


@dataclass(frozen=True, slots=True)
class SessionRow:
    """A session as it is stored."""

    id: int
    session_id: str
    agent: str
    project_id: int | None
    is_global: bool
    cwd: str
    branch: str
    first_at_ms: int
    last_at_ms: int
    message_count: int
    extracted_messages: int
    extractions: int
    rolling_summary: str
    #: When it was last extracted; 0 for never.
    extracted_at_ms: int = 0

    @property
    def is_settled(self) -> bool:
        """True once it is known where it belongs: to a project, or everywhere."""
        return self.project_id is not None or self.is_global


_PROJECT = "SELECT id, identity, name, root FROM project"
_SESSION = (
    "SELECT id, session_id, agent, project_id, is_global, cwd, branch, first_at_ms, last_at_ms, message_count, "
    "extracted_messages, extractions, rolling_summary, extracted_at_ms FROM session"
)


def find_project(store: Reader, name_or_identity: str) -> ProjectRow | None:
    """A project by its display name, its identity, or the identity of a folder that was joined to it."""
    found = store.row(f"{_PROJECT} WHERE name = ? OR identity = ?", (name_or_identity, name_or_identity))
    return _linked_project(store, name_or_identity) if found is None else ProjectRow(*found)


def find_project_of_identity(store: Reader, identity: str) -> ProjectRow | None:
    """A project by its identity alone, or that of a folder that was joined to it."""
    found = store.row(f"{_PROJECT} WHERE identity = ?", (identity,))
    return _linked_project(store, identity) if found is None else ProjectRow(*found)


def _linked_project(store: Reader, identity: str) -> ProjectRow | None:
    found = store.row(f"{_PROJECT} WHERE id = (SELECT project_id FROM project_folder WHERE identity = ?)", (identity,))
    return None if found is None else ProjectRow(*found)


def known_roots(store: Reader) -> list[str]:
    """The folders of every project, those that were joined to one included."""
    return [str(row[0]) for row in store.rows("SELECT root FROM project UNION SELECT root FROM project_folder")]


def project_by_id(store: Reader, project_id: int) -> ProjectRow | None:
    """A project by its row id."""
    found = store.row(f"{_PROJECT} WHERE id = ?", (project_id,))
    return None if found is None else ProjectRow(*found)


def list_projects(store: Reader) -> list[ProjectRow]:
    """Every project, by name."""
    return [ProjectRow(*row) for row in store.rows(f"{_PROJECT} ORDER BY name")]


def ensure_project(tx: Tx, identity: str, wanted_name: str, root: str = "") -> ProjectRow:
    """The project of an identity, made where it is new.

    The name is for display: one line of at most 60 characters without secrets and hidden characters; one that another
    project has or had gets a number.
    """
    if (found := find_project_of_identity(tx, identity)) is not None:
        return found
    # Not above: hooks and short commands never make a project, and the rules take a while to load.
    from engram.redaction import redact
    from engram.redaction.display import visible

    wanted_name = " ".join(visible(redact(wanted_name)).split())[:MAX_NAME_CHARACTERS].rstrip() or "project"
    name, number = wanted_name, 1
    while is_name_taken(tx, name, {identity}):
        number += 1
        name = f"{wanted_name[: MAX_NAME_CHARACTERS - 6]}-{number}"
    row_id = tx.insert(
        "INSERT INTO project (stable_id, identity, name, root, updated_at_ms) VALUES (?, ?, ?, ?, ?)",
        (secrets.token_hex(8), identity, name, root, tx.now_ms()),
    )
    return ProjectRow(row_id, identity, name, root)


def find_session(store: Reader, session_id: str) -> SessionRow | None:
    """A session by its id."""
    found = store.row(f"{_SESSION} WHERE session_id = ?", (session_id,))
    return None if found is None else _session(found)


def list_sessions(store: Reader, limit: int = 1_000_000) -> list[SessionRow]:
    """Sessions, the latest first."""
    return [_session(row) for row in store.rows(f"{_SESSION} ORDER BY last_at_ms DESC LIMIT ?", (limit,))]


def _session(row: Row) -> SessionRow:
    return SessionRow(row[0], row[1], row[2], row[3], bool(row[4]), *row[5:])


def ensure_session(
    tx: Tx, session_id: str, *, agent: str, project_id: int | None, is_global: bool, cwd: str, at_ms: int
) -> SessionRow:
    """The session of an id, made where it is new; its project never changes once it has one."""
    found = find_session(tx, session_id)
    if found is None:
        tx.insert(
            "INSERT INTO session (session_id, agent, project_id, is_global, cwd, first_at_ms, last_at_ms) "
            "VALUES (?, ?, ?, ?, ?, ?, ?)",
            (session_id, agent, project_id, int(is_global), cwd, at_ms, at_ms),
        )
    elif not found.is_settled and (project_id is not None or is_global):
        tx.run(
            "UPDATE session SET project_id = ?, is_global = ?, cwd = ? WHERE id = ?",
            (project_id, int(is_global), cwd, found.id),
        )
        tx.run("UPDATE turn SET project_id = ? WHERE session_ref = ?", (project_id, found.id))
        tx.run("UPDATE passage SET project_id = ? WHERE session_ref = ?", (project_id, found.id))
        # A queued prompt may have been extracted before any line told the folder; its vectors are made anew.
        move_episodes_of_session(tx, found.id, project_id, "its folder became known", actor=Actor.TIDYING)
    made = find_session(tx, session_id)
    assert made is not None
    return made


def touch_session(tx: Tx, row_id: int, *, at_ms: int, branch: str, new_messages: int) -> None:
    """Note that a session went on."""
    tx.run(
        "UPDATE session SET last_at_ms = max(last_at_ms, ?), branch = CASE WHEN ? = '' THEN branch ELSE ? END, "
        "message_count = message_count + ? WHERE id = ?",
        (at_ms, branch, branch, new_messages, row_id),
    )


def known_values(store: Reader, session_id: str) -> frozenset[bytes]:
    """Salted hashes of ``.env`` values seen in a session."""
    rows = store.rows(
        "SELECT hash FROM known_value WHERE session_ref = (SELECT id FROM session WHERE session_id = ?)", (session_id,)
    )
    return frozenset(bytes(row[0]) for row in rows)


def add_known_values(tx: Tx, session_ref: int, hashes: frozenset[bytes]) -> None:
    """Remember salted hashes of ``.env`` values."""
    tx.run_many("INSERT OR IGNORE INTO known_value VALUES (?, ?)", [(session_ref, one) for one in sorted(hashes)])


def salt(store: Reader) -> bytes:
    """This machine's salt for hashes of ``.env`` values."""
    return bytes.fromhex(str(store.value("SELECT value FROM meta WHERE key = 'salt'")))


def pause(store: Store, scope: str, until_ms: int) -> None:
    """Stop reading, storing and injecting: ``scope`` is a project's identity or "" for everything."""
    with store.transaction() as tx:
        tx.run("INSERT OR REPLACE INTO pause VALUES (?, ?)", (scope, until_ms))
        note_pause(tx, scope, until_ms)


def resume(store: Store, scope: str) -> bool:
    """End a pause; False where there was none."""
    with store.transaction() as tx:
        note_end(tx, scope)
        return tx.run("DELETE FROM pause WHERE scope = ?", (scope,)) > 0


def paused_scopes(store: Reader) -> frozenset[str]:
    """The scopes that are paused now."""
    return frozenset(str(row[0]) for row in store.rows("SELECT scope FROM pause WHERE until_ms > ?", (store.now_ms(),)))
