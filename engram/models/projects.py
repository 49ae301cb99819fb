"""Projects: the folders in which sessions took place, each with a name for display."""

from __future__ import annotations

import secrets
from dataclasses import dataclass

from peewee import Query, Value, fn

from engram.models import tables
from engram.models.project_names import MAX_NAME_CHARACTERS, is_name_taken
from engram.models.records import RecordReader
from engram.models.statement import prepared
from engram.models.transaction import Reader, Tx
from engram.transcripts.project import KnownRoot


@dataclass(frozen=True, slots=True)
class ProjectRow:
    """A project as it is stored."""

    id: int
    identity: str
    #: Unique, for display.
    name: str
    root: str


#: The other columns are hints for folders that move (``engram.models.project_folders``) and marks of every row.
PROJECTS = RecordReader(ProjectRow, tables.Project, is_whole=False)


def find_project(store: Reader, name_or_identity: str) -> ProjectRow | None:
    """A project by its display name, its identity, or the identity of a folder that was joined to it."""
    project = store.fetch_record(PROJECTS, _of_name_or_identity(name_or_identity))
    return project or store.fetch_record(PROJECTS, _of_joined_folder(name_or_identity))


def find_project_of_identity(store: Reader, identity: str) -> ProjectRow | None:
    """A project by its identity alone, or that of a folder that was joined to it."""
    project = store.fetch_record(PROJECTS, _of_identity(identity))
    return project or store.fetch_record(PROJECTS, _of_joined_folder(identity))


def project_by_id(store: Reader, project_id: int) -> ProjectRow | None:
    """A project by its row id."""
    return store.fetch_record(PROJECTS, _of_id(project_id))


def list_projects(store: Reader) -> list[ProjectRow]:
    """Every project, by name."""
    return store.fetch_records(PROJECTS, PROJECTS.select().order_by(tables.Project.name))


def known_roots(store: Reader) -> list[KnownRoot]:
    """The folders of every project, those that were joined to one included, with what is known of each."""
    return [
        KnownRoot(row.root, is_repository=bool(row.is_repository), had_branch=bool(row.had_branch))
        for row in store.fetch(_roots())
    ]


def ensure_project(tx: Tx, identity: str, wanted_name: str, root: str = "") -> ProjectRow:
    """The project of an identity, made where it is new.

    The name is for display: one line of at most 60 characters without secrets and hidden characters; one that another
    project has or had gets a number.
    """
    known = find_project_of_identity(tx, identity)
    if known is not None:
        return known
    # Not above: hooks and short commands never make a project, and the rules take a while to load.
    from engram.redaction import redact
    from engram.redaction.display import visible

    wanted_name = " ".join(visible(redact(wanted_name)).split())[:MAX_NAME_CHARACTERS].rstrip() or "project"
    name, number = wanted_name, 1
    while is_name_taken(tx, name, {identity}):
        number += 1
        name = f"{wanted_name[: MAX_NAME_CHARACTERS - 6]}-{number}"
    row_id = tx.insert(
        tables.Project.insert(
            stable_id=secrets.token_hex(8), identity=identity, name=name, root=root, updated_at_ms=tx.now_ms()
        )
    )
    return ProjectRow(id=row_id, identity=identity, name=name, root=root)


@prepared
def _of_name_or_identity(name_or_identity: str) -> Query:
    project = tables.Project
    return PROJECTS.select().where((project.name == name_or_identity) | (project.identity == name_or_identity))


@prepared
def _of_identity(identity: str) -> Query:
    return PROJECTS.select().where(tables.Project.identity == identity)


@prepared
def _of_joined_folder(identity: str) -> Query:
    folder = tables.ProjectFolder
    return PROJECTS.select().where(
        tables.Project.id == folder.select(folder.project_id).where(folder.identity == identity)
    )


@prepared
def _of_id(project_id: int) -> Query:
    return PROJECTS.select().where(tables.Project.id == project_id)


@prepared
def _roots() -> Query:
    project, folder, turn = tables.Project, tables.ProjectFolder, tables.Turn
    # On a branch outside a repository: Claude Code writes no name, or HEAD.
    is_on_branch = (turn.project == project.id) & (turn.cwd == project.root) & turn.branch.not_in(["", "HEAD"])
    own = project.select(
        project.root,
        ((project.remote != "") | (project.first_commit != "")).alias("is_repository"),
        fn.EXISTS(turn.select(Value(1)).where(is_on_branch)).alias("had_branch"),
    )
    # Who joined a folder to a project meant what is below it, too.
    return own.union_all(folder.select(folder.root, Value(1), Value(0)))
