"""Find the project of a session and of each turn, and decide whether the session may be read at all."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

from engram.errors import NotFound
from engram.models.engine.transaction import Store, Tx
from engram.models.memories.tombstones import forgotten_projects, forgotten_span
from engram.models.projects.projects import (
    Claim,
    ProjectRow,
    claims_of,
    ensure_project,
    find_or_await,
    find_project,
    known_roots,
    list_held_projects,
    list_projects,
    plain_until_ms,
    project_by_id,
    repository_begun_in,
)
from engram.models.sessions.sessions import SessionRow, find_session, first_session_ms
from engram.models.work.work import Span, is_paused, pauses_of
from engram.paths import AT_SAME_PATH, OF_ANY, Home, may_be_of, path_of, spellings_of
from engram.settings import Settings
from engram.text.shell import entered_folders
from engram.transcripts.git_commands import is_other_repository, token_of
from engram.transcripts.git_files import DETACHED, begun_at_ms, is_whole_on_branch, read_first_commit, read_remote
from engram.transcripts.project import KnownRoot, KnownRoots, Project, identify_project, is_excluded
from engram.transcripts.turns import Action, Turn
from engram.trust.display import nearest_names, visible
from engram.vaults import (
    Vault,
    find_vault,
    is_excluded_by_vault,
    list_vaults,
    own_vault,
    vault_of_folder,
    vault_of_identity,
)

#: Maximum number of a turn's folders to examine.
_MAX_PLACES = 50


def project_for(store: Store, cwd: str, settings: Settings, roots: Iterable[KnownRoot] | None = None) -> Project:
    """Return the project of a working directory, which is the project to which its folder was joined, if it was.

    A repository at the path of a project with a different remote and first commit is a different project.

    Args:
        cwd: a POSIX or Windows path, as written.
        roots: the folders of known projects, if the caller looks up several folders; read only if ``cwd`` is gone.
    """
    project = identify_folder(cwd, settings, KnownRoots(partial(known_roots, store)) if roots is None else roots)
    if not project.identity or project.is_global:
        return project
    claims, root = claims_of(store, project.identity), Path(project.root)
    is_there = os.path.isdir(root)
    if not is_there:
        return _project_at_gone(store, project, claims, settings)
    for claim in claims:
        if claim.is_by_hand or not holds_another(store, root, claim.project, claim.remote, claim.first_commit):
            return _as_known(project, claim.project)
    if claims:
        project = replace(project, identity=f"{project.identity}{AT_SAME_PATH}{token_of(root)}")
    if project.is_repository:
        project = replace(project, remote=read_remote(root), first_commit=read_first_commit(root))
    return project


def _project_at_gone(store: Store, project: Project, claims: Sequence[Claim], settings: Settings) -> Project:
    """Return the project of a folder that is gone; if several repositories were at its path, a separate project.

    Containers often mount different repositories at the same path, so the session may belong to any of them. Nothing
    from it is stored while one of them is paused or in a vault, or if one of them was forgotten later.
    """
    by_hand = [claim for claim in claims if claim.is_by_hand]
    likely = _as_known(project, (by_hand or claims)[0].project) if claims else project
    if by_hand:
        return likely
    of_any = f"{project.identity}{OF_ANY}"
    recognised = {claim.project.id for claim in claims if claim.remote or claim.first_commit}
    if len(recognised) < 2:
        rivals = {claim.project.identity for claim in claims} - {likely.identity}
        withheld = {identity for identity in rivals if is_paused(store, identity)}
        withheld.update(forgotten_projects(store), *(vault.identities for vault in list_vaults(settings.places)))
        if not any(may_be_of(of_any, other) and likely.identity not in spellings_of(other) for other in withheld):
            return likely
    return replace(project, identity=of_any, name=f"{project.name} (unknown repository)", root="")


def holds_another(store: Store, root: Path, project: ProjectRow, remote: str, first_commit: str) -> bool:
    """Return True if the folder of a project now contains something else.

    Args:
        remote: the remote of the project's repository; "" if unknown.
        first_commit: the first commit of that repository; "" if unknown.
    """
    if project.identity.endswith(OF_ANY):
        return True
    if remote or first_commit:
        since_ms = first_session_ms(store, project.id)
        return is_other_repository(root, remote, first_commit, since_ms)
    plain_ms = plain_until_ms(store, project)
    begun_ms = None if plain_ms is None or not is_whole_on_branch(root) else begun_at_ms(root)
    return plain_ms is not None and begun_ms is not None and begun_ms < plain_ms


def project_of_session(store: Store, cwd: str, settings: Settings) -> Project:
    """Return the project of a new session. If its folder is gone, this may be the project to which it once belonged.

    The project of a worktree that git no longer has a record of can still be seen from an earlier session that began in
    it.
    """
    project = project_for(store, cwd, settings)
    if not project.identity or project.is_repository or project.is_global or os.path.isdir(cwd):
        return project
    if project.identity.endswith(OF_ANY):
        return project
    earlier = repository_begun_in(store, cwd)
    return project if earlier is None else _as_known(project, earlier)


def _as_known(project: Project, known: ProjectRow) -> Project:
    return replace(project, identity=known.identity, root=known.root or project.root, name=known.name)


def identify_folder(cwd: str, settings: Settings, roots: Iterable[KnownRoot] = ()) -> Project:
    """Return the project of a working directory based only on the settings, regardless of what is stored."""
    return identify_project(
        cwd, known_roots=roots, root_folders=settings.project_roots, join_worktrees=settings.join_worktrees
    )


@dataclass(slots=True)
class TurnPlaces:
    """Finds the projects of turns if they differ from their session's. It caches, so use it only for a single read.

    A session's project is that of its first folder. A turn belongs to the repository in which it took place, if that is
    a different one. If it took place outside any repository, in a folder above several, it belongs to the only
    repository in which it changed files or that it entered, otherwise to the only one in which it read files.
    """

    store: Store
    settings: Settings
    #: First working directory of the session.
    cwd: str
    #: Identity of the session's project; "" for none.
    identity: str
    _of_folder: dict[str, Project | None] = field(default_factory=dict)
    _roots: KnownRoots = field(init=False)

    def __post_init__(self) -> None:
        self._roots = KnownRoots(partial(known_roots, self.store))

    def project_of(self, turn: Turn) -> Project | None:
        """Return the project of a turn; None if it is its session's."""
        project = self._repository(turn.cwd) if turn.cwd else None
        if project is None and not self._was_in_repository(turn):
            project = self._only_one_worked_in(turn)
        return None if project is None or self._is_own(project) else project

    def project_at(self, cwd: str) -> Project | None:
        """Return the project of a working directory in the session; None if it is the session's own."""
        project = self._repository(cwd) if cwd else None
        return None if project is None or self._is_own(project) else project

    def know(self, folder: str, project: Project) -> None:
        self._of_folder[folder] = project if project.is_repository and not project.is_global else None

    def _is_own(self, project: Project) -> bool:
        """Return True for the session's project, or another repository that is now at its path."""
        return path_of(project.identity) == path_of(self.identity)

    def _was_in_repository(self, turn: Turn) -> bool:
        """Return True if the turn took place in a repository that is gone and of which nothing else is known."""
        return turn.branch not in ("", DETACHED) and not os.path.isdir(turn.cwd)

    def _only_one_worked_in(self, turn: Turn) -> Project | None:
        changed = [file for action in turn.actions if action.is_edit for file in action.files]
        entered = [folder for action in turn.actions for folder in _folders_of(action)]
        folders = [*turn.folders[1:], *entered, *map(os.path.dirname, changed)]
        if not folders:
            folders = [*map(os.path.dirname, turn.files), *(action.place for action in turn.actions if action.place)]
        places = {os.path.join(turn.cwd, os.path.expanduser(folder)) for folder in folders[:_MAX_PLACES]}
        found = {project.identity: project for place in places if (project := self._repository(place)) is not None}
        return next(iter(found.values())) if len(found) == 1 else None

    def _repository(self, folder: str) -> Project | None:
        """Return the project of the repository that contains a folder.

        Return None if it is in no known or existing repository.
        """
        if folder not in self._of_folder:
            self._of_folder[folder] = self._find(folder)
        return self._of_folder[folder]

    def _find(self, folder: str) -> Project | None:
        if folder == self.cwd and self.identity:
            found = identify_folder(folder, self.settings)
            return replace(found, identity=self.identity) if found.is_repository else None
        self.know(folder, project_for(self.store, folder, self.settings, self._roots))
        return self._of_folder[folder]


