"""A project's saved notes and its sections of MEMORY.md stay its own under every name that it has or had."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from engram.enums import Actor
from engram.errors import BadRequest
from engram.models.engine.transaction import Store
from engram.models.hub.carried_hubs import carry_hubs
from engram.models.open_memory import open_store
from engram.models.projects.project_folders import merge_projects
from engram.models.projects.projects import ProjectRow, ensure_project, rename_project
from engram.models.rescue.restore import restore_backup
from engram.models.search.fulltext import search_notes
from engram.models.search.vector_rows import put_vectors
from engram.notes.daily_log import save_note
from engram.notes.note_index import index_notes, read_lines
from engram.paths import Home
from engram.redaction import redact
from engram.search.passages.passage_search import readable_notes
from engram.settings import Settings

SOURCES = ("saved/1970-01-01.md", "MEMORY.md")


def made_project(store: Store, name: str, folder: str = "") -> ProjectRow:
    with store.transaction() as tx:
        return ensure_project(tx, folder or f"/gone/{name}", name, folder or f"/gone/{name}")


@pytest.fixture
def boat(memory: Store, home: Home) -> ProjectRow:
    """A project with a saved note and a section of MEMORY.md about the walrus."""
    project = made_project(memory, "boat")
    save_note(home, "The walrus sleeps here.", redact, 0, project="boat")
    home.memory_note.write_text("# Memory\n\n## 2026-03, boat\n- a walrus by hand\n")
    index_notes(memory, Settings(home=home.root), redact)
    return project


def sees(store: Store, home: Home, project: ProjectRow) -> list[str]:
    """What a project is shown of the walrus: by search, and by reading the two notes."""
    settings = Settings(home=home.root)
    shown = ["search"] * len(search_notes(store, ["walrus"], 10, project_id=project.id))
    return [
        *shown,
        *(one for one in SOURCES if "walrus" in read_lines(store, settings, redact, one, project_id=project.id)),
    ]


SEES_ALL = ["search", "search", *SOURCES]


def test_a_renamed_project_sees_its_notes_and_another_one_of_its_former_name_does_not(
    memory: Store, home: Home, boat: ProjectRow
) -> None:
    other = made_project(memory, "shed")
    assert sees(memory, home, boat) == SEES_ALL

    rename_project(memory, boat, "ferry")
    rename_project(memory, boat, "ship")
    save_note(home, "The second walrus.", redact, 0, project="ship")
    index_notes(memory, Settings(home=home.root), redact)
    newcomer = made_project(memory, "boat", "/gone/other/boat")

    assert sees(memory, home, boat) == ["search", *SEES_ALL]
    assert newcomer.name == "other-boat"
    assert sees(memory, home, newcomer) == sees(memory, home, other) == []
    with pytest.raises(BadRequest, match="was named"):
        rename_project(memory, other, "ferry")
    assert rename_project(memory, boat, "boat") == "boat"
    assert sees(memory, home, boat) == ["search", *SEES_ALL]


def test_a_project_that_another_one_joined_sees_the_notes_of_both(memory: Store, home: Home, boat: ProjectRow) -> None:
    shed = made_project(memory, "shed")
    rename_project(memory, boat, "ship")
    chunk = memory.value("SELECT id FROM note_chunk WHERE text LIKE '%sleeps here%'")
    with memory.transaction() as tx:
        put_vectors(tx, "m", [("n", chunk, 0, b"walrus")])
    seen = memory.value("SELECT max(seq) FROM vector")

    merge_projects(memory, shed, boat, "by hand", actor=Actor.USER)

    assert sees(memory, home, shed) == SEES_ALL
    # An index in memory reads the vector again, with its new project.
    assert memory.value("SELECT max(seq) FROM vector") > seen
    merge_projects(memory, made_project(memory, "pier"), shed, "by hand", actor=Actor.USER)
    assert sees(memory, home, made_project(memory, "pier")) == SEES_ALL


def test_a_restored_backup_from_before_a_rename_knows_the_new_name_too(
    memory: Store, home: Home, boat: ProjectRow, tmp_path: Path
) -> None:
    memory.checkpoint("TRUNCATE")
    backup = shutil.copyfile(home.memory_db, tmp_path / "before.db")
    rename_project(memory, boat, "ship")
    save_note(home, "The second walrus.", redact, 0, project="ship")
    driver = memory.driver
    memory.close()

    restore_backup(home.memory_db, backup, driver=driver, carry_more=carry_hubs)

    with open_store(home.memory_db) as restored:
        index_notes(restored, Settings(home=home.root), redact)
        assert sees(restored, home, boat) == ["search", *SEES_ALL]


def test_a_long_name_is_cut_to_what_a_heading_holds(memory: Store, home: Home) -> None:
    long = made_project(memory, "x" * 200)
    longer = made_project(memory, "x" * 201, "/gone/longer")
    save_note(home, "The walrus sleeps here.", redact, 0, project=longer.name)
    index_notes(memory, Settings(home=home.root), redact)

    assert (len(long.name), len(longer.name)) == (60, 56)
    assert longer.name.endswith("x-2")
    home.memory_note.write_text("")  # an empty note has no owners
    assert sees(memory, home, longer) == ["search", SOURCES[0]]
    assert sees(memory, home, long) == []


def test_a_note_that_is_found_has_the_projects_present_name_and_no_comment(
    memory: Store, home: Home, boat: ProjectRow
) -> None:
    home.memory_note.write_text(
        "# Memory <!-- mine -->\n\n## 2026-03, boat\n<!-- of two\nlines -->\n"
        "- a walrus by hand <!-- ep_0123456789ab -->\n```html\n<!-- a walrus in code -->\n```\n"
    )
    index_notes(memory, Settings(home=home.root), redact)
    rename_project(memory, boat, "ship")

    found = readable_notes(memory, [row_id for row_id, _ in search_notes(memory, ["walrus"], 10)])

    assert {row.heading for row in found.values()} == {"Memory › 2026-03, ship", "Saved on 1970-01-01 › ship"}
    texts = {row.text for row in found.values()}
    assert "- a walrus by hand" in texts
    assert any("<!-- a walrus in code -->" in text for text in texts)
    assert not any("ep_0123456789ab" in text for text in texts)
