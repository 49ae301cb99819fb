"""Projects: the folders in which sessions took place, and their names."""

from __future__ import annotations

import itertools
import re
import secrets
import unicodedata
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from peewee import Query, Value, fn

from engram.errors import BadRequest
from engram.models import tables
from engram.models.engine.statement import RecordReader, prepared
from engram.models.engine.transaction import Reader, Store, Tx, asks_record, asks_records, asks_rows, asks_values
from engram.models.tables.memory_tables import holds_anything
from engram.models.tables.session_tables import PROJECTS_BY_NAME
from engram.models.work.work import move_pauses, paused_scopes
from engram.paths import AT_SAME_PATH, path_of, spellings_of
from engram.transcripts.git_files import DETACHED
from engram.transcripts.project import KnownRoot

#: Project id for queries that return only global memories. (None would search all projects.)
NO_PROJECT = -1

# -- Names of projects. Each name belongs to one project permanently, so that notes filed under a previous name are
# still found.

#: Maximum length of a name, in characters. Names are written in full in the headings of notes.
MAX_NAME_CHARACTERS = 60


def keep_former_name(tx: Tx, name: str, identity: str) -> None:
    """Store a previous name of a project, so that it still refers to the project."""
    tx.run(tables.FormerName.insert(name=name, identity=identity).on_conflict_ignore())


def keep_name(tx: Tx, project_id: int) -> None:
    """Store the name of a project that is about to be renamed or deleted as a previous name."""
    for row in tx.fetch(_names().where(tables.Project.id == project_id)):
        keep_former_name(tx, row.name, row.identity)


def is_name_taken(store: Reader, name: str, identities: Collection[str]) -> bool:
    """Return True if a project other than those with these identities has or had the name."""
    return any(identity not in identities for identity in _identities_named(store, name))


@asks_values
def _identities_named(name: str) -> Query:
    """Return the identities of the projects that have or had a name."""
    project, former = tables.Project, tables.FormerName
    current = project.select(project.identity).where(project.name == name)
    return current | former.select(former.identity).where(former.name == name)


def project_id_of_name(store: Reader, name: str) -> int | None:
    """Return the row id of the project that has or had a name."""
    named = tables.ProjectNamed
    project_id = store.fetch_value(named.select(named.project).where(named.name == name))
    return None if project_id is None else int(project_id)


def names_of_project(store: Reader, project_id: int) -> set[str]:
    named = tables.ProjectNamed
    return set(store.fetch_values(named.select(named.name).where(named.project == project_id)))


def former_names(store: Reader) -> dict[str, str]:
    """Return previous name → current name, for all projects."""
    named, project = tables.ProjectNamed, tables.Project
    query = named.select(named.name, project.name.alias("now")).join(project, on=project.id == named.project)
    return {row.name: row.now for row in store.fetch(query.where(named.name != project.name))}


def carry_names(tx: Tx, source: Store) -> None:
    """Add the current and previous names of projects from another database.

    If its previous names show that a project was renamed there, it is renamed here too.
    """
    former = tables.FormerName.select(tables.FormerName.name, tables.FormerName.identity)
    current, earlier = source.fetch(_names()), source.fetch(former)
    for row in [*current, *earlier]:
        keep_former_name(tx, str(row.name), str(row.identity))
    left = {(row.identity, row.name) for row in earlier}
    project = tables.Project
    for row in current:
        here = tx.fetch_value(project.select(project.name).where(project.identity == row.identity))
        if here != row.name and (row.identity, here) in left and not is_name_taken(tx, row.name, {row.identity}):
            tx.run(project.update(name=row.name).where(project.identity == row.identity))


def _names() -> Query:
    return tables.Project.select(tables.Project.name, tables.Project.identity)


@dataclass(frozen=True, slots=True)
class ProjectRow:
    id: int
    identity: str
    #: Unique, for display.
    name: str
    root: str


#: The other columns are hints for moved folders (``engram.models.projects.project_folders``) and bookkeeping.
PROJECTS = RecordReader(ProjectRow, tables.Project, is_whole=False)


def find_project(store: Reader, name_or_identity: str) -> ProjectRow | None:
    """Return a project by its display name, its identity, or the identity of a folder joined to it."""
    return _of_name_or_identity(store, name_or_identity) or _of_joined_folder(store, name_or_identity)


def find_project_of_identity(store: Reader, identity: str) -> ProjectRow | None:
    """Return a project by its identity, or by that of a folder joined to it."""
    found = (_of_identity(store, stored) or _of_joined_folder(store, stored) for stored in _stored_forms(identity))
    return next(filter(None, found), None)


