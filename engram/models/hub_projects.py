"""Projects as several machines know them: by the address of their remote, or by a link that a person made.

A project that another machine knows and this one does not is a placeholder with the identity ``hub:…`` until a
repository with the same remote, or a person's ``engram hub link``, tells which folder it is.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from peewee import fn

from engram.enums import Actor
from engram.models import tables
from engram.models.pauses import paused_scopes
from engram.models.project_folders import identities_of_project, link_folder, merge_in, merge_projects
from engram.models.projects import ProjectRow, ensure_project, find_project_of_identity, list_projects, project_by_id
from engram.models.store import Store
from engram.models.transaction import Reader, Tx

#: What the identity of a placeholder begins with.
PLACEHOLDER = "hub:"
#: What a shared identity begins with where the project has no remote.
_BY_ID = "id:"
#: Why an identity of another machine without a remote means a project here.
_KNOWN = "another machine knows its remote now"


def shared_identity(store: Reader, project: ProjectRow) -> list[str]:
    """Return ``[identity, first commit, name]`` of a project for other machines; no path of this one."""
    linked = [name for name in identities_of_project(store, project) if name.startswith(PLACEHOLDER)]
    table = tables.Project
    row = store.fetch_first(
        table.select(table.remote, table.first_commit, table.stable_id).where(table.id == project.id)
    )
    if is_shareable(row.remote):
        folder = tables.ProjectFolder
        by_itself = folder.select(folder.identity).where((folder.project_id == project.id) & (folder.reason == _KNOWN))
        automatic = set(store.fetch_values(by_itself))
        linked = [name for name in linked if name not in automatic]
    if linked:
        return [linked[0].removeprefix(PLACEHOLDER), row.first_commit, project.name]
    identity = row.remote if is_shareable(row.remote) else _BY_ID + row.stable_id
    return [identity, row.first_commit, project.name]


def is_shareable(remote: str) -> bool:
    """True for the address of a remote on another machine; a path means another thing on each."""
    host = remote.partition("/")[0]
    return "." in host.strip(".") and not remote.startswith(("/", ".", "~"))


def former_identity(store: Reader, project: ProjectRow, identity: str) -> str:
    """Return by what a project was told before its remote was known; "" where it is told by that still."""
    if identity.startswith(_BY_ID):
        return ""
    table = tables.Project
    return _BY_ID + str(store.fetch_value(table.select(table.stable_id).where(table.id == project.id)))


def place_of(tx: Tx, shared: Sequence[Any], former: str = "") -> ProjectRow:
    """Return the project here that a shared identity means; a placeholder where none is known.

    Args:
        tx: the transaction.
        shared: identity, first commit and name.
        former: by what the same project was told before its remote was known; "" where by nothing else. From now on
            that means this project here, and what a placeholder of that name has goes to it.
    """
    identity, first_commit, name = (str(part) for part in shared)
    known = find_project_of_identity(tx, PLACEHOLDER + identity) or _real_project(tx, identity, first_commit)
    place = known or ensure_project(tx, PLACEHOLDER + identity, name)
    if former.startswith(_BY_ID):
        _let_mean(tx, PLACEHOLDER + former, place)
    return place


def _let_mean(tx: Tx, identity: str, place: ProjectRow) -> None:
    """Let the identity of a placeholder mean a project, unless it means another one already or one is paused."""
    meant = find_project_of_identity(tx, identity) or _real_project(tx, identity.removeprefix(PLACEHOLDER), "")
    if meant is None:
        link_folder(tx, place, identity, "", _KNOWN)
    elif meant.id != place.id and meant.identity == identity and not {identity, place.identity} & paused_scopes(tx):
        merge_in(tx, place, meant, _KNOWN, actor=Actor.TIDYING)


def _real_project(store: Reader, identity: str, first_commit: str) -> ProjectRow | None:
    """Return the folder that a shared identity means. A repository that claims a remote, but began with another
    commit, is another one.
    """
    project = tables.Project
    if identity.startswith(_BY_ID):
        condition = project.stable_id == identity.removeprefix(_BY_ID)
    elif is_shareable(identity):
        condition = project.remote == identity
        if first_commit:
            condition &= project.first_commit.in_(["", first_commit])
    else:
        return None
    is_real = fn.SUBSTR(project.identity, 1, len(PLACEHOLDER)) != PLACEHOLDER
    row_id = store.fetch_value(project.select(project.id).where(condition & is_real).order_by(project.id).limit(1))
    return None if row_id is None else project_by_id(store, row_id)


def adopt_placeholders(store: Store) -> int:
    """Give the memories of placeholders to the folders that turned up since; returns how many placeholders went."""
    adopted = 0
    for placeholder in list_projects(store):
        if placeholder.identity.startswith(PLACEHOLDER):
            real = _real_project(store, placeholder.identity.removeprefix(PLACEHOLDER), "")
            if real is not None and real.id != placeholder.id:
                reason = "a repository with the same remote turned up"
                merge_projects(store, real, placeholder, reason, actor=Actor.TIDYING)
                adopted += 1
    return adopted
