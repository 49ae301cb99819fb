"""Projects that move: the hints of each, the folders that were joined to it, and the joining itself."""

from __future__ import annotations

from dataclasses import dataclass

from engram.enums import Actor
from engram.errors import BadRequest
from engram.models.joining import join_projects
from engram.models.pauses import move_pauses
from engram.models.project_names import MAX_NAME_CHARACTERS, is_name_taken, keep_name
from engram.models.sessions import ProjectRow, paused_scopes
from engram.models.store import Store
from engram.models.transaction import Reader, Tx


@dataclass(frozen=True, slots=True)
class ProjectHints:
    """A project with what its repository said of itself."""

    project: ProjectRow
    #: Normalised address of its remote, without credentials; "" for none.
    remote: str
    #: Hash of its first commit; "" where it is not known.
    first_commit: str
    #: When they were last read, in milliseconds since 1970; 0 for never.
    read_at_ms: int
    #: Folders that were joined to it.
    folders: tuple[str, ...]


def list_hints(store: Reader) -> list[ProjectHints]:
    """Every project with its hints, by name."""
    folders: dict[int, list[str]] = {}
    for project_id, root in store.rows("SELECT project_id, root FROM project_folder ORDER BY root"):
        folders.setdefault(int(project_id), []).append(str(root))
    rows = store.rows("SELECT id, identity, name, root, remote, first_commit, hints_at_ms FROM project ORDER BY name")
    return [
        ProjectHints(
            project=ProjectRow(id=row[0], identity=row[1], name=row[2], root=row[3]),
            remote=row[4],
            first_commit=row[5],
            read_at_ms=row[6],
            folders=tuple(folders.get(int(row[0]), ())),
        )
        for row in rows
    ]


def identities_of_project(store: Reader, project: ProjectRow) -> list[str]:
    """The identities of a project's folder and of the folders that were joined to it."""
    rows = store.rows("SELECT identity FROM project_folder WHERE project_id = ? ORDER BY identity", (project.id,))
    return [project.identity, *(str(row[0]) for row in rows)]


@dataclass(frozen=True, slots=True)
class ProjectCounts:
    """What belongs to a project."""

    sessions: int = 0
    memories: int = 0


def count_projects(store: Reader) -> dict[int, ProjectCounts]:
    """Row id of a project → its sessions and memories."""
    rows = store.rows(
        "SELECT p.id, (SELECT count(*) FROM session s WHERE s.project_id = p.id), "
        "(SELECT count(*) FROM episode e WHERE e.project_id = p.id) FROM project p"
    )
    return {int(row[0]): ProjectCounts(sessions=int(row[1]), memories=int(row[2])) for row in rows}


def note_hints(store: Store, project_id: int, remote: str, first_commit: str) -> None:
    """Keep what was just read of a project's repository."""
    with store.transaction() as tx:
        tx.run(
            "UPDATE project SET remote = ?, first_commit = ?, hints_at_ms = ? WHERE id = ?",
            (remote, first_commit, store.now_ms(), project_id),
        )


def link_folder(tx: Tx, project: ProjectRow, identity: str, root: str, reason: str) -> None:
    """Let a folder mean a project from now on."""
    tx.run(
        "INSERT OR REPLACE INTO project_folder VALUES (?, ?, ?, ?, ?)",
        (identity, project.id, root, reason, tx.now_ms()),
    )


def merge_projects(store: Store, into: ProjectRow, other: ProjectRow, reason: str, *, actor: Actor) -> int:
    """Give everything of ``other`` to ``into``, and let its folders mean ``into``; returns how many sessions moved.

    Raises:
        BadRequest: both are the same, or one of them is paused.
    """
    if into.id == other.id:
        raise BadRequest(f"{into.name} cannot be merged with itself")
    if {into.identity, other.identity} & paused_scopes(store):
        raise BadRequest(f"{into.name} or {other.name} is paused: end the pause before they are merged")
    with store.transaction() as tx:
        moved = join_projects(store, into.id, [other.id], actor=actor)
        tx.run("UPDATE project_folder SET project_id = ? WHERE project_id = ?", (into.id, other.id))
        tx.run("UPDATE spend SET project_id = ? WHERE project_id = ?", (into.id, other.id))
        move_pauses(tx, other.identity, into.identity)
        keep_name(tx, other.id)
        link_folder(tx, into, other.identity, other.root, reason)
        tx.run("DELETE FROM project WHERE id = ?", (other.id,))
    return moved


def rename_project(store: Store, project: ProjectRow, name: str) -> str:
    """Give a project another display name; returns the name as it is stored.

    The name of before stays its own: notes that stand under it are still the project's.

    Raises:
        BadRequest: the name is empty, too long, or another project's, now or before.
    """
    name = " ".join("".join(char for char in name if char.isprintable()).split())
    if not name or len(name) > MAX_NAME_CHARACTERS or "/" in name:
        raise BadRequest(f"a project's name has 1 to {MAX_NAME_CHARACTERS} characters and no slash")
    with store.transaction() as tx:
        if is_name_taken(store, name, identities_of_project(store, project)):
            raise BadRequest(f"another project is or was named {name!r}")
        keep_name(tx, project.id)
        tx.run("UPDATE project SET name = ? WHERE id = ?", (name, project.id))
    return name
