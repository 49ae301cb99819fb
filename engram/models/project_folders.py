"""Projects that move: the hints of each, the folders that were joined to it, and the joining itself."""

from __future__ import annotations

from dataclasses import dataclass

from peewee import fn

from engram.enums import Actor
from engram.errors import BadRequest
from engram.models import tables
from engram.models.episode_changes import note_projects_merged
from engram.models.joining import join_in
from engram.models.pauses import move_pauses, paused_scopes
from engram.models.project_merges import note_merge
from engram.models.project_names import MAX_NAME_CHARACTERS, is_name_taken, keep_name
from engram.models.projects import ProjectRow, list_projects
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
    for folder in store.fetch(tables.ProjectFolder.select().order_by(tables.ProjectFolder.root)):
        folders.setdefault(folder.project_id, []).append(folder.root)
    columns = (tables.Project.id, tables.Project.remote, tables.Project.first_commit, tables.Project.hints_at_ms)
    hints = {row.id: row for row in store.fetch(tables.Project.select(*columns))}
    return [
        ProjectHints(
            project=project,
            remote=hints[project.id].remote,
            first_commit=hints[project.id].first_commit,
            read_at_ms=hints[project.id].hints_at_ms,
            folders=tuple(folders.get(project.id, ())),
        )
        for project in list_projects(store)
        if project.id in hints
    ]


def identities_of_project(store: Reader, project: ProjectRow) -> list[str]:
    """The identities of a project's folder and of the folders that were joined to it."""
    folder = tables.ProjectFolder
    joined = folder.select(folder.identity).where(folder.project_id == project.id).order_by(folder.identity)
    return [project.identity, *store.fetch_values(joined)]


@dataclass(frozen=True, slots=True)
class ProjectCounts:
    """What belongs to a project."""

    sessions: int = 0
    memories: int = 0


def count_projects(store: Reader) -> dict[int, ProjectCounts]:
    """Row id of a project → its sessions and memories."""
    project, session, episode, turn = tables.Project, tables.Session, tables.Episode, tables.Turn
    visits = turn.select(turn.session).where(turn.project == project.id)
    is_of_project = (session.project == project.id) | session.id.in_(visits)
    query = project.select(
        project.id,
        session.select(fn.COUNT(session.id)).where(is_of_project).alias("sessions"),
        episode.select(fn.COUNT(episode.id)).where(episode.project == project.id).alias("memories"),
    )
    return {row.id: ProjectCounts(sessions=row.sessions, memories=row.memories) for row in store.fetch(query)}


def note_hints(store: Store, project_id: int, remote: str, first_commit: str) -> None:
    """Keep what was just read of a project's repository."""
    with store.transaction() as tx:
        note_hints_in(tx, project_id, remote, first_commit)


def note_hints_in(tx: Tx, project_id: int, remote: str, first_commit: str) -> None:
    """Keep in a transaction what is known of a project's repository."""
    query = tables.Project.update(remote=remote, first_commit=first_commit, hints_at_ms=tx.now_ms())
    tx.run(query.where(tables.Project.id == project_id))


def link_folder(tx: Tx, project: ProjectRow, identity: str, root: str, reason: str) -> None:
    """Let a folder mean a project from now on."""
    query = tables.ProjectFolder.insert(
        identity=identity, project_id=project.id, root=root, reason=reason, added_at_ms=tx.now_ms()
    )
    tx.run(query.on_conflict_replace())


def merge_projects(
    store: Store, into: ProjectRow, other: ProjectRow, reason: str, *, actor: Actor, is_said: bool = True
) -> int:
    """Give everything of ``other`` to ``into``, and let its folders mean ``into``; returns how many sessions moved.

    ``engram.models.project_merges`` takes that back. ``is_said`` tells a hub.

    Raises:
        BadRequest: both are the same, or one of them is paused.
    """
    if into.id == other.id:
        raise BadRequest(f"{into.name} cannot be merged with itself")
    if {into.identity, other.identity} & paused_scopes(store):
        raise BadRequest(f"{into.name} or {other.name} is paused: end the pause before they are merged")
    with store.transaction() as tx:
        return merge_in(tx, into, other, reason, actor=actor, is_said=is_said)


def merge_in(tx: Tx, into: ProjectRow, other: ProjectRow, reason: str, *, actor: Actor, is_said: bool = True) -> int:
    """Do in a transaction what ``merge_projects`` does, for two projects that are not paused."""
    note_merge(tx, into.id, other.id)
    moved = join_in(tx, into.id, [other.id], actor=actor, is_said=is_said)
    folder, spend = tables.ProjectFolder, tables.Spend
    tx.run(folder.update(project_id=into.id).where(folder.project_id == other.id))
    tx.run(spend.update(project_id=into.id).where(spend.project_id == other.id))
    note_projects_merged(tx, other.id, into.id)
    move_pauses(tx, other.identity, into.identity)
    keep_name(tx, other.id)
    link_folder(tx, into, other.identity, other.root, reason)
    tx.run(tables.Project.delete().where(tables.Project.id == other.id))
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
        if is_name_taken(tx, name, identities_of_project(tx, project)):
            raise BadRequest(f"another project is or was named {name!r}")
        keep_name(tx, project.id)
        tx.run(tables.Project.update(name=name).where(tables.Project.id == project.id))
    return name