def _folders_of(action: Action) -> list[str]:
    """Return the folders in which a shell command worked; [] if it specifies none, or if the call is not a command."""
    if not action.command:
        return []
    inner = [os.path.join(action.place, folder) for folder in entered_folders(action.command)]
    return inner or ([action.place] if action.place else [])


def places_of(
    store: Store, session: SessionRow | None, project: Project | None, settings: Settings, cwd: str = ""
) -> TurnPlaces:
    """Return the object that finds the projects of a session's turns.

    Args:
        session: the stored session; None if it is new.
        project: the project that is about to be assigned to the session; None if it already has one, or if none is
            known.
        cwd: the folder of ``project``.
    """
    first = session.cwd if session is not None and session.is_settled else ""
    identity = "" if session is None else _identity(store, session) or ""
    places = TurnPlaces(store, settings, first, identity or (project.identity if project is not None else ""))
    if project is not None and cwd:
        places.know(cwd, project)
    return places


def needs_project(session: SessionRow | None) -> bool:
    """Return True while it is unknown whether a session belongs to a project or is global."""
    return session is None or not session.is_settled


def why_not(store: Store, session_id: str, settings: Settings) -> str:
    """Return why a known session must not be read: ``off``, ``paused`` or ``excluded``; "" if it may be read."""
    if not settings.capture:
        return "off"
    if is_paused(store, ""):
        return "paused"
    session = find_session(store, session_id)
    if session is None:
        return ""
    if session.project_id is not None and is_excluded_by_vault(settings.places, _identity(store, session) or ""):
        return "excluded"
    if session.cwd and is_excluded(session.cwd, settings.exclude):
        return "excluded"
    if session.cwd and _began_outside_vault(session.cwd, settings):
        return "excluded"
    return "paused" if is_paused(store, _identity(store, session) or "") else ""


