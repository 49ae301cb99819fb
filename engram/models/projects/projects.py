"""Projects: the folders in which sessions took place, and their names, each for good."""

from __future__ import annotations

import secrets
from collections.abc import Collection
from dataclasses import dataclass, replace

from peewee import Query, Value, fn

from engram.models import tables
from engram.models.engine.statement import RecordReader, prepared
from engram.models.engine.transaction import Reader, Store, Tx, asks_record
from engram.transcripts.project import KnownRoot

# -- Names of projects: each belongs to one project for good, so that notes under a former name are still found as
# its.

#: Longest name, in characters: it stands whole in the headings of notes.
MAX_NAME_CHARACTERS = 60


def keep_former_name(tx: Tx, name: str, identity: str) -> None:
    """Let a name go on meaning the project of a folder that it no longer has."""
    tx.run(tables.FormerName.insert(name=name, identity=identity).on_conflict_ignore())


def keep_name(tx: Tx, project_id: int) -> None:
    """Keep the name of a project that is about to get another one, or to go."""
    for row in tx.fetch(_names().where(tables.Project.id == project_id)):
        keep_former_name(tx, row.name, row.identity)


def is_name_taken(store: Reader, name: str, identities: Collection[str]) -> bool:
    """True where a project that is known by none of these identities has the name or had it before."""
    return any(identity not in identities for identity in store.fetch_values(_identities_of_name(name)))


def project_id_of_name(store: Reader, name: str) -> int | None:
    """Row id of the project that has the name or had it before."""
    project_id = store.fetch_value(_project_of_name(name))
    return None if project_id is None else int(project_id)


def names_of_project(store: Reader, project_id: int) -> set[str]:
    """Every name that a project has or had."""
    named = tables.ProjectNamed
    return set(store.fetch_values(named.select(named.name).where(named.project == project_id)))


def carry_names(tx: Tx, source: Store) -> None:
    """Take over the names that projects have or had in another memory."""
    former = tables.FormerName.select(tables.FormerName.name, tables.FormerName.identity)
    for row in [*source.fetch(_names()), *source.fetch(former)]:
        keep_former_name(tx, str(row.name), str(row.identity))


def _names() -> Query:
    return tables.Project.select(tables.Project.name, tables.Project.identity)


@prepared
def _identities_of_name(name: str) -> Query:
    project, former = tables.Project, tables.FormerName
    return project.select(project.identity).where(project.name == name) | former.select(former.identity).where(
        former.name == name
    )


@prepared
def _project_of_name(name: str) -> Query:
    return tables.ProjectNamed.select(tables.ProjectNamed.project).where(tables.ProjectNamed.name == name)


# -- Projects: the folders in which sessions took place, each with a name for display.


@dataclass(frozen=True, slots=True)
class ProjectRow:
    """A project as it is stored."""

    id: int
    identity: str
    #: Unique, for display.
    name: str
    root: str


#: The other columns are hints for folders that move (``engram.models.projects.project_folders``) and marks of every
#: row.
PROJECTS = RecordReader(ProjectRow, tables.Project, is_whole=False)


def find_project(store: Reader, name_or_identity: str) -> ProjectRow | None:
    """A project by its display name, its identity, or the identity of a folder that was joined to it."""
    project = store.fetch_record(PROJECTS, _of_name_or_identity(name_or_identity))
    return project or store.fetch_record(PROJECTS, _of_joined_folder(name_or_identity))


def find_project_of_identity(store: Reader, identity: str) -> ProjectRow | None:
    """A project by its identity alone, or that of a folder that was joined to it."""
    project = store.fetch_record(PROJECTS, _of_identity(identity))
    return project or store.fetch_record(PROJECTS, _of_joined_folder(identity))


#: Between a path and what tells apart the repositories that were at it one after another, in their identities. No path
#: that was normalised contains it.
AT_SAME_PATH = "//"
#: What sorts right behind every identity with it.
_BEHIND_SAME_PATH = "/0"
#: How the reason begins why a folder was joined to a project that was there before.
MOVED = "moved from "


def path_of(identity: str) -> str:
    """The identity without what tells apart the repositories that were at one path."""
    return identity.partition(AT_SAME_PATH)[0]


@dataclass(frozen=True, slots=True)
class Claim:
    """A project that is or was at a path, and what its repository said of itself."""

    project: ProjectRow
    remote: str
    first_commit: str
    #: Why the path was joined to the project; "" for its own path.
    reason: str = ""

    @property
    def is_by_hand(self) -> bool:
        """True if a person joined the path to the project: what its repository said need not be true of the path."""
        return bool(self.reason) and not self.reason.startswith(MOVED)


