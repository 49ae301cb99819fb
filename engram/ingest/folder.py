"""Which stored project a working folder belongs to."""

from __future__ import annotations

from dataclasses import dataclass

from engram.errors import NotFound
from engram.ingest.scope import identify_folder, project_for
from engram.models.projects import ProjectRow, ensure_project, find_project, list_projects
from engram.models.store import Store
from engram.models.transaction import Tx
from engram.paths import Home
from engram.redaction.display import visible
from engram.settings import Settings
from engram.transcripts.project import Project
from engram.vaults import Vault, find_vault, keeps_out, list_vaults, vault_of_folder, vault_of_identity


@dataclass(frozen=True, slots=True)
class FolderScope:
    """The project or scope of a working folder."""

    #: None for a root folder, or a project that was never seen.
    project: ProjectRow | None
    is_global: bool = False


def scope_of_folder(store: Store, settings: Settings, cwd: str, *, make: bool = False) -> FolderScope:
    """Return the project of a working folder; ``make`` stores a new one."""
    project = project_for(store, cwd, settings)
    if project.is_global or not project.identity:
        return FolderScope(None, project.is_global)
    if keeps_out(settings.places, project.identity, cwd):
        return FolderScope(None)
    known = find_project(store, project.identity)
    if make and (known is None or not known.root):
        with store.transaction() as tx:
            known = ensure(tx, project)
    return FolderScope(known)


def ensure(tx: Tx, project: Project) -> ProjectRow:
    """Return the stored project of what was identified, made where it is new."""
    return ensure_project(
        tx,
        project.identity,
        project.name,
        project.root,
        remote=project.remote,
        first_commit=project.first_commit,
    )


def named_project(store: Store, name: str) -> ProjectRow:
    """Return a project by its name, as stored or as shown, or by its identity.

    Raises:
        NotFound: there is none; the message names those that exist.
    """
    project = find_project(store, name)
    if project is None:
        shown = [project for project in list_projects(store) if visible(project.name) == name]
        project = shown[0] if len(shown) == 1 else None
    if project is None and find_vault(Home(store.path.parent), name) is not None:
        raise NotFound(f"{name[:60]} is in a vault; to work with it: engram --vault {name[:60]!r} COMMAND")
    if project is None:
        names = ", ".join(project.name for project in list_projects(store)[:12]) or "none yet"
        raise NotFound(f"there is no project {name[:60]!r}; known projects: {names}")
    return project


def vault_of(settings: Settings, cwd: str) -> Vault | None:
    """Return the vault that a working folder belongs to, in a worktree of its repository too.

    Raises:
        HomeError: a vault can't be read.
    """
    if not cwd or not list_vaults(settings.places):
        return None
    vault = vault_of_folder(settings.places, cwd)
    return vault or vault_of_identity(settings.places, identify_folder(cwd, settings).identity)
