"""Unreadable parts are reported by file and position, up to a limit; each session reports on its own files."""

from __future__ import annotations

from pathlib import Path

from engram.models.engine.transaction import Store
from engram.models.sessions import reading_progress
from engram.transcripts.agents import Cursor, Place, Unreadable
from tests.models.conversations import make_turn, store_turn


def test_files_that_could_not_be_opened_come_before_lines_and_the_limit_holds_for_both(store: Store) -> None:
    store_turn(store, make_turn("t1", "said", session_id="s1"))
    store_turn(store, make_turn("t2", "said", session_id="s2"))
    reading_progress.note_error(store, Place(Path("/x/s2.jsonl")), "permission denied")
    with store.transaction() as tx:
        reading_progress.add_unreadable(tx, 1, 0, [Unreadable(offset, 10, "not JSON") for offset in (0, 50, 90)])

    faults = reading_progress.read_faults(store, limit=3)

    assert [(fault.path, fault.reason, fault.offset) for fault in faults] == [
        ("/x/s2.jsonl", "permission denied", None),
        ("/x/s1.jsonl", "not JSON", 0),
        ("/x/s1.jsonl", "not JSON", 50),
    ]


def test_a_session_tells_how_far_its_own_files_were_read(store: Store) -> None:
    store_turn(store, make_turn("t1", "said", session_id="s1"))
    store_turn(store, make_turn("t2", "said", session_id="s2"))
    before = reading_progress.load_progress(store, Place(Path("/x/s1.jsonl")))
    after = reading_progress.Progress(before.place, Cursor("40"), size=90, bytes_read=40, lines_read=2)
    with store.transaction() as tx:
        reading_progress.move_cursor(tx, before, after, before.transcript_id)
    reading_progress.note_gone(store, Path("/x/s1.jsonl"))

    (file,) = reading_progress.files_of_session(store, "s1")

    assert (file.path, file.offset, file.size, file.lines, file.is_gone) == ("/x/s1.jsonl", 40, 90, 2, True)
    assert reading_progress.files_of_session(store, "never") == []
