"""Names of projects: each belongs to one project for good, so that notes under a former name are still found as its."""

from __future__ import annotations

from collections.abc import Collection

from engram.models.store import Store
from engram.models.transaction import Reader, Tx

#: Longest name, in characters: it stands whole in the headings of notes.
MAX_NAME_CHARACTERS = 60


def keep_former_name(tx: Tx, name: str, identity: str) -> None:
    """Let a name go on meaning the project of a folder that it no longer has."""
    tx.run("INSERT OR IGNORE INTO former_name VALUES (?, ?)", (name, identity))


def keep_name(tx: Tx, project_id: int) -> None:
    """Keep the name of a project that is about to get another one, or to go."""
    tx.run("INSERT OR IGNORE INTO former_name SELECT name, identity FROM project WHERE id = ?", (project_id,))


def is_name_taken(store: Reader, name: str, identities: Collection[str]) -> bool:
    """True where a project that is known by none of these identities has the name or had it before."""
    rows = store.rows(
        "SELECT identity FROM project WHERE name = ? UNION SELECT identity FROM former_name WHERE name = ?",
        (name, name),
    )
    return any(str(row[0]) not in identities for row in rows)


def project_id_of_name(store: Reader, name: str) -> int | None:
    """Row id of the project that has the name or had it before."""
    found = store.value("SELECT project_id FROM project_named WHERE name = ?", (name,))
    return None if found is None else int(found)


def names_of_project(store: Reader, project_id: int) -> set[str]:
    """Every name that a project has or had."""
    return {str(row[0]) for row in store.rows("SELECT name FROM project_named WHERE project_id = ?", (project_id,))}


def carry_names(tx: Tx, source: Store) -> None:
    """Take over the names that projects have or had in another memory."""
    names = source.rows("SELECT name, identity FROM project")
    if source.row("SELECT 1 FROM sqlite_master WHERE name = 'former_name'"):
        names += source.rows("SELECT name, identity FROM former_name")
    for name, identity in names:
        keep_former_name(tx, str(name), str(identity))
