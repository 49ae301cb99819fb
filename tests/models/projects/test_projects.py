"""A project is found by what it is called and by every folder that means it, and its name is nobody else's."""

from __future__ import annotations

import pytest

from engram.models.engine.transaction import Store
from engram.models.projects.project_folders import link_folder, list_hints
from engram.models.projects.projects import (
    ensure_project,
    find_project,
    find_project_of_identity,
    known_roots,
    list_projects,
    project_by_id,
    rename_project,
)
from engram.transcripts.project import KnownRoot


def test_a_project_is_made_once_and_found_by_name_identity_and_row(store: Store) -> None:
    with store.transaction() as tx:
        made = ensure_project(tx, "/dev/harbor", "harbor", "/dev/harbor")
        again = ensure_project(tx, "/dev/harbor", "another name", "/elsewhere")

    assert again == made
    assert find_project(store, "harbor") == find_project(store, "/dev/harbor") == project_by_id(store, made.id) == made
    assert find_project(store, "pier") is None
    assert list_projects(store) == [made]


def test_projects_are_listed_as_people_sort_names(store: Store) -> None:
    with store.transaction() as tx:
        for name in ("pier", "Harbor", "anchor", "Mole"):
            ensure_project(tx, f"/dev/{name}", name)

    names = ["anchor", "Harbor", "Mole", "pier"]
    assert [project.name for project in list_projects(store)] == names
    assert [hints.project.name for hints in list_hints(store)] == names


def test_a_name_is_not_an_identity(store: Store) -> None:
    with store.transaction() as tx:
        ensure_project(tx, "/dev/harbor", "harbor")

    assert find_project_of_identity(store, "harbor") is None


def test_a_folder_that_was_joined_means_the_project(store: Store) -> None:
    with store.transaction() as tx:
        harbor = ensure_project(tx, "/dev/harbor", "harbor", "/dev/harbor")
        link_folder(tx, harbor, "/old/harbor", "/old/harbor", "moved")

    assert find_project(store, "/old/harbor") == find_project_of_identity(store, "/old/harbor") == harbor
    assert sorted(known_roots(store)) == [
        KnownRoot("/dev/harbor", project_id=harbor.id),
        KnownRoot("/old/harbor", is_repository=True, project_id=harbor.id),
    ]
    with store.transaction() as tx:
        assert ensure_project(tx, "/old/harbor", "harbor") == harbor


def test_a_name_that_another_project_has_or_had_gets_a_number(store: Store) -> None:
    with store.transaction() as tx:
        first = ensure_project(tx, "/a", "demo")
        second = ensure_project(tx, "/b", "demo")
    rename_project(store, first, "renamed")
    with store.transaction() as tx:
        third = ensure_project(tx, "/c", "demo")

    assert [second.name, third.name] == ["demo-2", "demo-3"]


@pytest.mark.parametrize(
    ("identity", "remote", "name"),
    [
        ("/home/anna/web/demo", "", "web-demo"),
        ("/home/anna/web/demo", "code.example/acme/demo", "web-demo"),
        ("/srv/home/anna/code/demo", "", "srv-demo"),
        ("/home/ben/code/demo", "code.example/acme/demo", "ben-demo"),
        ("/home/anna/demo/demo", "code.example/acme/demo", "acme-demo"),
        ("/home/anna/code/demo//0123", "code.example/acme/demo", "acme-demo"),
        ("D:\\work\\demo", "", "work-demo"),
        ("D:\\demo", "", "demo-2"),
        ("hub:code.example/acme/demo", "", "acme-demo"),
        ("/b", "/srv/git/demo", "demo-2"),
    ],
)
def test_a_name_that_another_project_has_is_distinguished_by_the_folder_or_the_owner(
    store: Store, identity: str, remote: str, name: str
) -> None:
    with store.transaction() as tx:
        ensure_project(tx, "/home/anna/code/demo", "demo")
        assert ensure_project(tx, identity, "demo", remote=remote).name == name
        assert ensure_project(tx, identity, "demo", remote=remote).name == name


@pytest.mark.parametrize(("wanted", "name"), [("", "project"), ("two\nlines", "two lines"), ("x" * 80, "x" * 60)])
def test_a_name_is_one_line_of_at_most_60_characters(store: Store, wanted: str, name: str) -> None:
    with store.transaction() as tx:
        assert ensure_project(tx, "/a", wanted).name == name
