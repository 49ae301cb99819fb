"""Which stored project a working folder belongs to."""

from __future__ import annotations

from dataclasses import dataclass

from engram.errors import NotFound
from engram.ingest.scope import project_for
from engram.models.projects import ProjectRow, ensure_project, find_project, list_projects
from engram.models.store import Store
from engram.redaction.display import visible
from engram.settings import Settings


@dataclass(frozen=True, slots=True)
class FolderScope:
    """What a working folder stands for."""

    #: None for a root folder, or a project that was never seen.
    project: ProjectRow | None
    is_global: bool = False


def scope_of_folder(store: Store, settings: Settings, cwd: str, *, make: bool = False) -> FolderScope:
    """The project of a working folder; ``make`` stores it where it is new."""
    found = project_for(store, cwd, settings)
    if found.is_global or not found.identity:
        return FolderScope(None, found.is_global)
    known = find_project(store, found.identity)
    if known is None and make:
        with store.transaction() as tx:
            known = ensure_project(tx, found.identity, found.name, found.root)
    return FolderScope(known)


def named_project(store: Store, name: str) -> ProjectRow:
    """A project by its name, as it is stored or as it is shown, or by its identity.

    Raises:
        NotFound: there is none; the message names those that exist.
    """
    found = find_project(store, name)
    if found is None:
        shown = [project for project in list_projects(store) if visible(project.name) == name]
        found = shown[0] if len(shown) == 1 else None
    if found is None:
        names = ", ".join(project.name for project in list_projects(store)[:12]) or "none yet"
        raise NotFound(f"there is no project {name[:60]!r}; known projects: {names}")
    return found