def name_of_scope(store: Reader, scope: str) -> str:
    """Return the display name of a pause's scope: a project's name, "everything" for "", or else the scope itself."""
    project = find_project_of_identity(store, scope) if scope else None
    return scope or "everything" if project is None else project.name


def _stored_forms(identity: str) -> tuple[str, ...]:
    """Return the spellings under which a project may be stored.

    An identity whose marks are apart is that of a folder on a disk that tells the spellings apart.
    """
    return spellings_of(identity) if unicodedata.is_normalized("NFC", identity) else (identity,)


#: Sorts directly after every identity that contains ``AT_SAME_PATH``.
_BEHIND_SAME_PATH = "/0"
#: Prefix of the reason that is recorded when a moved folder is joined to an existing project.
MOVED = "moved from "


@dataclass(frozen=True, slots=True)
class Claim:
    """A project that is or was at a path, with the hints from its repository."""

    project: ProjectRow
    remote: str
    first_commit: str
    #: Why the path was joined to the project; "" for its own path.
    reason: str = ""

    @property
    def is_by_hand(self) -> bool:
        """True if a person joined the path to the project. The repository's hints may then not match the path."""
        return bool(self.reason) and not self.reason.startswith(MOVED)


def claims_of(store: Reader, identity: str) -> list[Claim]:
    """Return the projects that are or were at a path, including those to which the path was joined."""
    rows = (
        store.fetch(_at_path(stored, stored + AT_SAME_PATH, stored + _BEHIND_SAME_PATH))
        for stored in _stored_forms(identity)
    )
    claims = [
        Claim(
            project=ProjectRow(id=row.id, identity=row.identity, name=row.name, root=row.root),
            remote=row.remote,
            first_commit=row.first_commit,
            reason=row.reason,
        )
        for row in next(filter(None, rows), ())
    ]
    return sorted(claims, key=_rank)


def _rank(claim: Claim) -> tuple[bool, bool, bool]:
    """Return a sort key for claims: recognisable repositories come first, among them those with a known folder.

    Of the recognisable ones, those known only by the path of a remote on the same machine come last.
    """
    is_recognisable = bool(claim.remote or claim.first_commit)
    return not is_recognisable, claim.remote.startswith("/") and not claim.first_commit, not claim.project.root


def repository_begun_in(store: Reader, cwd: str) -> ProjectRow | None:
    """Return the only repository to which sessions that began in a folder belong; None if there is not exactly one."""
    found = _repositories_begun_in(store, cwd)
    return found[0] if len(found) == 1 else None


@asks_records(PROJECTS)
def _repositories_begun_in(cwd: str) -> Query:
    """Return up to two repositories to which sessions that began in a folder belong."""
    project, session = tables.Project, tables.Session
    begun = PROJECTS.select().join(session, on=session.project == project.id).where(session.cwd == cwd).distinct()
    return begun.where((project.remote != "") | (project.first_commit != "")).limit(2)


def plain_until_ms(store: Reader, project: ProjectRow) -> int | None:
    """Return the last time at which a project's folder was known not to be a repository; None if it ever was one.

    Hints must have been looked for there and not found, because the branch in a transcript is not enough: Claude Code
    writes ``HEAD`` outside a repository, but also for a detached head.
    """
    turn, row = tables.Turn, tables.Project
    if not store.fetch_value(row.select(row.hints_at_ms).where(row.id == project.id)):
        return None
    here = (turn.project == project.id) & (turn.cwd == path_of(project.identity))
    if store.has_any(turn.select(Value(1)).where(here & turn.branch.not_in(["", DETACHED]))):
        return None
    latest = store.fetch_value(turn.select(fn.MAX(turn.started_at_ms)).where(here & (turn.branch == DETACHED)))
    return None if latest is None else int(latest)


def lose_folder(tx: Tx, project_id: int) -> None:
    """Record that a project has lost its folder, because another repository is there now."""
    tx.run(tables.Project.update(root="").where(tables.Project.id == project_id))


@asks_records(PROJECTS)
def list_projects() -> Query:
    """Return every project, by name, including empty ones."""
    return PROJECTS.select().order_by(*PROJECTS_BY_NAME)


def list_held_projects(store: Reader) -> list[ProjectRow]:
    """Return the projects that contain anything, by name."""
    return store.fetch_records(PROJECTS, PROJECTS.select().where(holds_anything()).order_by(*PROJECTS_BY_NAME))


