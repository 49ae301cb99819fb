"""Names of projects: each belongs to one project for good, so that notes under a former name are still found as its."""

from __future__ import annotations

from collections.abc import Collection

from peewee import Query

from engram.models import tables
from engram.models.statement import prepared
from engram.models.store import Store
from engram.models.transaction import Reader, Tx

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
