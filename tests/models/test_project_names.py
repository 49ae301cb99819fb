"""A name belongs to one project for good, in this memory and in one that it is carried into."""

from __future__ import annotations

from pathlib import Path

from engram.models import project_names
from engram.models.project_folders import rename_project
from engram.models.store import Store, open_store
from tests.models.conversations import store_project


def test_a_former_name_still_means_its_project(store: Store) -> None:
    project = store_project(store, "old")
    rename_project(store, project, "new")

    assert project_names.names_of_project(store, project.id) == {"old", "new"}
    assert project_names.project_id_of_name(store, "old") == project.id
    assert project_names.project_id_of_name(store, "never") is None


def test_a_name_is_taken_for_all_but_its_own_project(store: Store) -> None:
    rename_project(store, store_project(store, "old"), "new")

    for name in ("old", "new"):
        assert project_names.is_name_taken(store, name, {"git:/else"})
        assert not project_names.is_name_taken(store, name, {"git:/old"})
    assert not project_names.is_name_taken(store, "never", ())


def test_the_first_who_had_a_name_keeps_it(store: Store) -> None:
    first, second = store_project(store, "a"), store_project(store, "b")
    with store.transaction() as tx:
        project_names.keep_former_name(tx, "ours", first.identity)
        project_names.keep_former_name(tx, "ours", second.identity)

    assert project_names.project_id_of_name(store, "ours") == first.id


def test_names_of_another_memory_are_taken_over_by_identity(store: Store, tmp_path: Path) -> None:
    with open_store(tmp_path / "source.db") as source:
        rename_project(source, store_project(source, "a"), "renamed there")
        with store.transaction() as tx:
            project_names.carry_names(tx, source)

    project = store_project(store, "a")

    assert project_names.names_of_project(store, project.id) == {"a", "renamed there"}