@asks_rows(
    lambda rows: [KnownRoot(row.root, bool(row.is_repository), bool(row.had_branch), row.project_id) for row in rows]
)
def known_roots() -> Query:
    """Return the folders of every project, including joined ones, with the known facts about each."""
    project, folder, turn = tables.Project, tables.ProjectFolder, tables.Turn
    # Whether it was on a branch: outside a repository, Claude Code writes no branch name or HEAD.
    is_on_branch = (turn.project == project.id) & (turn.cwd == project.root) & turn.branch.not_in(["", "HEAD"])
    own = project.select(
        project.root,
        ((project.remote != "") | (project.first_commit != "")).alias("is_repository"),
        fn.EXISTS(turn.select(Value(1)).where(is_on_branch)).alias("had_branch"),
        project.id.alias("project_id"),
    )
    # Joining a folder to a project includes everything below it.
    return own.union_all(folder.select(folder.root, Value(1), Value(0), folder.project_id))


def identities_of_project(store: Reader, project: ProjectRow) -> list[str]:
    """Return the identities of a project's folder and of the folders that have been joined to it."""
    folder = tables.ProjectFolder
    joined = folder.select(folder.identity).where(folder.project_id == project.id).order_by(folder.identity)
    return [project.identity, *store.fetch_values(joined)]


#: Prefix of the identity of a project that has a folder only on other machines.
PLACEHOLDER = "hub:"
#: The reason recorded when such an identity becomes that of a local folder.
SAME_REMOTE = "a repository with the same remote was found"


def is_shareable(remote: str) -> bool:
    """Return True for the URL of a remote on another machine. A path means something different on each machine."""
    host = remote.partition("/")[0]
    return "." in host.strip(".") and not remote.startswith(("/", ".", "~"))


def find_or_await(store: Reader, identity: str, remote: str) -> ProjectRow | None:
    """Return the project of a folder or, for an unknown folder, one from other machines with the same remote.

    The latter is returned only if it has no local folder yet and is not paused.
    """
    known = find_project_of_identity(store, identity)
    if known is not None or not is_shareable(remote):
        return known
    awaiting = _of_identity(store, PLACEHOLDER + remote)
    return None if awaiting is None or awaiting.identity in paused_scopes(store) else awaiting


def ensure_project(
    tx: Tx, identity: str, wanted_name: str, root: str = "", *, remote: str = "", first_commit: str = ""
) -> ProjectRow:
    """Return the project with an identity, creating it with its repository's hints if it is new.

    If other machines have a project with the same remote, that project gets the identity. The name is for display; it
    is stored on one line of at most 60 characters without secrets or hidden characters. If another project has or had
    that name, it is preceded by that of the enclosing folder or of the remote's owner, or else a number is added.
    """
    known = find_or_await(tx, identity, remote)
    is_awaiting = known is not None and bool(remote) and known.identity == PLACEHOLDER + remote
    if known is not None and not is_awaiting:
        return known if known.identity != identity else _with_folder(tx, known, root)
    # Imported here because hooks and short commands never create a project, and redaction takes a while to load.
    from engram.redaction import redact
    from engram.trust.display import visible

    def clean(name: str) -> str:
        return " ".join(visible(redact(name)).split())[:MAX_NAME_CHARACTERS].rstrip()

    wanted_name = clean(wanted_name) or "project"
    identities = {identity, "" if known is None else known.identity}
    namesake = find_project(tx, wanted_name)
    other = "" if namesake is None else namesake.identity
    names = _names_for(wanted_name, identity, remote, other, is_clean=lambda text: clean(text) == text)
    name = next(name for name in names if not is_name_taken(tx, name, identities))
    columns = {
        "identity": identity,
        "name": name,
        "updated_at_ms": tx.now_ms(),
        "remote": remote,
        "first_commit": first_commit,
    }
    if known is not None:
        _settle(tx, known, columns)
        row_id = known.id
    else:
        row_id = tx.insert(tables.Project.insert(**columns, stable_id=secrets.token_hex(8), root=""))
    return _with_folder(tx, ProjectRow(id=row_id, identity=identity, name=name, root=""), root)


