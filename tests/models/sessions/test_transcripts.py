"""How far a source was read: one row for each, moved by one reader at a time, and never moved back by a note."""

from __future__ import annotations

import dataclasses
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier

from engram.errors import Conflict
from engram.models.engine.transaction import Store
from engram.models.sessions import reading_progress
from engram.models.sessions.reading_progress import Progress
from engram.transcripts.agents import Cursor, Place, Source
from tests.models.conversations import make_turn, store_session, store_turn

PATH = Path("/x/s1.jsonl")


def ensure(store: Store, path: Path = PATH, session_id: str | None = "s1", part: str = "") -> int:
    session_ref = None if session_id is None else store_session(store, session_id).id
    with store.transaction() as tx:
        return reading_progress.ensure_transcript(tx, path, session_ref, part)


def test_a_source_has_one_row_and_its_session_once_that_is_known(store: Store) -> None:
    first = ensure(store, session_id=None)

    assert ensure(store, session_id="s1") == first
    assert ensure(store, session_id="s2") == first
    assert ensure(store, session_id="s2", part="7") != first
    assert reading_progress.session_of_file(store, Path("/x/never")) == ""
    assert reading_progress.places_of_session(store, "s1") == [Place(PATH)]
    assert reading_progress.places_of_session(store, "s2") == [Place(PATH, "7")]
    assert reading_progress.session_of_file(store, PATH) == "", "two sessions were read from it"


def test_of_readers_that_race_one_moves_the_cursor(store: Store) -> None:
    ensure(store)
    before = reading_progress.load_progress(store, Place(PATH))
    barrier = Barrier(4)

    def move(position: int) -> bool:
        after = dataclasses.replace(before, cursor=Cursor(str(position)))
        barrier.wait()
        try:
            with store.transaction() as tx:
                reading_progress.move_cursor(tx, before, after, before.transcript_id)
        except Conflict:
            return False
        finally:
            store.close()
        return True

    with ThreadPoolExecutor(4) as pool:
        won = list(pool.map(move, range(1, 5)))

    assert won.count(True) == 1
    assert reading_progress.load_progress(store, Place(PATH)).cursor == Cursor(str(won.index(True) + 1))


def test_a_note_of_a_reader_that_was_overtaken_changes_nothing(store: Store) -> None:
    ensure(store)
    before = reading_progress.load_progress(store, Place(PATH))
    with store.transaction() as tx:
        after = dataclasses.replace(before, cursor=Cursor("40"), stamp="new")
        reading_progress.move_cursor(tx, before, after, before.transcript_id)

    reading_progress.note_unchanged(store, dataclasses.replace(before, stamp="old"))

    assert reading_progress.load_progress(store, Place(PATH)).stamp == "new"


def test_a_moved_file_keeps_how_far_it_was_read_unless_the_new_path_is_known(store: Store) -> None:
    first, second = ensure(store), ensure(store, Path("/y/known.jsonl"))

    reading_progress.rename_transcript(store, PATH, Path("/y/known.jsonl"))
    assert reading_progress.load_progress(store, Place(PATH)).transcript_id == first
    reading_progress.rename_transcript(store, PATH, Path("/y/new.jsonl"))

    assert reading_progress.load_progress(store, Place(Path("/y/new.jsonl"))).transcript_id == first
    assert reading_progress.load_progress(store, Place(Path("/y/known.jsonl"))).transcript_id == second
    assert reading_progress.load_progress(store, Place(PATH)) == Progress(Place(PATH))


def test_an_empty_file_that_was_never_read_is_not_a_change(store: Store) -> None:
    source = Source(agent="claude-code", path=PATH, session_id="s1", stamp="5", size=5)

    assert reading_progress.is_changed(source, None)
    assert not reading_progress.is_changed(dataclasses.replace(source, size=0), None)
    ensure(store)
    seen = reading_progress.all_seen(store)[source.place]
    assert reading_progress.is_changed(source, seen)
    assert not reading_progress.is_changed(dataclasses.replace(source, stamp=seen.stamp), seen)


def test_known_entries_are_those_of_turns(store: Store) -> None:
    store_turn(store, make_turn("t1", "said", "answered"))

    assert reading_progress.known_uuids(store, ["t1", "t1-reply", "never"]) == {"t1", "t1-reply"}
    assert reading_progress.is_known_file(store, PATH)