def _began_outside_vault(cwd: str, settings: Settings) -> bool:
    """Return True, in a vault, for a session that began elsewhere.

    The vault contains such a session because some of its turns belong to the vault's project.
    """
    own = own_vault(settings.places)
    if own is None or own.holds_folder(cwd):
        return False
    return not own.has_identity(identify_folder(cwd, settings).identity)


def why_not_project(store: Store, cwd: str, project: Project, settings: Settings) -> str:
    """Return why a new session must not be read, based on its first working directory; "" if it may be read."""
    if is_excluded(cwd, settings.exclude):
        return "excluded"
    if is_excluded_by_vault(settings.places, project.identity, cwd):
        return "excluded"
    return "paused" if project.identity and is_paused(store, project.identity) else ""


def pauses_for(store: Store, session: SessionRow | None, project: Project | None) -> list[Span]:
    """Return the time spans of which nothing is stored: pauses, and the time before the project was forgotten.

    The project is that of the session, or ``project`` if that is about to be assigned to the session.
    """
    identity = project.identity if project is not None else None
    if session is not None:
        identity = _identity(store, session) or identity
    return spans_of(store, identity)


def spans_of(store: Store, identity: str | None) -> list[Span]:
    """Return the time spans of which nothing in a project is stored; an ``identity`` of None means no project."""
    return [*pauses_of(store, identity), *forgotten_span(store, identity)]


def _identity(store: Store, session: SessionRow) -> str | None:
    project = project_by_id(store, session.project_id) if session.project_id else None
    return project.identity if project else None


# -- Find the stored project of a working folder.


@dataclass(frozen=True, slots=True)
class FolderScope:
    #: None for a root folder, a project that was never seen, and one that another memory folder holds.
    project: ProjectRow | None
    is_global: bool = False
    #: True if the project is in a vault or, in a vault, outside of it: nothing of it may be stored here.
    is_elsewhere: bool = False


def scope_of_folder(store: Store, settings: Settings, cwd: str, *, make: bool = False) -> FolderScope:
    """Return the project of a working folder; with ``make``, store it if it is new."""
    project = project_for(store, cwd, settings)
    if project.is_global or not project.identity:
        return FolderScope(None, project.is_global)
    if is_excluded_by_vault(settings.places, project.identity, cwd):
        return FolderScope(None, is_elsewhere=True)
    known = find_or_await(store, project.identity, project.remote)
    if make and (known is None or not known.root):
        with store.transaction() as tx:
            known = store_project(tx, project)
    return FolderScope(known)


def store_project(tx: Tx, project: Project) -> ProjectRow:
    """Return the stored form of an identified project, creating it if necessary."""
    return ensure_project(
        tx, project.identity, project.name, project.root, remote=project.remote, first_commit=project.first_commit
    )


def named_project(store: Store, name: str) -> ProjectRow:
    """Return a project by its stored or displayed name, or by its identity.

    Raises:
        NotFound: there is no such project; the message lists the existing ones.
    """
    project = find_project(store, name)
    if project is None:
        shown = [project for project in list_projects(store) if visible(project.name) == name]
        project = shown[0] if len(shown) == 1 else None
    if project is None and find_vault(Home(store.path.parent), name) is not None:
        raise NotFound(f"{name[:60]} is in a vault; to work with it: engram --vault {shlex.quote(name[:60])} COMMAND")
    if project is None:
        held = [project.name for project in list_held_projects(store)]
        more = f" and {len(held) - 12} more (`engram projects`)" if len(held) > 12 else ""
        names = ", ".join(held[:12]) + more or "none yet"
        near = nearest_names(name, held)
        meant = f"Did you mean {near[0]!r}? " if near else ""
        raise NotFound(
            f"there is no project {name[:60]!r}. {meant}Known projects: {names}. A folder becomes a project "
            "with its first session, or with the first `engram save` in it"
        )
    return project


def vault_of(settings: Settings, cwd: str) -> Vault | None:
    """Return the vault to which a working folder, or the repository of which it is a worktree, belongs.

    Raises:
        HomeError: a vault can't be read.
    """
    if not cwd or not list_vaults(settings.places):
        return None
    vault = vault_of_folder(settings.places, cwd)
    return vault or vault_of_identity(settings.places, identify_folder(cwd, settings).identity)
