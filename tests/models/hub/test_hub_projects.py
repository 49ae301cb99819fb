"""Projects across machines: by their remote, as placeholders, and by a person's link."""

from __future__ import annotations

from engram.enums import Actor
from engram.models.engine.transaction import Store
from engram.models.hub.outgoing_statements import (
    PLACEHOLDER,
    adopt_placeholders,
    is_shareable,
    place_of,
    shared_identity,
)
from engram.models.projects.project_folders import merge_projects, note_hints
from engram.models.projects.projects import ProjectRow, ensure_project, list_projects


def make(store: Store, folder: str, remote: str = "", first_commit: str = "") -> ProjectRow:
    with store.transaction() as tx:
        project = ensure_project(tx, folder, folder.rpartition("/")[2], folder)
    with store.transaction() as tx:
        note_hints(tx, project.id, remote, first_commit)
    return project


def test_a_project_is_known_by_its_remote_and_never_by_a_path(store: Store) -> None:
    harbor = make(store, "/home/ada/harbor", "github.com/ada/harbor", "a" * 40)
    local = make(store, "/home/ada/notes", "/srv/git/notes")

    assert shared_identity(store, harbor) == ["github.com/ada/harbor", "a" * 40, "harbor"]
    assert shared_identity(store, local)[0].startswith("id:")
    assert not is_shareable("../harbor")
    with store.transaction() as tx:
        assert place_of(tx, ["github.com/ada/harbor", "a" * 40, "port"]).id == harbor.id
        # A repository that only claims the remote began with another commit.
        assert place_of(tx, ["github.com/ada/harbor", "b" * 40, "port"]).identity.startswith(PLACEHOLDER)


def test_a_placeholder_becomes_the_folder_that_turns_up_with_its_remote(store: Store) -> None:
    with store.transaction() as tx:
        placeholder = place_of(tx, ["github.com/ada/harbor", "", "harbor"])
        assert place_of(tx, ["github.com/ada/harbor", "", "harbor"]) == placeholder
    assert adopt_placeholders(store) == 0
    real = make(store, "/home/ada/harbor", "github.com/ada/harbor")

    assert adopt_placeholders(store) == 1
    assert [project.id for project in list_projects(store)] == [real.id]
    with store.transaction() as tx:
        assert place_of(tx, ["github.com/ada/harbor", "", "harbor"]).id == real.id


def test_a_link_by_hand_holds_in_both_directions(store: Store) -> None:
    mine = make(store, "/home/ada/notes")
    with store.transaction() as tx:
        placeholder = place_of(tx, ["id:0123456789abcdef", "", "jottings"])
    merge_projects(store, mine, placeholder, "linked by hand", actor=Actor.USER)

    assert shared_identity(store, mine)[0] == "id:0123456789abcdef"
