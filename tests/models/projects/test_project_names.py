"""A name belongs to one project for good, in this memory and in one that it is carried into."""

from __future__ import annotations

from pathlib import Path

import pytest

from engram.errors import BadRequest
from engram.models.engine.transaction import Store
from engram.models.open_memory import open_store
from engram.models.projects import projects
from engram.models.projects.projects import rename_project
from tests.models.conversations import store_project


def test_a_former_name_still_means_its_project(store: Store) -> None:
    project = store_project(store, "old")
    rename_project(store, project, "new")

    assert projects.names_of_project(store, project.id) == {"old", "new"}
    assert projects.project_id_of_name(store, "old") == project.id
    assert projects.project_id_of_name(store, "never") is None


@pytest.mark.parametrize("name", ["", "  \n ", "a/b", "x" * 61, "taken", "once taken"])
def test_a_name_that_is_empty_too_long_or_another_projects_is_refused(store: Store, name: str) -> None:
    project, taken = store_project(store, "a"), store_project(store, "once taken")
    rename_project(store, taken, "taken")

    with pytest.raises(BadRequest):
        rename_project(store, project, name)

    assert projects.find_project(store, "a") == project


def test_a_renamed_project_may_have_its_former_name_again(store: Store) -> None:
    project = store_project(store, "a")

    assert rename_project(store, project, " two \x07 words ") == "two words"
    assert projects.project_id_of_name(store, "a") == project.id
    assert rename_project(store, project, "a") == "a"


def test_a_name_is_taken_for_all_but_its_own_project(store: Store) -> None:
    rename_project(store, store_project(store, "old"), "new")

    for name in ("old", "new"):
        assert projects.is_name_taken(store, name, {"git:/else"})
        assert not projects.is_name_taken(store, name, {"git:/old"})
    assert not projects.is_name_taken(store, "never", ())


def test_the_first_who_had_a_name_keeps_it(store: Store) -> None:
    first, second = store_project(store, "a"), store_project(store, "b")
    with store.transaction() as tx:
        projects.keep_former_name(tx, "ours", first.identity)
        projects.keep_former_name(tx, "ours", second.identity)

    assert projects.project_id_of_name(store, "ours") == first.id


def test_names_of_another_memory_are_taken_over_by_identity(store: Store, tmp_path: Path) -> None:
    with open_store(tmp_path / "source.db") as source:
        rename_project(source, store_project(source, "a"), "renamed there")
        with store.transaction() as tx:
            projects.carry_names(tx, source)

    project = store_project(store, "a")

    assert projects.names_of_project(store, project.id) == {"a", "renamed there"}


def test_no_hash_becomes_part_of_a_name(store: Store) -> None:
    number = "3f9a8c7d6e5b4a39281706f5e4d3c2b1a0f9e8d7"
    with store.transaction() as tx:
        made = [
            projects.ensure_project(tx, f"/{place}/{number}/cli", "cli").name for place in ("home/me", "tmp/a", "tmp/b")
        ]
        numbered = [projects.ensure_project(tx, f"/{n}", "a1b2c3d4e5f6a7b8c9d").name for n in range(4)]

    assert made == ["cli", "a-cli", "b-cli"]
    assert numbered == ["a1b2c3d4e5f6a7b8c9d", *(f"a1b2c3d4e5f6a7b8c9d-{n}" for n in (2, 3, 4))]
