"""A project's rows go into another database with new numbers, once, and leave nothing behind."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

from engram.enums import Scope
from engram.models import tables
from engram.models.engine.meta import get_meta
from engram.models.engine.transaction import Store
from engram.models.memories.memory_records import Evidence, Memory, all_memories, evidence_of
from engram.models.memories.tombstones import TombstoneKind, add_tombstones
from engram.models.open_memory import open_store
from engram.models.projects.projects import ProjectRow, ensure_project, find_project
from engram.models.rescue import copy_project
from engram.models.search.vector_rows import count_vectors_by_model, put_vectors, vectors_of
from engram.models.sessions.sessions import add_known_values, ensure_session


@pytest.fixture
def project(store: Store, keep: Callable[..., Memory]) -> ProjectRow:
    """A project among others, so that its numbers are not those of an empty database."""
    with store.transaction() as tx:
        ensure_project(tx, "/gone/other", "other", "/gone/other")
        project = ensure_project(tx, "/gone/acme", "acme", "/gone/acme")
        for session_id, of in (("s-other", None), ("s-acme", project.id)):
            ensure_session(tx, session_id, agent="a", project_id=of, is_global=False, cwd="", at_ms=1)
        number = tx.value("SELECT id FROM session WHERE session_id = 's-acme'")
        add_known_values(tx, number, frozenset({b"hash"}))
        add_tombstones(tx, TombstoneKind.ENTRY, [b"an entry"])
    keep("Not of it.", entities=("crane",))
    keep("Of it.", project_id=project.id, session_id="s-acme", entities=("crane", "mole"), scope=Scope.PROJECT)
    keep("Of it, and global.", project_id=project.id, evidence=[Evidence("u", "s-other", 7)])
    return project


@pytest.fixture
def target(tmp_path: Path, keep: Callable[..., Memory]) -> Iterator[Store]:
    (tmp_path / "target").mkdir()
    with open_store(tmp_path / "target" / "memory.db") as target:
        with target.transaction() as tx:
            ensure_project(tx, "/gone/x", "acme", "/gone/x")
        yield target


#: Tables that are not copied, each with the reason.
NOT_COPIED = {
    **dict.fromkeys(("project", "entity", "episode_entity", "vector_model"), "copied with other ids, by name"),
    "vector": "copied with those of the models",
    **dict.fromkeys(("note", "note_chunk"), "made again"),
    **dict.fromkeys(("meta", "task_run", "lease", "stage", "pause", "run", "spend"), "means the source alone"),
    "former_name": "deleted with the project",
    **dict.fromkeys(
        ("hub_server", "hub_space", "hub_memory", "hub_set_aside", "hub_member", "hub_rule"), "a vault joins no hub"
    ),
}


def test_every_table_is_copied_or_left_for_a_reason() -> None:
    copied = {name for name, _, _ in copy_project._ROWS}

    assert {table._meta.table_name for table in tables.ALL_TABLES} == copied | set(NOT_COPIED)
    assert copied & set(NOT_COPIED) == set()


def test_rows_are_copied_once_with_their_references(store: Store, target: Store, project: ProjectRow) -> None:
    copy_project.take_over_salt(target, store)
    made = copy_project.copy_project(target, store.path, project)
    again = copy_project.copy_project(target, store.path, project)

    assert (made.identity, made.name, again) == ("/gone/acme", "acme-2", made)
    own, from_it = all_memories(target)
    assert (own.summary, own.project_id, own.session_id, own.entities) == (
        "Of it.",
        made.id,
        "s-acme",
        ("crane", "mole"),
    )
    # What it rests on of other projects is named, and leads nowhere here.
    assert [(one.uuid, one.turn_id) for one in evidence_of(target, from_it.id)] == [("u", None)]
    assert target.value("SELECT count(*) FROM episode_entity") == 2
    assert target.value("SELECT count(*) FROM known_value") == 1
    assert target.value("SELECT count(*) FROM history") == 2
    assert target.value("SELECT count(*) FROM tombstone") == 1
    assert get_meta(target, "salt") == get_meta(store, "salt")
    assert target.find_damage() == ""


def test_vectors_keep_their_model_and_their_owner(store: Store, target: Store, project: ProjectRow) -> None:
    data = np.arange(8, dtype=np.float16).tobytes()
    rows = {memory.summary: memory.id for memory in all_memories(store)}
    with store.transaction() as tx:
        for name in rows:
            put_vectors(tx, f"model of {name}", [("e", rows[name], 0, data), ("e", rows[name], 1, data)])
    with target.transaction() as tx:
        tx.run("INSERT INTO vector_model (name) VALUES ('another'), ('model of Of it.')")

    copy_project.copy_project(target, store.path, project)

    for memory in all_memories(target):
        kept = vectors_of(target, "e", f"model of {memory.summary}", [memory.id])
        assert [(owner, piece) for owner, piece, _ in kept] == [(memory.id, 0), (memory.id, 1)]
    assert count_vectors_by_model(target) == {"model of Of it.": 2, "model of Of it, and global.": 2}


def test_what_was_only_moved_leaves_no_mark_and_no_row(store: Store, project: ProjectRow) -> None:
    before = copy_project.tombstone_times(store)
    with store.transaction() as tx:
        copy_project.make_project_scoped(tx, project)
        add_tombstones(tx, TombstoneKind.TURN, [b"moved"])
        tx.run("DELETE FROM evidence")
        tx.run("DELETE FROM episode_entity")
        tx.run("DELETE FROM episode WHERE project_id = ? AND scope = 'project'", (project.id,))
        copy_project.put_tombstones_back(tx, before)
        copy_project.drop_project_rows(tx, project)

    assert copy_project.tombstone_times(store) == before
    assert find_project(store, "acme") is None
    assert store.rows("SELECT session_id FROM session") == [("s-other",)]
    assert [memory.summary for memory in all_memories(store)] == ["Not of it."]
