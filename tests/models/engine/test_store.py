"""memory.db: turns, memories and their index live and die together, on both drivers."""

from __future__ import annotations

import dataclasses
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest
from peewee import IntegrityError
from planting import plant

from bench.storing import load_vectors, write_turn
from engram.enums import Actor
from engram.errors import BrokenDatabase, Conflict, ForeignDatabase, NewerSchema
from engram.models.engine import statement
from engram.models.engine.transaction import Store
from engram.models.memories import memory_changes, memory_history, memory_records, tombstones
from engram.models.open_memory import open_store
from engram.models.projects import projects
from engram.models.rescue import backup
from engram.models.search import fulltext, vector_rows
from engram.models.sessions import reading_progress, sessions, stored_turns, turn_changes
from engram.models.work import work
from engram.paths import Home
from engram.transcripts.agents import Cursor, Place
from engram.transcripts.turns import Action, EntryRef, Opening, Role, TextBlock, Turn

PROMPT = "11111111-1111-1111-1111-111111111111"
REPLY = "21111111-1111-1111-1111-111111111111"


@pytest.fixture(params=["cysqlite", "sqlite3"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    opened = open_store(tmp_path / "home" / "memory.db", driver=request.param)
    yield opened
    opened.close()


def asked(text: str = "Why does the banana leak?") -> Turn:
    return Turn(
        key=PROMPT,
        session_id="s1",
        opening=Opening.PROMPT,
        said=(TextBlock(PROMPT, Role.USER, text, offset=0, length=5, line=1),),
        entries=(EntryRef(PROMPT, 0, 5, 1),),
    )


def answered(turn: Turn) -> Turn:
    return dataclasses.replace(
        turn,
        said=(*turn.said, TextBlock(REPLY, Role.ASSISTANT, "Because of the cherry. " * 40, "m1")),
        entries=(*turn.entries, EntryRef(REPLY, 6, 5, 2)),
        actions=(Action("t1", "Bash", command="ls"),),
    )


def write(store: Store, turn: Turn) -> int:
    with store.transaction() as tx:
        project = projects.ensure_project(tx, "git:/a", "a", "/a")
        session = sessions.ensure_session(
            tx, "s1", agent="claude-code", project_id=project.id, is_global=False, cwd="/a", at_ms=5
        )
        return write_turn(tx, turn, session, reading_progress.ensure_transcript(tx, Path("/x/s1.jsonl"), session.id))


def test_a_turn_comes_back_as_it_was_written(store: Store) -> None:
    turn = answered(asked())

    write(store, turn)

    loaded = stored_turns.load_turn(store, PROMPT)
    assert loaded is not None
    assert loaded.turn == turn


def test_a_turn_that_grows_keeps_its_row_and_raises_its_revision(store: Store) -> None:
    first = write(store, asked())

    second = write(store, answered(asked()))

    loaded = stored_turns.load_turn(store, PROMPT)
    assert loaded is not None
    assert (first, loaded.revision, len(loaded.turn.said)) == (second, 2, 2)


def test_extraction_of_a_revision_that_has_grown_meanwhile_is_refused(store: Store) -> None:
    row = write(store, asked())
    write(store, answered(asked()))

    with pytest.raises(Conflict), store.transaction() as tx:
        stored_turns.mark_extracted(tx, {row: 1})


def test_an_entry_belongs_to_one_turn_only(store: Store) -> None:
    write(store, asked())

    with pytest.raises(Conflict):
        write(store, dataclasses.replace(asked(), key="other"))


def test_neighbouring_passages_find_each_other_and_the_index_stays_whole(store: Store) -> None:
    write(store, asked())
    write(store, answered(asked()))

    assert fulltext.search_passages(store, ["banana"], 9)[0][0] == 1
    assert len(fulltext.search_passages(store, ["banana"], 9)) == 2
    assert fulltext.search_passages(store, ["cherries"], 9)
    assert store.find_damage() == ""


def test_a_deleted_turn_leaves_neither_text_nor_index_nor_its_entries_free(store: Store) -> None:
    row = write(store, answered(asked()))

    with store.transaction() as tx:
        turn_changes.delete_turn(tx, row)

    assert fulltext.search_passages(store, ["banana", "cherry"], 9) == []
    assert store.find_damage() == ""
    assert reading_progress.known_uuids(store, [PROMPT, "never-seen"]) == {PROMPT}
    assert tombstones.is_turn_forgotten(store, PROMPT)


def test_a_cursor_moves_only_from_where_it_was_read(store: Store) -> None:
    write(store, asked())
    path = Path("/x/s1.jsonl")
    before = reading_progress.load_progress(store, Place(path))
    after = dataclasses.replace(before, cursor=Cursor("10"))
    with store.transaction() as tx:
        reading_progress.move_cursor(tx, before, after, before.transcript_id)

    with pytest.raises(Conflict), store.transaction() as tx:
        reading_progress.move_cursor(tx, before, after, before.transcript_id)


def test_an_memory_keeps_its_history_and_its_index_follows_its_text(store: Store) -> None:
    with store.transaction() as tx:
        made = memory_changes.add_memory(
            tx,
            memory_records.Memory(memory_records.new_memory_id(), "fix", "flock leaks", "zebra"),
            [],
            actor=Actor.MODEL,
        )
        memory_changes.change_memory(tx, made, "edit", "better words", summary="lock is held", actor=Actor.USER)

    assert fulltext.search_memories(store, ["flock"], 5) == []
    assert fulltext.search_memories(store, ["held"], 5)[0][0] == made.id
    changes = memory_history.history_of(store, made.episode_id)
    assert [c.action for c in changes] == ["add", "edit"]
    assert changes[1].before == {"summary": "flock leaks"}


def test_a_deleted_memory_leaves_a_tombstone_for_its_slot(store: Store) -> None:
    slot = memory_records.slot_of("turn", "fix", "flock leaks")
    with store.transaction() as tx:
        made = memory_changes.add_memory(
            tx,
            memory_records.Memory(memory_records.new_memory_id(), "fix", "flock leaks", "zebra", slot=slot),
            [],
            actor=Actor.MODEL,
        )
        memory_changes.delete_memory(tx, made, actor=Actor.USER)

    assert memory_records.find_memory(store, made.episode_id) is None
    assert tombstones.is_slot_gone(store, slot)


def test_vectors_of_forgotten_rows_are_not_stored(store: Store) -> None:
    row = write(store, asked())
    with store.transaction() as tx:
        turn_changes.delete_turn(tx, row)

    with store.transaction() as tx:
        vector_rows.put_vectors(tx, "m", [("p", 1, 0, b"\0\0")])

    assert load_vectors(store, "p", "m") == []


def test_work_made_due_while_it_runs_stays_due(store: Store) -> None:
    with store.transaction() as tx:
        work.make_due(tx, "extract", "s1", 0)
    (running,) = work.due_work(store)
    with store.transaction() as tx:
        work.make_due(tx, "extract", "s1", 0)

    with store.transaction() as tx:
        assert not work.finish(tx, running)

    assert [w.key for w in work.due_work(store)] == ["s1"]


def test_failed_work_waits_longer_each_time_and_is_never_dropped(store: Store) -> None:
    with store.transaction() as tx:
        work.make_due(tx, "extract", "s1", 0)
    waits = []
    for _ in range(5):
        found = work.find_work(store, "extract", "s1")
        assert found is not None
        work.fail(store, found, "no answer")
        again = work.find_work(store, "extract", "s1")
        assert again is not None
        waits.append(round((again.due_at_ms - store.now_ms()) / 1000))

    assert waits == [15, 30, 60, 120, 120]


def test_a_lease_has_one_holder_and_keeps_its_interval(store: Store) -> None:
    assert work.take_lease(store, "consolidate", "one", 60, every_seconds=600)
    assert not work.take_lease(store, "consolidate", "two", 60, every_seconds=600)

    work.release_lease(store, "consolidate", "one")

    assert not work.take_lease(store, "consolidate", "two", 60, every_seconds=600)


def test_another_programs_database_is_set_aside_untouched(tmp_path: Path) -> None:
    path = tmp_path / "memory.db"
    foreign = sqlite3.connect(path)
    foreign.execute("CREATE TABLE memories (text)")
    foreign.execute("INSERT INTO memories VALUES ('mine')")
    foreign.commit()
    foreign.close()
    with pytest.raises(ForeignDatabase):
        Store(path).open()

    open_store(path).close()

    kept = sqlite3.connect(tmp_path / "memory.v2.db")
    assert kept.execute("SELECT text FROM memories").fetchall() == [("mine",)]
    kept.close()


def test_a_newer_database_is_refused_and_not_changed(store: Store) -> None:
    plant(store, "PRAGMA user_version = 99")
    plant(store, "UPDATE meta SET value = '99' WHERE key = 'schema_version'")
    store.close()

    with pytest.raises(NewerSchema):
        Store(store.path, driver=store.driver).open()


@pytest.mark.parametrize("text", [PROMPT, "msg_1", "exactly16letters", "t" * 15, "ÄÖ", PROMPT.upper()])
def test_every_uuid_survives_packing(text: str) -> None:
    assert statement.unpack_uuid(statement.pack_uuid(text)) == text


def test_who_may_see_a_memory_is_known_to_its_vector_too(store: Store) -> None:
    with store.transaction() as tx:
        made = memory_changes.add_memory(
            tx,
            memory_records.Memory(memory_records.new_memory_id(), "fact", "a summary", "content"),
            [],
            actor=Actor.MODEL,
        )
        vector_rows.put_vectors(tx, "m", [("e", made.id, 0, b"\0\0")])
        memory_changes.change_memory(tx, made, "edit", is_pinned=True, actor=Actor.USER)
    kept = load_vectors(store, "e", "m")

    with store.transaction() as tx:
        memory_changes.change_memory(tx, made, "edit", scope="global", actor=Actor.USER)

    assert [row_id for row_id, _, _ in kept] == [made.id]
    assert load_vectors(store, "e", "m") == []


def test_an_emptied_file_is_damage_while_there_are_backups(tmp_path: Path) -> None:
    path = tmp_path / "memory.db"
    path.touch()
    # A start that was killed: there is nothing to lose.
    open_store(path).close()
    assert path.stat().st_size > 0
    with open_store(path) as store:
        backup.make_backup(store, Home(tmp_path).backups)
        store.checkpoint("TRUNCATE")
    path.write_bytes(b"")

    with pytest.raises(BrokenDatabase, match="it is empty, but there are backups"):
        open_store(path)

    assert path.read_bytes() == b""


def test_a_row_that_points_nowhere_because_of_damage_is_not_a_bug(store: Store) -> None:
    with pytest.raises(IntegrityError), store.transaction() as tx:
        tx.run("INSERT INTO vector (owner, owner_id, piece, model_id, data) VALUES ('e', 1, 0, 77, x'00')")
    store.checkpoint("TRUNCATE")
    page = int(store.value("SELECT rootpage FROM sqlite_master WHERE name = 'history'"))
    store.close()
    with store.path.open("r+b") as file:
        file.seek((page - 1) * 4096)
        file.write(bytes(4096))

    with pytest.raises(BrokenDatabase, match="FOREIGN KEY"), store.transaction() as tx:
        tx.run("INSERT INTO vector (owner, owner_id, piece, model_id, data) VALUES ('e', 1, 0, 77, x'00')")