def claims_of(store: Reader, identity: str) -> list[Claim]:
    """The projects that are or were at a path: the one that the path means by itself, and others at the same path."""
    claims = [
        Claim(
            project=ProjectRow(id=row.id, identity=row.identity, name=row.name, root=row.root),
            remote=row.remote,
            first_commit=row.first_commit,
            reason=row.reason,
        )
        for row in store.fetch(_claims_of(identity, identity + AT_SAME_PATH, identity + _BEHIND_SAME_PATH))
    ]
    # Those whose repository can be recognised first; where nothing tells them apart, the one that has the folder now.
    return sorted(claims, key=lambda claim: (not (claim.remote or claim.first_commit), not claim.project.root))


def repository_begun_in(store: Reader, cwd: str) -> ProjectRow | None:
    """Return the only repository that sessions begun in a folder belong to; None where there is none, or several."""
    project, session = tables.Project, tables.Session
    begun = PROJECTS.select().join(session, on=session.project == project.id).where(session.cwd == cwd).distinct()
    found = store.fetch_records(PROJECTS, begun.where((project.remote != "") | (project.first_commit != "")).limit(2))
    return found[0] if len(found) == 1 else None


def lose_folder(tx: Tx, project_id: int) -> None:
    """Note that a project no longer has the folder that it had: another repository is there now."""
    tx.run(tables.Project.update(root="").where(tables.Project.id == project_id))


def list_projects(store: Reader) -> list[ProjectRow]:
    """Every project, by name."""
    return store.fetch_records(PROJECTS, PROJECTS.select().order_by(tables.Project.name))


def known_roots(store: Reader) -> list[KnownRoot]:
    """The folders of every project, those that were joined to one included, with what is known of each."""
    return [
        KnownRoot(row.root, bool(row.is_repository), bool(row.had_branch), row.project_id)
        for row in store.fetch(_roots())
    ]


def ensure_project(
    tx: Tx, identity: str, wanted_name: str, root: str = "", *, remote: str = "", first_commit: str = ""
) -> ProjectRow:
    """The project of an identity, made where it is new, with what its repository says of itself.

    The name is for display: one line of at most 60 characters without secrets and hidden characters; one that another
    project has or had gets a number.
    """
    known = find_project_of_identity(tx, identity)
    if known is not None:
        return known if known.identity != identity else _with_folder(tx, known, root)
    # Not above: hooks and short commands never make a project, and the rules take a while to load.
    from engram.redaction import redact
    from engram.trust.display import visible

    wanted_name = " ".join(visible(redact(wanted_name)).split())[:MAX_NAME_CHARACTERS].rstrip() or "project"
    name, number = wanted_name, 1
    while is_name_taken(tx, name, {identity}):
        number += 1
        name = f"{wanted_name[: MAX_NAME_CHARACTERS - 6]}-{number}"
    row_id = tx.insert(
        tables.Project.insert(
            stable_id=secrets.token_hex(8),
            identity=identity,
            name=name,
            root="",
            updated_at_ms=tx.now_ms(),
            remote=remote,
            first_commit=first_commit,
        )
    )
    return _with_folder(tx, ProjectRow(id=row_id, identity=identity, name=name, root=""), root)


def _with_folder(tx: Tx, project: ProjectRow, root: str) -> ProjectRow:
    """Give a project without a folder the one that it has now; whoever had that before has none."""
    if not root or project.root:
        return project
    for claim in claims_of(tx, path_of(project.identity)):
        if claim.project.id != project.id and claim.project.root == root and not claim.reason:
            lose_folder(tx, claim.project.id)
    tx.run(tables.Project.update(root=root).where(tables.Project.id == project.id))
    return replace(project, root=root)


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
def _claims_of(identity: str, begin: str, end: str) -> Query:
    project, folder = tables.Project, tables.ProjectFolder
    columns = (project.id, project.identity, project.name, project.root, project.remote, project.first_commit)
    is_there = (project.identity == identity) | ((project.identity >= begin) & (project.identity < end))
    own = project.select(*columns, Value("").alias("reason")).where(is_there)
    joined = project.select(*columns, folder.reason).join(folder, on=folder.project_id == project.id)
    return own.union_all(joined.where(folder.identity == identity))


@asks_record(PROJECTS)
def project_by_id(project_id: int) -> Query:
    """A project by its row id."""
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
        project.id.alias("project_id"),
    )
    # Who joined a folder to a project meant what is below it, too.
    return own.union_all(folder.select(folder.root, Value(1), Value(0), folder.project_id))