def rename_project(store: Store, project: ProjectRow, name: str) -> str:
    """Give a project another display name; return the name as stored.

    The previous name remains the project's, because notes may be filed under it.

    Raises:
        BadRequest: the name is empty, too long, or is or was another project's.
    """
    name = " ".join("".join(char for char in name if char.isprintable()).split())
    if not name or len(name) > MAX_NAME_CHARACTERS or "/" in name:
        raise BadRequest(f"a project's name has 1 to {MAX_NAME_CHARACTERS} characters and no slash")
    with store.transaction() as tx:
        if is_name_taken(tx, name, identities_of_project(tx, project)):
            raise BadRequest(
                f"another project is or was named {name!r}: choose another name, or join the two with "
                "`engram projects merge`"
            )
        keep_name(tx, project.id)
        tx.run(tables.Project.update(name=name).where(tables.Project.id == project.id))
    return name


def _names_for(
    wanted_name: str, identity: str, remote: str, namesake: str, *, is_clean: Callable[[str], bool]
) -> Iterator[str]:
    """Yield names for a project, best first: the wanted name, then with a prefix, then with a number.

    The prefix is the nearest enclosing folder that is not in the path of ``namesake``, the project that already has the
    name, or else the owner of the remote. No name contains a slash, so that none is mistaken for a folder.

    Args:
        is_clean: returns False for text that looks like a secret, such as a hash; such a prefix is not used.
    """
    yield wanted_name
    owners = remote.split("/")[1:-1] if is_shareable(remote) else []
    folders, others = _folders_in(identity), _folders_in(namesake)
    apart = [folder for folder, other in itertools.zip_longest(folders, others) if folder and folder != other]
    prefixes = filter(is_clean, [*list(filter(is_clean, apart))[:1], *owners[-1:]])
    joined = (f"{prefix}-{wanted_name}" for prefix in prefixes if not wanted_name.startswith(prefix))
    yield from (name[:MAX_NAME_CHARACTERS].rstrip() for name in joined)
    yield from (f"{wanted_name[: MAX_NAME_CHARACTERS - 6]}-{number}" for number in itertools.count(2))


def _folders_in(identity: str) -> list[str]:
    """Return the names of the folders that enclose a project's, the nearest first."""
    return re.split(r"[/\\]", path_of(identity))[-2:0:-1]


def _settle(tx: Tx, awaiting: ProjectRow, columns: Mapping[str, Any]) -> None:
    """Give a project from other machines its local repository.

    Its previous name and identity still refer to it.
    """
    keep_name(tx, awaiting.id)
    tx.run(tables.Project.update(**columns).where(tables.Project.id == awaiting.id))
    joined = {"identity": awaiting.identity, "project_id": awaiting.id, "root": "", "added_at_ms": tx.now_ms()}
    tx.run(tables.ProjectFolder.insert(**joined, reason=SAME_REMOTE))
    move_pauses(tx, awaiting.identity, str(columns["identity"]))


def _with_folder(tx: Tx, project: ProjectRow, root: str) -> ProjectRow:
    """Give a project without a folder its folder. A project that had that folder before is left without one."""
    if not root or project.root:
        return project
    for claim in claims_of(tx, path_of(project.identity)):
        if claim.project.id != project.id and claim.project.root == root and not claim.reason:
            lose_folder(tx, claim.project.id)
    tx.update_row(tables.Project, project.id, {"root": root})
    return replace(project, root=root)


@prepared
def _at_path(identity: str, from_identity: str, to_identity: str) -> Query:
    """Return the projects with an identity, or with one in a span, and the one that a folder is joined to."""
    project, folder = tables.Project, tables.ProjectFolder
    columns = (project.id, project.identity, project.name, project.root, project.remote, project.first_commit)
    is_at_same_path = (project.identity >= from_identity) & (project.identity < to_identity)
    is_there = (project.identity == identity) | is_at_same_path
    own = project.select(*columns, Value("").alias("reason")).where(is_there)
    joined = project.select(*columns, folder.reason).join(folder, on=folder.project_id == project.id)
    return own.union_all(joined.where(folder.identity == identity))


@asks_record(PROJECTS)
def _of_name_or_identity(name_or_identity: str) -> Query:
    project = tables.Project
    return PROJECTS.select().where((project.name == name_or_identity) | (project.identity == name_or_identity))


@asks_record(PROJECTS)
def _of_identity(identity: str) -> Query:
    return PROJECTS.select().where(tables.Project.identity == identity)


@asks_record(PROJECTS)
def _of_joined_folder(identity: str) -> Query:
    folder = tables.ProjectFolder
    joined = folder.select(folder.project_id).where(folder.identity == identity)
    return PROJECTS.select().where(tables.Project.id == joined)


@asks_record(PROJECTS)
def project_by_id(project_id: int) -> Query:
    return PROJECTS.select().where(tables.Project.id == project_id)
